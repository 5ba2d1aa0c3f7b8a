"""How many more units a gate that is INCONCLUSIVE needs, if they go on like those there are."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from cotenant.verdict.binomial import clopper_pearson
from cotenant.verdict.bootstrap import MIN_BLOCKS
from cotenant.verdict.bounds import sample_of
from cotenant.verdict.columns import Bools, Ints
from cotenant.verdict.effective_size import design_effect, least_effect, per_block_of
from cotenant.verdict.sample import Compared, Quantiles, Ratio, Sample, Share
from cotenant.verdict.stats import Bounds

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
    blocks = sample.blocks if isinstance(sample, Compared) else bounds.blocks
    if bounds.low is None and 0 < blocks < MIN_BLOCKS:
        return _rounded(bounds.n * (MIN_BLOCKS / blocks - 1))
    if isinstance(sample, Share):
        return _of_share(sample.good, sample.blocks, limit, tail)
    if isinstance(sample, Quantiles) and level is not None and sample.weights is None:
        # "p95 <= L" says that a share of at least 95 % of the units is at or under L.
        below = sample.values <= limit if op in ("<=", ">") else sample.values < limit
        return _of_share(below, sample.blocks, level, tail)
    if isinstance(sample, Ratio) and bounds.low is not None and bounds.high is not None:
        if limit == value == 0:
            return _rounded(bounds.n * (tolerated_from(tail) / bounds.n_eff - 1))
        margin, width = abs(limit - value), max(bounds.high - value, value - bounds.low)
        if margin <= 0 or not math.isfinite(width):
            return None
        # Of what never happened the bound shrinks with the number, else with its root.
        return _rounded(bounds.n * ((width / margin) ** (2 if sample.numerators.any() else 1) - 1))
    if isinstance(sample, Compared):
        return _of_comparison(op, limit, value, sample.widened_by, bounds)
    return None


def _of_comparison(op: str, limit: float, value: float, widened_by: float, bounds: Bounds) -> int | None:
    """From the width of the interval, which shrinks with the root of the number; a factor by which its bounds
    were widened stays."""
    low, high = bounds.low, bounds.high
    if low is None or high is None or not math.isfinite(high - low) or not math.isfinite(value):
        return None
    if value < limit or (value == limit and op in ("<", ">=")):
        width, margin = high / widened_by - value, limit / widened_by - value
    else:
        width, margin = value - low * widened_by, value - limit * widened_by
    if margin <= 0:
        return None
    return _rounded(bounds.n * ((width / margin) ** 2 - 1))


def tolerated_from(tail: float) -> float:
    """How many independent units without a single bad one say that at most 5 % are bad."""
    return math.log(tail) / math.log(0.95)


def _of_share(good: Bools, blocks: Ints, limit: float, tail: float) -> int | None:
    size, effect, per_block = len(good), design_effect(good, blocks), per_block_of(blocks)
    share = float(np.count_nonzero(good)) / size
    rarer = min(share, 1 - share)

    def decided(n: float) -> bool:
        n_eff = n / max(effect, least_effect(rarer * n, per_block))
        low, high = clopper_pearson(share * n_eff, n_eff, tail)
        return low >= limit if share >= limit else high < limit

    needed = _smallest(decided, float(size))
    return None if needed is None else _rounded(needed - size)


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
