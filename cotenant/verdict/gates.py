"""Gates: limits on metrics, and from a stage's entry to PASS, FAIL or INCONCLUSIVE."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant.verdict.bounds import bounds_of
from cotenant.verdict.needs import more_needed, tolerated_from
from cotenant.verdict.paths import kinds_of, unit_of
from cotenant.verdict.plan import Plan, StagePlan
from cotenant.verdict.sample import WORST, Doubted, Part, number_of
from cotenant.verdict.stats import Bounds

OPS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": lambda value, limit: value <= limit,
    ">=": lambda value, limit: value >= limit,
    "<": lambda value, limit: value < limit,
    ">": lambda value, limit: value > limit,
}
_BY_GRAVITY: Final = ("pass", "inconclusive", "fail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One limit, in the unit of its metric. `stages` None: those that have what it is about."""

    profile: str | None
    metric: str
    op: str
    limit: float
    stages: tuple[str, ...] | None
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Of one stage. `error_ms`: our own timing error, ms at p99 by kind of load, None where it is not known;
    `not_shown`: why nothing passes in it, `""` where something may."""

    error_ms: Mapping[str, float | None]
    not_shown: str = ""


def applies(gate: Gate, plan: Plan, stage: StagePlan) -> bool:
    """Whether a gate is asked of a stage: where it says so, else where its load runs (against the reference:
    not in the baseline itself)."""
    if gate.stages is not None:
        return stage.name in gate.stages
    return not lacking(gate, plan, stage)


def judge_gate(
    gate: Gate, part: Part, doubt: Doubt, decision: str, tail: float, withheld: str = ""
) -> dict[str, Any]:
    """The gate's entry in the summary; it is INCONCLUSIVE with the reason `withheld` where there is one."""
    value, reason = number_of(part, gate.metric)
    bounds = bounds_of(part, gate.metric, tail)
    decided, why = _decide(gate, value, reason, bounds, decision, tail)
    if value is None and _fails_at_least(gate, part, decision, tail):
        decided, why = "fail", reason
    margin = None if value is None else _margin(gate, value)
    verdict, why = _doubted(gate, doubt, decided, why, margin)
    if verdict == "pass" and gate.metric in part.doubts:
        verdict, why = _at_worst(gate, part.doubts[gate.metric], decision, tail)
    if verdict == "pass" and doubt.not_shown:
        verdict, why = "inconclusive", doubt.not_shown
    if withheld:
        decided, verdict, why = "", "inconclusive", withheld
    entry: dict[str, Any] = {
        "profile": gate.profile, "metric": gate.metric, "op": gate.op, "limit": gate.limit,
        "level": gate.level,
    }  # fmt: skip
    reasons = {"value": reason, "low": bounds.why or reason, "high": bounds.why or reason, "margin": reason}
    found = {"value": value, "low": bounds.low, "high": bounds.high, "margin": margin}
    entry["why"] = {}
    for name, number in found.items():
        entry[name] = _finite(number)
        if entry[name] is None:
            sign = None if number is None else "+inf" if number > 0 else "-inf"
            entry["why"][name] = sign or reasons[name] or "no data"
    entry["n"] = bounds.n
    entry["needs_more"] = None
    # More of the same takes no doubt away.
    if decided == "inconclusive" and decision == "interval":
        entry["needs_more"] = more_needed(gate.op, gate.limit, value, part.samples, gate.metric, bounds, tail)
    entry["verdict"] = verdict
    if why:
        entry["why"]["verdict"] = why
    return entry


def worst(verdicts: Iterable[str]) -> str:
    """The worst of some verdicts, `pass` of none."""
    return max(verdicts, key=_BY_GRAVITY.index, default="pass")


def gate_text(gate: Mapping[str, Any]) -> str:
    """A gate's entry as a user would write it."""
    return f"{gate['metric']} {gate['op']} {limit_text(str(gate['metric']), float(gate['limit']))}"


def limit_text(metric: str, limit: float) -> str:
    """A limit with its unit."""
    unit = unit_of(metric)
    if unit == "ms":
        return f"{limit:g} ms"
    return f"{100 * limit:g} %" if unit == "share" else f"{limit:g}"


def _margin(gate: Gate, value: float) -> float:
    """How far the value is on the good side of the limit; negative on the bad one."""
    return gate.limit - value if gate.op.startswith("<") else value - gate.limit


def _decide(
    gate: Gate, value: float | None, reason: str, bounds: Bounds, decision: str, tail: float
) -> tuple[str, str]:
    holds = OPS[gate.op]
    if value is None:
        return "inconclusive", reason or "no data"
    if decision == "point":
        return ("pass" if holds(value, gate.limit) else "fail"), ""
    good, bad = (bounds.high, bounds.low) if gate.op.startswith("<") else (bounds.low, bounds.high)
    if good is not None and holds(good, gate.limit):
        return "pass", ""
    if bad is not None and not holds(bad, gate.limit):
        return "fail", ""
    if good is None or bad is None:
        return "inconclusive", bounds.why
    if gate.op == "<=" and gate.limit == value == 0:
        # Nothing is tolerated, and no number of units without any proves that there is none.
        if bounds.n_eff >= tolerated_from(tail):
            return "pass", ""
        return "inconclusive", "there was none, in too few to say that there is none in 95 %"
    return "inconclusive", "the interval holds the limit: too few to decide"


def _doubted(gate: Gate, doubt: Doubt, verdict: str, why: str, margin: float | None) -> tuple[str, str]:
    """A verdict that our own measuring could turn is none."""
    kind = kinds_of(gate.metric)[0]
    if verdict == "inconclusive" or kind not in doubt.error_ms:
        return verdict, why
    error = doubt.error_ms[kind]
    if error is None:
        return ("inconclusive", "our own timing error is unknown") if verdict == "pass" else (verdict, why)
    if unit_of(gate.metric) == "ms" and margin is not None and abs(margin) < error:
        return "inconclusive", f"the margin is within our own timing error of {error:g} ms"
    return verdict, why


def _at_worst(gate: Gate, doubted: Doubted, decision: str, tail: float) -> tuple[str, str]:
    """A pass stands where the worst that the metric can be passes too."""
    if (worst_part := doubted.worst) is not None:
        value, reason = number_of(worst_part, WORST)
        verdict, _ = _decide(gate, value, reason, bounds_of(worst_part, WORST, tail), decision, tail)
        if verdict == "pass":
            return "pass", ""
    return "inconclusive", doubted.reason


def _fails_at_least(gate: Gate, part: Part, decision: str, tail: float) -> bool:
    """Whether a metric that is not known is too large in any case."""
    if not gate.op.startswith("<") or (least := part.least.get(gate.metric)) is None:
        return False
    value, reason = number_of(least.part, least.path)
    return _decide(gate, value, reason, bounds_of(least.part, least.path, tail), decision, tail)[0] == "fail"


def lacking(gate: Gate, plan: Plan, stage: StagePlan) -> str:
    """What a stage does not have that the gate is about; `""` where it has all."""
    kind, load = kinds_of(gate.metric)
    if gate.metric.startswith("vs_reference.") and kind == "voices":
        if stage.baseline:
            return "it is the baseline itself"
        if plan.baseline is None:
            return "the scenario has no baseline"
    if load:
        return "" if load in stage.loads else f"no load {load}"
    return f"no {kind}" if kind and not plan.of_kind(stage, kind) else ""


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 6) + 0.0
