"""Nearest ranks, and the bootstrap of time blocks."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from cotenant.playback.weighted import rank_of
from cotenant.verdict.binomial import normal_cdf, t_quantile
from cotenant.verdict.columns import Floats, Ints

MIN_BLOCKS: Final = 6
_SEED: Final = 20_240_501
_REPLICATES: Final = 1000
# Values that a bootstrapped quantile may take, half of them within `_AROUND` of the level.
_CANDIDATES: Final = 2_000
_AROUND: Final = 0.05
_LOOK_UP_LIMIT: Final = 1 << 24

# Counts with which the blocks were drawn [replicates, blocks] -> the statistic of each replicate.
Statistic = Callable[[Floats], Floats]


def nearest_rank(values: Floats, level: float, weights: Floats | None = None) -> float:
    """The smallest recorded value that at least `level` of the values (or of the weight) do not exceed.

    `values` may hold infinities, no NaN; at least one. Zero weight in all gives the largest value.
    """
    if weights is None:
        rank = rank_of(level, len(values))
        return float(np.partition(values, rank)[rank])
    return nearest_ranks(values, (level,), weights)[0]


def nearest_ranks(values: Floats, levels: Sequence[float], weights: Floats | None = None) -> list[float]:
    """Several nearest ranks of the same values, sorted once."""
    if weights is None:
        ranks = [rank_of(level, len(values)) for level in levels]
        parted = np.partition(values, ranks)
        return [float(parted[rank]) for rank in ranks]
    if weights is values:
        ordered = reached = np.sort(values)
    else:
        order = np.argsort(values, kind="stable")
        ordered, reached = values[order], weights[order]
    reached = np.cumsum(reached)
    found = np.searchsorted(reached, np.array(levels) * reached[-1] * (1 - 1e-12), side="left")
    return [float(ordered[min(int(place), len(values) - 1)]) for place in found]


def bootstrap(
    prepare: Callable[[Ints, int], Statistic], blocks: Ints, tail: float
) -> tuple[tuple[float, float] | None, int]:
    """Bounds of a statistic and the number of blocks.

    `prepare(block index of each unit, number of blocks)` gives a function of the counts with which the
    blocks were drawn [replicates, blocks].
    """
    index, count = numbered(blocks)
    if count < MIN_BLOCKS:
        return None, count
    found = prepare(index, count)(_drawn(count))
    found = found[~np.isnan(found)]
    if not len(found):
        return None, count
    share = expanded_tail(tail, count)
    return (nearest_rank(found, share), nearest_rank(found, 1 - share)), count


@lru_cache(maxsize=32)
def _drawn(count: int) -> Floats:
    """How often each of so many blocks is drawn in each replicate: the same for every statistic."""
    generator = np.random.Generator(np.random.PCG64(_SEED))
    counts = generator.multinomial(count, np.full(count, 1 / count), size=_REPLICATES).astype(np.float64)
    counts.setflags(write=False)
    return counts


def quantile_statistic(
    values: Floats, index: Ints, count: int, level: float, weights: Floats | None
) -> Statistic:
    """The nearest-rank quantile of each replicate, each unit weighing as often as its block was drawn.

    Of many values it is rounded up to the next of some thousand of them, which lie closest around the level.
    """
    candidates = _candidates(values, level)
    place = np.searchsorted(candidates, values) * count + index
    table = np.bincount(place, weights=weights, minlength=len(candidates) * count)
    reached = np.cumsum(table.reshape(len(candidates), count), axis=0).astype(np.float64)

    def statistic(counts: Floats) -> Floats:
        wanted = level * (counts @ reached[-1]) * (1 - 1e-12)
        low, high = np.zeros(len(counts), dtype=np.int64), np.full(len(counts), len(candidates) - 1)
        # By halving: what is reached rises with the candidate, in every replicate.
        while bool((low < high).any()):
            middle = (low + high) // 2
            enough = np.einsum("rb,rb->r", counts, reached[middle]) >= wanted
            low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
        quantile: Floats = candidates[low]
        return quantile

    return statistic


def _candidates(values: Floats, level: float) -> Floats:
    ordered = np.sort(values)
    if len(ordered) > _CANDIDATES:
        shares = np.concatenate(
            [np.linspace(0, 1, _CANDIDATES // 2), level + np.linspace(-_AROUND, _AROUND, _CANDIDATES // 2)]
        )
        ranks = np.unique(np.clip(np.ceil(shares * len(ordered)).astype(np.int64), 1, len(ordered)))
        ordered = ordered[ranks - 1]
    return np.unique(ordered)


def numbered(blocks: Ints) -> tuple[Ints, int]:
    """The blocks counted from 0, and how many there are."""
    if not len(blocks):
        return blocks, 0
    low, high = int(blocks.min()), int(blocks.max())
    if high - low > _LOOK_UP_LIMIT:
        different, index = np.unique(blocks, return_inverse=True)
        return index, len(different)
    there = np.zeros(high - low + 1, dtype=np.bool_)
    there[blocks - low] = True
    return (np.cumsum(there) - 1)[blocks - low], int(np.count_nonzero(there))


@lru_cache(maxsize=256)
def expanded_tail(tail: float, blocks: int) -> float:
    """The tail to read off a bootstrap of few blocks so that it is wrong as seldom as asked.

    The percentile interval of n units is too narrow by sqrt((n-1)/n) and by using the normal in place of t
    (Hesterberg 2015, "expanded percentile interval").
    """
    return normal_cdf(math.sqrt(blocks / (blocks - 1)) * -upper_t(tail, blocks - 1))


@lru_cache(maxsize=256)
def upper_t(tail: float, degrees: int) -> float:
    """What Student's t exceeds with probability `tail`."""
    return t_quantile(1 - tail, degrees)
