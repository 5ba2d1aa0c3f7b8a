"""How many independent units there are among units that go together in time: the design effect."""

from typing import Final

import numpy as np

from cotenant.verdict.bootstrap import (
    numbered,
    upper_t,
)
from cotenant.verdict.columns import Bools, Ints

ASSUMED_CORRELATION: Final = 0.1
_TOLD_FROM: Final = 40


def design_effect(good: Bools, blocks: Ints) -> float:
    """How many times fewer independent units there are than units, since those of a time block go together.

    The variance of the share between blocks over that of independent draws (ratio estimator over clusters);
    at least 1, and 1 where all units agree or a single block holds them all.
    """
    size = len(good)
    share = float(np.count_nonzero(good)) / size if size else 0.0
    index, count = numbered(blocks)
    if count < 2 or share in (0.0, 1.0):
        return 1.0
    residual = np.bincount(index, weights=good - share, minlength=count)
    between = count / (count - 1) * float((residual**2).sum()) / size**2
    return max(1.0, between / (share * (1 - share) / size))


def least_effect(rarer: float, per_block: float) -> float:
    """The design effect that is assumed where too few units disagree to estimate it.

    `rarer` is how many units are of the rarer kind, `per_block` how many a block holds. Streams that run at
    once share a GPU: all of them clean says nothing of how they would have gone together, so they are taken
    to be correlated by `ASSUMED_CORRELATION` until `_TOLD_FROM` of the rarer kind tell it; then by less and
    less. Both numbers are the least for which bounds held in 93 of 100 simulated runs with correlations up to
    0.2 (tests/bench/bench_coverage.py).
    """
    correlation = ASSUMED_CORRELATION * min(1.0, _TOLD_FROM / max(1.0, rarer))
    return 1.0 + max(0.0, per_block - 1) * correlation


def per_block_of(blocks: Ints) -> float:
    """How many units the block of a unit holds, on average over the units; 0 without any."""
    if not len(blocks):
        return 0.0
    index, count = numbered(blocks)
    sizes = np.bincount(index, minlength=count).astype(np.float64)
    return float((sizes**2).sum()) / len(blocks)


def effective_size(good: Bools, blocks: Ints, tail: float, independent: float | None = None) -> float:
    """How many independent units those are worth: their number over the design effect.

    The effect is known from so many blocks only, and the number is lowered for it (Korn and Graubard 1998: by
    the square of t over n - 1 to t over blocks - 1 degrees of freedom); it is never above the number that the
    least effect leaves of the `independent` units (None: all of them; fewer where units overlap).
    """
    size = len(good)
    _, count = numbered(blocks)
    whole = min(float(size), independent or size)
    bad = size - int(np.count_nonzero(good))
    per_block = per_block_of(blocks) * whole / size
    most = whole / least_effect(min(bad, size - bad) * whole / size, per_block)
    effect = design_effect(good, blocks)
    if effect == 1:
        return most
    return min(most, size / effect * (upper_t(tail, size - 1) / upper_t(tail, count - 1)) ** 2)
