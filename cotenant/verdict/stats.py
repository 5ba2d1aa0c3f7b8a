"""Quantiles, shares and ratios with their intervals: order statistics, Clopper-Pearson, block bootstrap."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cotenant.playback.weighted import rank_of
from cotenant.units import counted
from cotenant.verdict.binomial import at_most, clopper_pearson
from cotenant.verdict.bootstrap import (
    MIN_BLOCKS,
    Statistic,
    bootstrap,
    nearest_rank,
    numbered,
    quantile_statistic,
)
from cotenant.verdict.columns import Bools, Floats, Ints
from cotenant.verdict.effective_size import effective_size

TAIL: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """One-sided bounds of a value, in its unit; None where nothing can be said, with the reason in `why`."""

    low: float | None
    high: float | None
    n: int
    n_eff: float
    blocks: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rare:
    """Numerators that are zero for most units (stalls, freezes, dropped frames).

    `size`: how large one is taken to be where none was seen. `varies`: some are far larger than others, so
    that the few that were seen may all have been small ones.
    """

    size: float
    varies: bool = True


def share_bounds(good: Bools, blocks: Ints, tail: float = TAIL) -> Bounds:
    """Clopper-Pearson on the effective number of units."""
    size = len(good)
    _, count = numbered(blocks)
    n_eff = effective_size(good, blocks, tail)
    low, high = clopper_pearson(float(np.count_nonzero(good)) / size * n_eff, n_eff, tail)
    return Bounds(low=low, high=high, n=size, n_eff=n_eff, blocks=count)


def order_bounds(values: Floats, level: float, n_eff: float, tail: float = TAIL) -> tuple[float, float]:
    """Distribution-free bounds of a quantile by order statistics, as if `n_eff` of the values were
    independent.

    Infinite where no recorded value can bound it: a p95 has an upper bound from 59 on.
    """
    size, whole = len(values), max(1, math.floor(n_eff + 1e-9))
    ordered = np.sort(values)
    # Smallest rank r with P(Bin(n, level) <= r - 1) >= 1 - tail.
    upper = _first(whole, lambda rank: at_most(rank - 1, whole, level) >= 1 - tail)
    # Largest rank r with P(Bin(n, level) >= r) >= 1 - tail.
    lower = _first(whole, lambda rank: 1 - at_most(rank - 1, whole, level) < 1 - tail) - 1
    high = math.inf if upper > whole else float(ordered[rank_of(upper / whole, size)])
    low = -math.inf if lower < 1 else float(ordered[max(0, math.floor(lower / whole * size + 1e-9) - 1)])
    return low, high


def quantile_bounds(
    values: Floats,
    blocks: Ints,
    level: float,
    *,
    weights: Floats | None = None,
    independent: float | None = None,
    tail: float = TAIL,
) -> Bounds:
    """Block bootstrap of a nearest-rank quantile, never narrower than order statistics on the effective
    number."""
    value = nearest_rank(values, level, weights)
    n_eff = effective_size(values <= value, blocks, tail, independent)
    low, high = order_bounds(values, level, n_eff, tail)

    def prepare(index: Ints, count: int) -> Statistic:
        return quantile_statistic(values, index, count, level, weights)

    found, count = bootstrap(prepare, blocks, tail)
    if found is None:
        return _too_few(len(values), n_eff, count)
    return Bounds(low=min(low, found[0]), high=max(high, found[1]), n=len(values), n_eff=n_eff, blocks=count)


def ratio_bounds(
    numerators: Floats, denominators: Floats, blocks: Ints, tail: float = TAIL, *, rare: Rare | None = None
) -> Bounds:
    """Block bootstrap of a ratio of sums.

    A bootstrap knows nothing of what happened to none or few: of what is `rare` the bounds are never narrower
    than Clopper-Pearson on the share of units that have any, times how large it is.
    """

    def prepare(index: Ints, count: int) -> Statistic:
        top = np.bincount(index, weights=numerators, minlength=count)
        bottom = np.bincount(index, weights=denominators, minlength=count)

        def statistic(counts: Floats) -> Floats:
            below = counts @ bottom
            ratio: Floats = np.divide(counts @ top, below, out=np.full(len(below), np.nan), where=below > 0)
            return ratio

        return statistic

    found, count = bootstrap(prepare, blocks, tail)
    size = len(numerators)
    n_eff = float(size) if rare is None else effective_size(numerators == 0, blocks, tail)
    if found is None:
        return _too_few(size, n_eff, count)
    low, high = found
    if rare is not None:
        few = _rare_bounds(numerators, n_eff, rare, tail)
        mean = float(denominators.sum()) / size
        low, high = min(low, few[0] / mean), max(high, few[1] / mean)
    return Bounds(low=low, high=high, n=size, n_eff=n_eff, blocks=count)


def _rare_bounds(numerators: Floats, n_eff: float, rare: Rare, tail: float) -> tuple[float, float]:
    """Bounds of the mean numerator, most of them zero."""
    some = numerators[numerators > 0]
    count = len(some)
    low, high = clopper_pearson(count / len(numerators) * n_eff, n_eff, tail)
    if not count:
        return 0.0, high * rare.size
    mean = float(some.mean())
    # A quarter of the means of so many exponential sizes lie below this share of the true one (a quantile of
    # the gamma distribution, by Wilson and Hilferty 1931).
    below = (1 - 1 / (9 * count) - 0.6745 / (3 * math.sqrt(count))) ** 3 if rare.varies else 1.0
    return low * mean, high * mean / below


def paired_bounds(
    own: Floats, reference: Floats, blocks: Ints, level: float, *, ratio: bool, tail: float = TAIL
) -> Bounds:
    """Block bootstrap over pairs of the ratio (or the difference) of two nearest-rank quantiles."""

    def prepare(index: Ints, count: int) -> Statistic:
        ours = quantile_statistic(own, index, count, level, None)
        theirs = quantile_statistic(reference, index, count, level, None)

        def statistic(counts: Floats) -> Floats:
            with np.errstate(invalid="ignore", divide="ignore"):
                compared: Floats = ours(counts) / theirs(counts) if ratio else ours(counts) - theirs(counts)
            return compared

        return statistic

    found, count = bootstrap(prepare, blocks, tail)
    if found is None:
        return _too_few(len(own), float(len(own)), count)
    return Bounds(low=found[0], high=found[1], n=len(own), n_eff=float(len(own)), blocks=count)


def paired_share_bounds(own: Bools, reference: Bools, blocks: Ints, *, tail: float = TAIL) -> Bounds:
    """Block bootstrap over pairs of the difference of two shares, own minus reference; never narrower than
    Clopper-Pearson on the pairs that lost and on those that gained."""
    gain = own.astype(np.float64) - reference.astype(np.float64)
    found = ratio_bounds(gain, np.ones(len(gain)), blocks, tail)
    if found.low is None or found.high is None:
        return found
    slack = []
    for changed in (gain < 0, gain > 0):
        share = float(np.count_nonzero(changed)) / len(gain)
        n_eff = effective_size(changed, blocks, tail)
        slack.append(clopper_pearson(share * n_eff, n_eff, tail)[1] - share)
    value = float(gain.mean())
    return replace(found, low=min(found.low, value - slack[0]), high=max(found.high, value + slack[1]))


def _too_few(n: int, n_eff: float, blocks: int) -> Bounds:
    why = f"{counted(blocks, 'time block')}, at least {MIN_BLOCKS} are needed for an interval"
    if blocks >= MIN_BLOCKS:
        why = "it cannot be formed from these values"
    return Bounds(low=None, high=None, n=n, n_eff=n_eff, blocks=blocks, why=why)


def _first(size: int, holds: Callable[[int], bool]) -> int:
    """The smallest rank in 1..size at which `holds` (false, then true), size + 1 if nowhere."""
    low, high = 1, size + 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
