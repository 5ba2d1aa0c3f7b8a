"""The stretches during which a player's clock runs: the heart of every policy."""

from typing import NamedTuple

import numpy as np

from cotenant.playback.arrivals import Int64Array, ceil_to_grid
from cotenant.playback.options import PlayerOptions

_FIRST_SCAN = 32


class Segment(NamedTuple):
    """From `wall_ns` on, media is played from `media_ns` at rate 1. `chunk` is the chunk that begins there.

    `held` is the last chunk that had come when it began (refill waits for several). `open`: it never began,
    because the stream was given up at `wall_ns`.
    """

    wall_ns: int
    media_ns: int
    chunk: int
    held: int
    open: bool = False


def needed_by(position_ns: Int64Array, quantum_ns: int) -> Int64Array:
    """When, after the start, the device asks for the media at each position: as its block begins."""
    return position_ns // quantum_ns * quantum_ns if quantum_ns else position_ns


def lateness(arrival: Int64Array, begins: Int64Array, segment: Segment, quantum_ns: int) -> Int64Array:
    """How much later than the clock asks for it each chunk's first sample could be played; not late: <= 0.

    With a quantum, a chunk can be played from the first block that begins at or after its arrival.
    """
    since = arrival - segment.wall_ns
    if quantum_ns:
        since = -(-since // quantum_ns) * quantum_ns
    return since - (begins - segment.media_ns)


def segments_of(
    arrival: Int64Array,
    media: Int64Array,
    ends: Int64Array,
    options: PlayerOptions,
    start_ns: int,
    limit_ns: int,
    truncated: bool,
) -> list[Segment]:
    """The segments of one stream. `limit_ns` is its end, or, truncated, when it was given up.

    A truncated stream that falls silent for good ends with an open segment at `limit_ns`.
    """
    begins, chunks = ends - media, arrival.size
    segments = [Segment(start_ns, 0, 0, 0)]
    tolerated_ns: int | None = 0 if options.after_underrun != "drop" else options.resync_after_ns
    refill_ns = options.refill_target_ns if options.after_underrun == "refill" else 0
    while tolerated_ns is not None:
        late = _first_late(arrival, begins, segments[-1], options.quantum_ns, tolerated_ns)
        if late == chunks:
            break
        held, position_ns = late, int(begins[late])
        ready_ns: int | None = int(arrival[late])
        if refill_ns:
            held = int(np.searchsorted(ends, position_ns + refill_ns))
            ready_ns = int(arrival[held]) if held < chunks else None if truncated else limit_ns
            held = min(held, chunks - 1)
        wall_ns = None if ready_ns is None else ceil_to_grid(ready_ns, int(arrival[0]), options.quantum_ns)
        dry_ns = segments[-1].wall_ns + position_ns - segments[-1].media_ns
        if wall_ns is None or (truncated and dry_ns < limit_ns < wall_ns):
            segments.append(Segment(max(limit_ns, dry_ns), position_ns, late, held, True))
            return segments
        segments.append(Segment(wall_ns, position_ns, late, held))
    last, audio_ns = segments[-1], int(ends[-1])
    if truncated and limit_ns > last.wall_ns + audio_ns - last.media_ns:
        segments.append(Segment(limit_ns, audio_ns, chunks, chunks, True))
    return segments


def _first_late(
    arrival: Int64Array, begins: Int64Array, segment: Segment, quantum_ns: int, tolerated_ns: int
) -> int:
    """Index of the first chunk not yet in hand that is later than tolerated; all chunks if none is.

    Looks through ever larger pieces, so that many stalls cost no more than one pass over the stream.
    """
    low, size = segment.held + 1, _FIRST_SCAN
    while low < arrival.size:
        high = min(low + size, arrival.size)
        late = lateness(arrival[low:high], begins[low:high], segment, quantum_ns) > tolerated_ns
        hit = int(late.argmax())
        if late[hit]:
            return low + hit
        low, size = high, size * 2
    return arrival.size
