"""Producers that are slower than real time: no lookahead mends those for long."""

import numpy as np

from cotenant.playback.arrivals import BoolArray
from cotenant.playback.blocks import Arrivals, Block, blocks_of
from cotenant.playback.gaps import BURST_NS

_LEAST_STEPS = 4
_Z95 = 1.6449


def slower_than_real_time(arrivals: Arrivals) -> BoolArray:
    """Streams whose need grows through their last half: chunks came more slowly than they play.

    The steps of the need from burst to burst (gap less the media of the burst before it) have a mean above
    0 by a one-sided 95 % t interval; at least four of them are needed. The t quantile is the normal one
    with its first correction (Abramowitz and Stegun 26.7.5).
    """
    slow = np.zeros(arrivals.streams, np.bool_)
    for block in blocks_of(arrivals):
        slow[block.stream] = _slow(block)
    return slow


def _slow(block: Block) -> BoolArray:
    begins = np.ones(block.arrival.size, np.bool_)
    begins[1:] = np.diff(block.arrival) >= BURST_NS
    begins[block.first] = True
    row = np.flatnonzero(begins)
    need = block.need[row].astype(np.float64)
    first = np.searchsorted(row, block.first)
    stop = np.append(first[1:], row.size)
    # Steps first + 1 .. stop - 1 lead to each burst but the first; the last half of them.
    middle = first + (stop - first) // 2
    steps = stop - middle
    enough = steps >= _LEAST_STEPS
    change = np.diff(need, prepend=0.0)
    squares = np.concatenate(([0.0], np.cumsum(change * change)))
    middle = np.where(enough, middle, first + 1)
    count = np.maximum(steps, 2)
    before = np.minimum(middle, stop) - 1
    mean = (need[stop - 1] - need[before]) / count
    spread = (
        np.maximum((squares[stop] - squares[np.minimum(middle, stop)]) / count - mean * mean, 0.0)
        * count
        / (count - 1)
    )
    quantile = _Z95 + (_Z95**3 + _Z95) / (4 * (count - 1))
    slow = mean > quantile * np.sqrt(spread / count)
    return np.asarray(enough & slow & (mean > 0), np.bool_)
