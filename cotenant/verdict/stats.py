"""Quantiles and their intervals: nearest rank, design effect by time block, order statistics, block
bootstrap."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cotenant.verdict.binomial import at_most, clopper_pearson, normal_cdf, t_quantile
from cotenant.verdict.columns import Bools, Floats, Ints

TAIL: Final = 0.05
MIN_BLOCKS: Final = 6
_SEED: Final = 20_240_501
_REPLICATES: Final = 1000
_FEWEST_REPLICATES: Final = 200
# Elements of the weight matrix that are held at a time.
_MATRIX: Final = 2_000_000
_WORK: Final = 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """One-sided bounds of a value, in its unit; None where nothing can be said, with the reason in `why`."""

    low: float | None
    high: float | None
    n: int
    n_eff: float
    blocks: int
    why: str = ""


def nearest_rank(values: Floats, level: float, weights: Floats | None = None) -> float:
    """The smallest recorded value that at least `level` of the values (or of the weight) do not exceed.

    `values` may hold infinities, no NaN; at least one. Zero weight in all gives the largest value.
    """
    if weights is None:
        rank = rank_of(level, len(values))
        return float(np.partition(values, rank)[rank])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    found = np.searchsorted(reached, level * reached[-1] * (1 - 1e-12), side="left")
    return float(values[order[min(int(found), len(values) - 1)]])


def rank_of(level: float, size: int) -> int:
    """The index (from 0) of the nearest rank among `size` sorted values."""
    return min(size - 1, max(0, math.ceil(level * size - 1e-9) - 1))


def design_effect(good: Bools, blocks: Ints) -> float:
    """How many times fewer independent units there are than units, since those of a time block go together.

    The variance of the share between blocks over that of independent draws (ratio estimator over clusters);
    at least 1, and 1 where all units agree or a single block holds them all.
    """
    size = len(good)
    share = float(np.count_nonzero(good)) / size if size else 0.0
    _, index = np.unique(blocks, return_inverse=True)
    count = int(index.max()) + 1 if size else 0
    if count < 2 or share in (0.0, 1.0):
        return 1.0
    residual = np.bincount(index, weights=good - share, minlength=count)
    between = count / (count - 1) * float((residual**2).sum()) / size**2
    return max(1.0, between / (share * (1 - share) / size))


def share_bounds(good: Bools, blocks: Ints, tail: float = TAIL) -> Bounds:
    """Clopper-Pearson on the effective number of units."""
    size = len(good)
    count = len(np.unique(blocks))
    n_eff = size / design_effect(good, blocks)
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
    n_eff = min(len(values), independent or len(values)) / design_effect(values <= value, blocks)
    low, high = order_bounds(values, level, n_eff, tail)

    def statistic(counts: Floats, index: Ints) -> Floats:
        return _quantile_rows(values, counts, index, level, weights)

    found, count = _bootstrap(statistic, blocks, tail)
    if found is None:
        return _too_few(len(values), n_eff, count)
    return Bounds(low=min(low, found[0]), high=max(high, found[1]), n=len(values), n_eff=n_eff, blocks=count)


def ratio_bounds(numerators: Floats, denominators: Floats, blocks: Ints, tail: float = TAIL) -> Bounds:
    """Block bootstrap of a ratio of sums."""

    def statistic(counts: Floats, index: Ints) -> Floats:
        top = counts @ np.bincount(index, weights=numerators)
        bottom = counts @ np.bincount(index, weights=denominators)
        ratio: Floats = np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0)
        return ratio

    found, count = _bootstrap(statistic, blocks, tail)
    size = len(numerators)
    if found is None:
        return _too_few(size, float(size), count)
    return Bounds(low=found[0], high=found[1], n=size, n_eff=float(size), blocks=count)


def paired_bounds(
    own: Floats, reference: Floats, blocks: Ints, level: float, *, ratio: bool, tail: float = TAIL
) -> Bounds:
    """Block bootstrap over pairs of the ratio (or the difference) of two nearest-rank quantiles."""

    def statistic(counts: Floats, index: Ints) -> Floats:
        ours = _quantile_rows(own, counts, index, level, None)
        theirs = _quantile_rows(reference, counts, index, level, None)
        with np.errstate(invalid="ignore", divide="ignore"):
            compared: Floats = ours / theirs if ratio else ours - theirs
        return compared

    found, count = _bootstrap(statistic, blocks, tail)
    if found is None:
        return _too_few(len(own), float(len(own)), count)
    return Bounds(low=found[0], high=found[1], n=len(own), n_eff=float(len(own)), blocks=count)


def paired_share_bounds(own: Bools, reference: Bools, blocks: Ints, *, tail: float = TAIL) -> Bounds:
    """Block bootstrap over pairs of the difference of two shares, own minus reference."""
    gain = own.astype(np.float64) - reference.astype(np.float64)
    return ratio_bounds(gain, np.ones(len(gain)), blocks, tail)


@lru_cache(maxsize=256)
def expanded_tail(tail: float, blocks: int) -> float:
    """The tail to read off a bootstrap of few blocks so that it is wrong as seldom as asked.

    The percentile interval of n units is too narrow by sqrt((n-1)/n) and by using the normal in place of t
    (Hesterberg 2015, "expanded percentile interval").
    """
    return normal_cdf(math.sqrt(blocks / (blocks - 1)) * t_quantile(tail, blocks - 1))


def _too_few(n: int, n_eff: float, blocks: int) -> Bounds:
    why = f"{blocks} time blocks, at least {MIN_BLOCKS} are needed for an interval"
    if blocks >= MIN_BLOCKS:
        why = "it cannot be formed from these values"
    return Bounds(low=None, high=None, n=n, n_eff=n_eff, blocks=blocks, why=why)


def _bootstrap(statistic: Any, blocks: Ints, tail: float) -> tuple[tuple[float, float] | None, int]:
    """Bounds of `statistic(counts[replicates, blocks], block index of each unit)` and the number of
    blocks."""
    _, index = np.unique(blocks, return_inverse=True)
    count = int(index.max()) + 1 if len(index) else 0
    if count < MIN_BLOCKS:
        return None, count
    replicates = int(np.clip(_WORK // max(1, len(blocks)), _FEWEST_REPLICATES, _REPLICATES))
    generator = np.random.Generator(np.random.PCG64(_SEED))
    counts = generator.multinomial(count, np.full(count, 1 / count), size=replicates).astype(np.float64)
    step = max(1, _MATRIX // max(1, len(blocks)))
    found = np.concatenate([statistic(counts[at : at + step], index) for at in range(0, replicates, step)])
    found = found[~np.isnan(found)]
    if not len(found):
        return None, count
    share = expanded_tail(tail, count)
    return (nearest_rank(found, share), nearest_rank(found, 1 - share)), count


def _quantile_rows(
    values: Floats, counts: Floats, index: NDArray[Any], level: float, weights: Floats | None
) -> Floats:
    """The nearest-rank quantile of each replicate, each unit weighing as often as its block was drawn."""
    order = np.argsort(values, kind="stable")
    drawn = counts[:, index[order]]
    if weights is not None:
        drawn = drawn * weights[order]
    reached = np.cumsum(drawn, axis=1)
    wanted = level * reached[:, -1] * (1 - 1e-12)
    found = np.argmax(reached >= wanted[:, None], axis=1)
    return np.asarray(values[order][found], dtype=np.float64)


def _first(size: int, holds: Any) -> int:
    """The smallest rank in 1..size at which `holds` (false, then true), size + 1 if nowhere."""
    low, high = 1, size + 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
