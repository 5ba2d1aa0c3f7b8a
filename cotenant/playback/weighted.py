"""Nearest-rank quantiles, plain and weighted, in whole numbers."""

import math

import numpy as np

from cotenant.playback.arrivals import Int64Array


def rank_of(level: float, size: int) -> int:
    """The index (from 0) of the nearest rank among `size` sorted values."""
    return min(size - 1, max(0, math.ceil(level * size - 1e-9) - 1))


def nearest_rank(values: Int64Array, percent: int) -> int | None:
    """The smallest value that at least `percent` % of the values do not exceed; None without values."""
    if values.size == 0:
        return None
    rank = rank_of(percent / 100, values.size)
    return int(np.partition(values, rank)[rank])


def weighted_rank(values: Int64Array, weights: Int64Array, percent: int) -> int | None:
    """The smallest value up to which at least `percent` % of the weight lies; None without weight."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    if values.size == 0 or reached[-1] <= 0:
        return None
    total = int(reached[-1])
    return int(values[order][np.searchsorted(reached, -(-percent * total // 100))])
