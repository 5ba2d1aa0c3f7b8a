"""Times between the chunks of a stream, as seen from the listener."""

from typing import Final

import numpy as np

from cotenant.playback.arrivals import NULL_NS, Int64Array
from cotenant.playback.blocks import Arrivals, blocks_of

# Chunks that arrive less than this after the one before belong to its burst.
BURST_NS: Final = 5_000_000


def chunk_gaps(arrival_ns: Int64Array) -> Int64Array:
    """Gaps between the bursts of one stream (arrivals in order): from one's last chunk to the next."""
    gaps = np.diff(arrival_ns)
    return gaps[gaps >= BURST_NS]


def gap_time_weighted(arrival_ns: Int64Array, percent: int = 99) -> int | None:
    """How long the gap is that a random instant of the stream lies in: nearest rank over total gap time.

    Bursts are not joined. None under two chunks; 0 where all arrived at once.
    """
    if arrival_ns.size < 2:
        return None
    gaps = np.sort(np.diff(arrival_ns))
    reached = np.cumsum(gaps)
    return int(gaps[np.searchsorted(reached, -(-percent * int(reached[-1]) // 100))])


def fleet_gaps(arrivals: Arrivals) -> tuple[Int64Array, Int64Array, Int64Array]:
    """(Every gap between bursts, the stream it belongs to, the largest gap of each stream or NULL_NS).

    In order of stream and time; a stream of a single burst has no gap.
    """
    gaps, owners = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    largest = np.full(arrivals.streams, NULL_NS, np.int64)
    for block in blocks_of(arrivals):
        step = np.diff(block.arrival)
        between = step >= BURST_NS
        between[block.first[1:] - 1] = False
        row = np.flatnonzero(between)
        stream = block.stream[block.owner(row + 1)]
        gaps.append(step[row])
        owners.append(stream)
        np.maximum.at(largest, stream, step[row])
    return np.concatenate(gaps), np.concatenate(owners), largest
