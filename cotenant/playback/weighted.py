"""Nearest-rank quantiles, plain and weighted, in whole numbers."""

import numpy as np

from cotenant.playback.arrivals import Int64Array


def nearest_rank(values: Int64Array, percent: int) -> int | None:
    """The smallest value that at least `percent` % of the values do not exceed; None without values."""
    if values.size == 0:
        return None
    rank = max(1, -(-percent * values.size // 100))
    return int(np.partition(values, rank - 1)[rank - 1])


def weighted_rank(values: Int64Array, weights: Int64Array, percent: int) -> int | None:
    """The smallest value up to which at least `percent` % of the weight lies; None without weight."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    if values.size == 0 or reached[-1] <= 0:
        return None
    total = int(reached[-1])
    return int(values[order][np.searchsorted(reached, -(-percent * total // 100))])
