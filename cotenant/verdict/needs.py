"""How many more units a gate that is INCONCLUSIVE needs, if they go on like those there are."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from cotenant.verdict.binomial import clopper_pearson
from cotenant.verdict.bootstrap import MIN_BLOCKS
from cotenant.verdict.bounds import sample_of
from cotenant.verdict.columns import Bools, Ints
from cotenant.verdict.sample import Quantiles, Ratio, Sample, Share
from cotenant.verdict.stats import Bounds, design_effect

_MOST: Final = 1_000_000


def more_needed(
    op: str,
    limit: float,
    value: float | None,
    samples: dict[str, Sample],
    path: str,
    bounds: Bounds,
    tail: float,
) -> int | None:
    """About how many more; None where it cannot be said, or where more of the same would never decide."""
    sample, level = sample_of(samples, path)
    if value is None or not bounds.n:
        return None
    if bounds.low is None and 0 < bounds.blocks < MIN_BLOCKS:
        return _rounded(bounds.n * (MIN_BLOCKS / bounds.blocks - 1))
    if isinstance(sample, Share):
        return _of_share(sample.good, sample.blocks, limit, tail)
    if isinstance(sample, Quantiles) and level is not None and sample.weights is None:
        # "p95 <= L" says that a share of at least 95 % of the units is at or under L.
        below = sample.values <= limit if op in ("<=", ">") else sample.values < limit
        return _of_share(below, sample.blocks, level, tail)
    if isinstance(sample, Ratio) and bounds.low is not None and bounds.high is not None:
        margin, width = abs(limit - value), max(bounds.high - value, value - bounds.low)
        if margin <= 0 or not math.isfinite(width):
            return None
        return _rounded(bounds.n * ((width / margin) ** 2 - 1))
    return None


def _of_share(good: Bools, blocks: Ints, limit: float, tail: float) -> int | None:
    size, effect = len(good), design_effect(good, blocks)
    share = float(np.count_nonzero(good)) / size

    def decided(n: float) -> bool:
        low, high = clopper_pearson(share * n, n, tail)
        return low >= limit if share >= limit else high < limit

    n_eff = _smallest(decided, size / effect)
    return None if n_eff is None else _rounded((n_eff - size / effect) * effect)


def _smallest(decided: Callable[[float], bool], n: float) -> float | None:
    low, high = n, max(2 * n, 64.0)
    while not decided(high):
        low, high = high, 2 * high
        if high > _MOST:
            return None
    while high - low > max(0.5, high / 200):
        middle = (low + high) / 2
        if decided(middle):
            high = middle
        else:
            low = middle
    return high


def _rounded(number: float) -> int | None:
    """Up to two figures, since it is only about."""
    if not math.isfinite(number) or number > _MOST:
        return None
    if number <= 10:
        return max(1, math.ceil(number))
    step = int(10 ** (math.floor(math.log10(number)) - 1))
    return math.ceil(number / step) * step
