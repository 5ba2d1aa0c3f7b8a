"""When a stream begins to play, and how far from too late its chunks were."""

import numpy as np

from cotenant.playback.arrivals import Int64Array, ceil_to_grid
from cotenant.playback.options import PlayerOptions
from cotenant.playback.segments import needed_by


def start_of(
    arrival_ns: Int64Array, ends_ns: Int64Array, options: PlayerOptions, limit_ns: int, truncated: bool
) -> tuple[int, int] | None:
    """(Wall time at which playback starts, index of the chunk that started it); None if it never did.

    `limit_ns` is the end of the stream or, truncated, when it was given up. Where the end of the stream
    started playback, or no chunk is needed any more, the index is that of the last chunk.
    """
    first_ns, chunks = int(arrival_ns[0]), arrival_ns.size
    index = 0
    if options.start == "delay":
        ready_ns = first_ns + options.lookahead_ns
    else:
        index = int(np.searchsorted(ends_ns, options.lookahead_ns))
        if index == chunks and truncated:
            return None
        ready_ns = int(arrival_ns[index]) if index < chunks else limit_ns
    start_ns = ceil_to_grid(ready_ns, first_ns, options.quantum_ns)
    if truncated and start_ns > limit_ns:
        return None
    return start_ns, min(index, chunks - 1)


def required_of(
    arrival: Int64Array, begins: Int64Array, ends: Int64Array, quantum_ns: int, give_up_ns: int | None
) -> int:
    """R: how long after the first arrival a player must start for no chunk to be late.

    `give_up_ns` (truncated only) is when the chunk that never came counts as arriving.
    """
    latest = int((arrival - needed_by(begins, quantum_ns)).max())
    if give_up_ns is not None:
        latest = max(latest, give_up_ns - int(needed_by(ends[-1:], quantum_ns)[0]))
    return latest - int(arrival[0])


def headroom_of(
    arrival: Int64Array,
    ends: Int64Array,
    media: Int64Array,
    options: PlayerOptions,
    start: tuple[int, int],
    give_up_ns: int | None,
) -> int | None:
    """How much later all that came after the start (see `start_of`) could have come; None: nothing did."""
    # Strictly later in time: a chunk split at one arrival must not change what the split stream is worth.
    after = int(np.searchsorted(arrival, arrival[start[1]], side="right"))
    needs = arrival[after:] - needed_by(ends[after:] - media[after:], options.quantum_ns)
    latest = int(needs.max()) if needs.size else None
    if give_up_ns is not None:
        missing = give_up_ns - int(needed_by(ends[-1:], options.quantum_ns)[0])
        latest = missing if latest is None else max(latest, missing)
    return None if latest is None else start[0] - latest
