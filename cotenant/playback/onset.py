"""When the first audible sample can be heard by a player without a buffer."""

import numpy as np

from cotenant.playback.arrivals import Int64Array
from cotenant.playback.fleet import Arrivals


def onsets(arrivals: Arrivals, silence_ns: Int64Array) -> Int64Array:
    """ns, shape (streams,), of streams that begin with so much silence each; 0 for one without a chunk.

    A player that starts with the first chunk and goes on whenever it has run dry plays chunk j no earlier
    than a_j, and no earlier than the ones before allow: the sample behind `silence_ns` of audio is heard at
    max(a_j - D_j) + silence_ns over the chunks that begin with D_j <= silence_ns of audio before them.
    """
    counts = np.diff(arrivals.offsets)
    starts = arrivals.offsets[:-1][counts > 0]
    heard = np.zeros(len(counts), dtype=np.int64)
    if not len(starts):
        return heard
    total = np.cumsum(arrivals.media_ns)
    before = total - arrivals.media_ns
    before -= np.repeat(before[starts], counts[counts > 0])
    ready = arrivals.arrival_ns - before
    counted = before <= np.repeat(silence_ns, counts)
    ready = np.where(counted, ready, np.iinfo(np.int64).min)
    heard[counts > 0] = np.maximum.reduceat(ready, starts) + silence_ns[counts > 0]
    return heard
