"""How much likelier something is beside something else, with an interval that knows what goes together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cotenant.verdict.bootstrap import numbered, upper_t
from cotenant.verdict.columns import Bools, Floats, Ints

# Added to the late ones on either side, so that none of them is zero (Haldane and Anscombe).
CONTINUITY: Final = 0.5
TAIL: Final = 0.025
# With fewer clusters that hold a late one an interval would tell nothing.
LEAST_CLUSTERS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskRatio:
    """The share of late ones beside something over that without it, with its 95 % interval.

    `n`: how many were compared, late or not; `beside`, `without`: how many of them were late.
    """

    value: float
    low: float
    high: float
    n: int
    beside: int
    without: int

    def entry(self) -> dict[str, Any]:
        """As it stands in the summary."""
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        return {**{name: float(f"{number:.4g}") for name, number in numbers.items()}, "n": self.n}


def risk_ratio(
    late: Bools, beside: Bools, strata: Ints, clusters: Sequence[Ints], tests: int = 1
) -> RiskRatio | str:
    """The Mantel-Haenszel risk ratio over `strata`, or why there is none. A value a unit.

    Late ones come in bunches: the variance is that between the clusters, along each of the ways to form them
    and along the first two at once (Cameron, Gelbach and Miller 2011), over that of single units; the late
    ones are divided by this design effect. Half a late one is added on either side, so nothing is divided by
    zero, and the ratio is drawn towards 1 the more the fewer independent ones there are. The interval is
    Student's with as many degrees of freedom as clusters hold a late one, less one; it holds for `tests`
    ratios together (Bonferroni).
    """
    size = int(strata.max(initial=-1)) + 1
    on, off = (np.bincount(strata[side], minlength=size).astype(float) for side in (beside, ~beside))
    both = (on > 0) & (off > 0)
    if not both.any():
        return "it was always there or never" if len(late) else "there was nothing to compare"
    kept = both[strata]
    late, beside, strata = late[kept], beside[kept], strata[kept]
    clusters = [cluster[kept] for cluster in clusters]
    if not late.any():
        return "no stall among what can be compared"
    bunches = min(len(np.unique(cluster[late])) for cluster in clusters)
    if bunches < LEAST_CLUSTERS:
        return f"the stalls came in {bunches} bunch{'es' if bunches > 1 else ''}: too few to tell"
    total = np.maximum(1.0, on + off)
    sums = [np.bincount(strata[late & side], minlength=size) for side in (beside, ~beside)]
    weight = [(off / total)[strata], (on / total)[strata]]
    above, below = float((sums[0] * off / total).sum()), float((sums[1] * on / total).sum())
    effect = _effect(late, beside, strata, sums, (on, off), weight, above, below, clusters)
    shared = float((on * off / total)[both].sum())
    counts = [float(sums[0].sum()) / effect, float(sums[1].sum()) / effect]
    numbers = [float(on[both].sum()), float(off[both].sum())]
    top = above / effect + CONTINUITY * shared / numbers[0]
    bottom = below / effect + CONTINUITY * shared / numbers[1]
    variance = sum(
        max(0.0, 1 / (count + CONTINUITY) - 1 / (number + 1))
        for count, number in zip(counts, numbers, strict=True)
    )
    wide = upper_t(TAIL / max(1, tests), bunches - 1) * math.sqrt(variance)
    value = top / bottom
    # An interval wider than this tells nothing more, and must stay a number.
    wide = min(wide, 100.0)
    return RiskRatio(
        value=value,
        low=value * math.exp(-wide),
        high=value * math.exp(wide),
        n=len(late),
        beside=int(np.count_nonzero(late & beside)),
        without=int(np.count_nonzero(late & ~beside)),
    )


def _effect(
    late: Bools,
    beside: Bools,
    strata: Ints,
    sums: Sequence[Ints],
    numbers: Sequence[Floats],
    weight: Sequence[Floats],
    above: float,
    below: float,
    clusters: Sequence[Ints],
) -> float:
    """The design effect: the variance of the estimating function between clusters over that of units."""
    ratio = (above + CONTINUITY) / (below + CONTINUITY)
    shares = [(count / np.maximum(1.0, number))[strata] for count, number in zip(sums, numbers, strict=True)]
    score = np.where(beside, (late - shares[0]) * weight[0], -ratio * (late - shares[1]) * weight[1])
    units = float((score**2).sum())
    if units <= 0:
        return 1.0
    ways = [numbered(cluster) for cluster in clusters]
    alone = [_between(score, index, count) for index, count in ways]
    if len(ways) > 1:
        cells = numbered(ways[0][0] * ways[1][1] + ways[1][0])
        alone.append(alone[0] + alone[1] - _between(score, *cells))
    return max(1.0, *(found / units for found in alone))


def _between(score: Floats, index: Ints, count: int) -> float:
    return float((np.bincount(index, weights=score) ** 2).sum()) * count / max(1, count - 1)
