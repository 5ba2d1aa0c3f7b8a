"""What a stage adds to the baseline and has all the time, against the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from cotenant.units import NS_PER_S
from cotenant.verdict.causes.ratio import RiskRatio, risk_ratio
from cotenant.verdict.causes.slow import NO_BASELINE, Slower, added_by, slower
from cotenant.verdict.causes.text import WIDE
from cotenant.verdict.causes.units import Events, Units, voice_units
from cotenant.verdict.causes.work import Beside
from cotenant.verdict.facts import Facts
from cotenant.verdict.stages import StageFacts

# At work beside this share of the units leaves too few others to compare with.
ALWAYS: Final = 0.9
# The usual chunk of a stage takes this much longer where the whole stage is slower.
SLOWER: Final = 1.25
_BLOCK_NS: Final = 10 * NS_PER_S


def inseparable(
    added: Sequence[str], beside: Sequence[Beside], ratios: Mapping[str, RiskRatio | str]
) -> tuple[str, ...]:
    """The added loads that the stage itself cannot tell apart from the rest.

    Those at work beside nearly every unit, or with too few stalls for a ratio; with them those whose ratio
    is too vague to clear them. Where every load has a ratio that decides, and the baseline adds nothing.
    """
    found, vague = [], []
    for load in added:
        mine = [one for one in beside if one.work.who == load and one.work.what != "voices"]
        if not mine or not all(one.known.any() for one in mine):
            continue
        always = np.logical_or.reduce([one.beside for one in mine]).mean() >= ALWAYS
        told = [ratios.get(one.work.name) for one in mine]
        if always or not any(isinstance(ratio, RiskRatio) for ratio in told):
            found.append(load)
        elif any(isinstance(ratio, RiskRatio) and ratio.high >= WIDE for ratio in told):
            vague.append(load)
    return tuple(load for load in added if load in found or (found and load in vague))


def against_baseline(
    facts: Facts,
    found: StageFacts,
    added: Sequence[str],
    units: Units,
    a_a_ratio: float | None,
) -> Slower | RiskRatio | str:
    """Slower than the baseline, and slower than real time or slow enough to stall where the pairs there do
    not; else stalls likelier than in the pairs."""
    if found.paired is None or found.paired.reference is None or not added_by(facts, found):
        return "nothing was at work beside the voice" if not added_by(facts, found) else NO_BASELINE
    if not added:
        return "what was added came and went, and is compared within the stage"
    cost = slower(found.paired, a_a_ratio)
    if isinstance(cost, str):
        return cost
    if cost.low > 1 and cost.rtf >= 1 > cost.rtf_baseline:
        return cost
    baseline = facts.plan.baseline
    assert baseline is not None
    left, right = found.paired.matched
    others, _ = voice_units(facts, baseline.name)
    ours, theirs = np.isin(units.stream, left), np.isin(others.stream, right)
    cost = replace(
        cost,
        stalled=len(np.unique(units.stream[ours & units.late])),
        stalled_baseline=len(np.unique(others.stream[theirs & others.late])),
    )
    # Even the chunks that came in time took longer, and alone the same texts hardly stall.
    if cost.low > 1 and units.usual_ns >= SLOWER * others.usual_ns and cost.stalls_more:
        return cost
    number = len(found.paired.own.rows)
    ratio = risk_ratio(
        np.concatenate((units.late[ours], others.late[theirs])),
        np.concatenate((np.ones(int(ours.sum()), np.bool_), np.zeros(int(theirs.sum()), np.bool_))),
        np.concatenate((units.part[ours], others.part[theirs])),
        (
            np.concatenate((units.stream[ours], others.stream[theirs] + number)),
            np.concatenate((units.start_ns[ours], others.start_ns[theirs])) // _BLOCK_NS,
        ),
    )
    if isinstance(ratio, str):
        return ratio
    if ratio.low > 1:
        return ratio
    slow = f"{cost.value:.2g} times ({cost.low:.2g} to {cost.high:.2g})"
    stall = f"{ratio.value:.2g} times as likely ({ratio.low:.2g} to {ratio.high:.2g})"
    if cost.low > 1:
        return f"a voice is {slow} slower than alone, but not surely likelier to stall: {stall}"
    return f"a voice is not surely slower than alone: {slow}; nor likelier to stall: {stall}"


def rtf_of(found: StageFacts, events: Events) -> float:
    """The median real-time factor of the utterances that stalled; 0 where it is not known."""
    if found.paired is None:
        return 0.0
    values = found.paired.own.values["rtf"][np.unique(events.stream)]
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else 0.0
