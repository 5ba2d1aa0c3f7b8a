"""Times between the chunks of streams, as seen from the listener."""

from typing import Final

import numpy as np

from cotenant.playback.arrivals import Int64Array

# Chunks that arrive less than this after the one before belong to its burst.
BURST_NS: Final = 5_000_000


def stream_gaps(arrival_ns: Int64Array, offsets: Int64Array) -> tuple[Int64Array, Int64Array]:
    """(Every gap between a stream's chunks, offsets of the streams' gaps).

    Stream i has the arrivals `offsets[i]` to `offsets[i + 1]`, in order, of chunks that hold audio.
    """
    counts = np.diff(offsets)
    inner = np.ones(arrival_ns.size, np.bool_)
    inner[offsets[:-1][counts > 0]] = False
    gaps = np.diff(arrival_ns, prepend=arrival_ns[:1])[inner]
    return gaps, np.concatenate(([0], np.cumsum(np.maximum(counts - 1, 0)))).astype(np.int64)


def gaps_time_weighted(gaps_ns: Int64Array, percents: tuple[int, ...]) -> list[int | None]:
    """How long the gap is that a random instant lies in: nearest ranks over total gap time.

    Bursts are not joined. None without a gap; 0 where all are.
    """
    if gaps_ns.size == 0:
        return [None] * len(percents)
    gaps = np.sort(gaps_ns)
    reached = np.cumsum(gaps)
    ranks = [-(-percent * int(reached[-1]) // 100) for percent in percents]
    return [int(gaps[place]) for place in np.searchsorted(reached, ranks).tolist()]
