"""A stage as a whole against the baseline: for what is always there, and leaves nothing to compare within the
stage."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cotenant.verdict.bootstrap import numbered, upper_t
from cotenant.verdict.columns import Floats, Ints
from cotenant.verdict.facts import Facts, Paired
from cotenant.verdict.stages import StageFacts

TAIL: Final = 0.025
LEAST_PAIRS: Final = 3
LEAST_BLOCKS: Final = 3
NO_BASELINE: Final = "there is no baseline to compare with"
FEW_PAIRS: Final = "only {} utterances have a pair in the baseline"
NO_NOISE: Final = "how much this run's own baselines differ is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slower:
    """By how much a stage's utterances take longer to make than their pairs in the baseline (geometric mean
    of the ratios of the real-time factors), with its 95 % interval: Student's over the pairs, or over time
    blocks where these differ more (utterances that are spoken at once share a server); widened by how far the
    run's own two baselines differ. `stalled`: in how many of the pairs something stalled here, and there."""

    value: float
    low: float
    high: float
    pairs: int
    rtf: float
    rtf_baseline: float
    stalled: int = 0
    stalled_baseline: int = 0

    @property
    def stalls_more(self) -> bool:
        """Whether at least twice as many of the pairs stall as do in the baseline."""
        return self.stalled > 0 and self.stalled >= 2 * self.stalled_baseline

    def entry(self) -> dict[str, Any]:
        """As it stands in the summary."""
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        return {**{name: float(f"{number:.4g}") for name, number in numbers.items()}, "n": self.pairs}


def slower(paired: Paired | None, a_a_ratio: float | None) -> Slower | str:
    """Over the pairs, or why that is not known. `a_a_ratio`: of the closing baseline's real-time factor."""
    if paired is None or paired.reference is None:
        return NO_BASELINE
    left, right = paired.matched
    ours, theirs = paired.own.values["rtf"][left], paired.reference.values["rtf"][right]
    kept = np.isfinite(ours) & np.isfinite(theirs) & (ours > 0) & (theirs > 0)
    if int(kept.sum()) < LEAST_PAIRS:
        return FEW_PAIRS.format(int(kept.sum()))
    if a_a_ratio is None or not a_a_ratio > 0:
        return NO_NOISE
    ours, theirs = ours[kept], theirs[kept]
    logs = np.log(ours / theirs)
    wide = _error(logs, paired.own.blocks[left][kept]) + abs(math.log(a_a_ratio))
    middle = float(logs.mean())
    return Slower(
        value=math.exp(middle),
        low=math.exp(middle - wide),
        high=math.exp(middle + wide),
        pairs=len(logs),
        rtf=float(np.median(ours)),
        rtf_baseline=float(np.median(theirs)),
    )


def _error(logs: Floats, blocks: Ints) -> float:
    """Half of the interval of the mean. Of too few blocks none can be told, and the pairs stand alone."""
    size = len(logs)
    single = upper_t(TAIL, size - 1) * float(logs.std(ddof=1)) / math.sqrt(size)
    index, count = numbered(blocks)
    if count < LEAST_BLOCKS:
        return single
    sums = np.bincount(index, weights=logs - logs.mean())
    between = math.sqrt(count / (count - 1) * float((sums**2).sum())) / size
    return max(single, upper_t(TAIL, count - 1) * between)


def added_by(facts: Facts, found: StageFacts) -> tuple[str, ...]:
    """The loads of a stage that the baseline does not have."""
    baseline = facts.plan.baseline
    return tuple(load for load in found.plan.loads if baseline is None or load not in baseline.loads)


def costs_alone(
    facts: Facts, found: StageFacts, stages: Sequence[StageFacts], a_a_ratio: float | None
) -> Mapping[str, Slower]:
    """What each load of a stage costs where it alone was added to the baseline."""
    wanted, costs = added_by(facts, found), {}
    for other in stages:
        added = added_by(facts, other)
        if len(added) != 1 or added[0] not in wanted or other is found or other.invalid:
            continue
        if isinstance(cost := slower(other.paired, a_a_ratio), Slower):
            costs[added[0]] = cost
    return costs
