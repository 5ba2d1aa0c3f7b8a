"""A cause as one sentence for people."""

from collections.abc import Mapping, Sequence

from cotenant.records import SOLO_PREFIX
from cotenant.scenario.values import settled
from cotenant.units import counted, format_share
from cotenant.verdict.causes.ratio import RiskRatio
from cotenant.verdict.causes.slow import Slower
from cotenant.verdict.left_out import with_reason
from cotenant.verdict.plan import Plan, StagePlan

# Word -> (one, many) of what happened.
HAPPENED = {"voice": ("stall", "stalls"), "face": ("freeze", "freezes")}
MADE = {"voice": "chunk", "face": "frame"}
# Up to here a ratio is as good as none, if its interval is not wider than that.
CLOSE, WIDE = 1.5, 3.0


def times(value: float) -> str:
    """A ratio as people say it."""
    if value < 0.05:
        return "0"
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 1.95 else f"{value:.2f}"


def interval(low: float, high: float, more: str = "") -> str:
    """The bounds of a ratio, in parentheses."""
    # Beyond this the upper bound says only that it is large.
    upper = f"to {times(high)}" if high < 1000 else "and more"
    return f"(95 % interval {times(low)} {upper}{more})"


def count_text(of: str, count: int, total: int) -> str:
    """`all 12 stalls`, `3 of 12 stalls`."""
    one, many = HAPPENED[of]
    if count == total:
        return f"the only {one}" if total == 1 else f"all {total} {many}"
    return f"{count} of {total} {many}"


def not_alone_text(plan: Plan, stage: StagePlan) -> str:
    """Why nothing is told of what slows the head of a stage, and what would tell; `""` where it was measured
    alone."""
    for load in plan.of_kind(stage, "faces"):
        solo = SOLO_PREFIX + load.name
        if solo in plan.measured:
            continue
        said = f"{plan.scenario.load[load.name].tenant} was not measured alone"
        if settled(plan.scenario.timing.solo_ns):
            return with_reason(said, plan, solo)
        length = "10s" if plan.has_gpu else "5s"
        return f"{said} (--set timing.solo={length}), so what it does without the others is not known"
    return ""


def beside_text(of: str, during: str, ratio: RiskRatio, control_share: float | None) -> str:
    """A work that was named."""
    likelier = f"{times(ratio.value)} times likelier"
    bounds = interval(ratio.low, ratio.high)
    if ratio.without or control_share is None:
        return f"{HAPPENED[of][1]} began {likelier} while {during} {bounds}"
    control = format_share(control_share)
    return (
        f"all {ratio.beside} late {MADE[of]}s were made while {during}, as were {control} of those that came "
        f"in time: {likelier} {bounds}"
    )


def as_often_text(of: str, during: str, ratio: RiskRatio) -> str:
    """A work that was not."""
    bounds = f"{times(ratio.value)} times as likely {interval(ratio.low, ratio.high)}"
    if ratio.low > 1:
        return f"what is named already explains it; while {during} {HAPPENED[of][1]} were {bounds}"
    if ratio.value < CLOSE and ratio.high < WIDE:
        return f"{during} as often beside {MADE[of]}s that came in time: {HAPPENED[of][1]} were {bounds}"
    return f"not enough to tell: while {during} {HAPPENED[of][1]} were {bounds}"


def slow_text(loads: Sequence[str], slow: Slower | RiskRatio, costs: Mapping[str, Slower]) -> str:
    """The co-tenants as a whole against the baseline."""
    names = listed(loads)
    if isinstance(slow, RiskRatio) and not slow.without:
        text = (
            f"beside {names} {slow.beside} chunks came too late, in the same utterances of the baseline none "
            f"({times(slow.value)} times likelier; {interval(slow.low, slow.high)[1:]}"
        )
    elif isinstance(slow, RiskRatio):
        text = (
            f"beside {names} stalls began {times(slow.value)} times likelier than in the baseline "
            f"{interval(slow.low, slow.high)}"
        )
    else:
        text = (
            f"beside {names} a second of speech takes {slow.rtf:.2f} s to make, {times(slow.value)} times as "
            f"long as alone {interval(slow.low, slow.high, ', ' + counted(slow.pairs, 'pair'))}"
        )
    if isinstance(slow, Slower) and slow.rtf < 1:
        alone = slow.stalled_baseline or "none"
        text += f"; of these utterances {slow.stalled} stall here, {alone} alone"
    if len(loads) > 1:
        text += "; nothing within this stage tells them apart"
    shown = [f"{load} {times(cost.value)} times" for load, cost in costs.items()]
    return f"{text}; in stages of their own: {', '.join(shown)}" if len(loads) > 1 and shown else text


def drawn_text(loads: Sequence[str], slow: Slower) -> str:
    """Pictures beside the rest of a stage, against the solo window."""
    text = (
        f"beside {listed(loads)} the next pictures take {slow.rtf * 1000:.0f} ms once their sound is there, "
        f"{times(slow.value)} times as long as in the solo window {interval(slow.low, slow.high)}"
    )
    return f"{text}; nothing within this stage tells them apart" if len(loads) > 1 else text


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
