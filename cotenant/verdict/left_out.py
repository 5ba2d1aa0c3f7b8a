"""What a lost service leaves of a run: windows that were not run, stages without a neighbour, cut waiting."""

from collections.abc import Iterator
from typing import Any, Final

from cotenant.units import duration_text
from cotenant.verdict.caveats import Caveat, caveat
from cotenant.verdict.plan import Plan, StagePlan

NOT_MEASURED: Final = "this stage was not measured"
_ENDED: Final = "tenant"
_REFUSED: Final = "refused"


def why_not_run(plan: Plan, stage: str) -> str:
    """Why a stage, a solo window or the closing baseline was not run, where it never was; `""` else."""
    if stage in plan.measured:
        return ""
    return next((left.why for left in plan.not_run if left.stage == stage), "")


def with_reason(said: str, plan: Plan, stage: str) -> str:
    """`said`, and why the stage was not run, where that is known."""
    why = why_not_run(plan, stage)
    return f"{said}: {why}" if why else said


def left_open(judged: list[dict[str, Any]], plan: Plan, stage: str) -> list[dict[str, Any]]:
    """The judged gates of a stage; of one that was not run each is open, for that reason alone."""
    if not (why := why_not_run(plan, stage)):
        return judged
    lacking = dict.fromkeys(("value", "low", "high", "margin", "verdict"), f"not measured: {why}")
    return [{**gate, "needs_more": None, "verdict": "inconclusive", "why": lacking} for gate in judged]


def left_out_caveats(plan: Plan, stage: StagePlan) -> Iterator[Caveat]:
    """Rounds of a measured stage that were not run, and neighbours that were gone when it was."""
    if stage.name not in plan.measured:
        return
    rounds = plan.scenario.timing.rounds
    for left in plan.not_run:
        if left.stage == stage.name:
            text = f"round {left.round + 1} of {rounds} was not run: {left.why}"
            yield caveat("round-not-run", text)
    needed = _tenants(plan, stage)
    for name in _ended_before(plan, stage):
        if name not in needed:
            yield caveat(
                "neighbour-gone",
                f"{name} had ended before: its memory was free, and what it does when idle was not done",
                "what came before was measured beside it; run again when it stays up",
            )


def _ended_before(plan: Plan, stage: StagePlan) -> dict[str, None]:
    """The tenants that had ended before a window of the stage began, each once, however many its replicas."""
    last_ns = max((window.start_ns for window in plan.lived.get(stage.name, ())), default=0)
    faults = (text.partition(":") for t_ns, text in plan.faults if t_ns < last_ns)
    return {name: None for kind, _, name in faults if kind == _ENDED}


def waited_text(plan: Plan, stage: StagePlan) -> str:
    """Up to when a stage was waited for to settle: `within the settle limit of 1m`, or, where a service was
    gone, `before tts ended`."""
    limit_ns = plan.scenario.timing.settle_limit_ns
    for t_ns, name in plan.faults:
        starts = [span.start_ns for span in plan.lived.get(stage.name, ()) if span.start_ns <= t_ns]
        if name != f"settle:{stage.name}" or not starts or t_ns - max(starts) >= limit_ns:
            continue
        for kind, said in ((_ENDED, "before {} ended"), (_REFUSED, "for nothing listened at {} any more")):
            lost = [
                tenant
                for tenant in _tenants(plan, stage)
                if any(text == f"{kind}:{tenant}" and at_ns <= t_ns for at_ns, text in plan.faults)
            ]
            if lost:
                return said.format(" and ".join(lost))
    return f"within the settle limit of {duration_text(limit_ns)}"


def _tenants(plan: Plan, stage: StagePlan) -> list[str]:
    return list(dict.fromkeys(plan.scenario.load[load].tenant for load in stage.loads))
