"""Gates: from what the user wrote to limits on metrics, and from a stage's entry to PASS, FAIL or
INCONCLUSIVE."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant.errors import UserError
from cotenant.scenario.schema import Gate as WrittenGate
from cotenant.units import NS_PER_MS, parse_duration_ns, parse_rate_per_s, parse_size
from cotenant.verdict.bounds import bounds_of
from cotenant.verdict.needs import more_needed
from cotenant.verdict.paths import check_path, kinds_of, known_paths, unit_of
from cotenant.verdict.plan import Plan, StagePlan
from cotenant.verdict.profiles import PROFILES
from cotenant.verdict.sample import Part, look_up

OPS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": lambda value, limit: value <= limit,
    ">=": lambda value, limit: value >= limit,
    "<": lambda value, limit: value < limit,
    ">": lambda value, limit: value > limit,
}
_TEXT: Final = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*(<=|>=|<|>)\s*(\S.*?)\s*")
WORST: Final = ("pass", "inconclusive", "fail")


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
    """Our own timing error in one stage: ms at p99 by kind of load, None where it is not known."""

    error_ms: Mapping[str, float | None]


def resolve(written: Iterable[str | WrittenGate], plan: Plan) -> tuple[Gate, ...]:
    """Profiles, texts and limits as gates. Raises UserError for an unknown profile, metric or stage, or a
    bad limit."""
    known = known_paths(plan)
    gates: list[Gate] = []
    for item in written:
        if isinstance(item, WrittenGate):
            gates.append(_from_model(item, plan))
        elif item in PROFILES:
            gates += _from_profile(item, plan)
        elif (match := _TEXT.fullmatch(item)) is not None:
            metric, op, limit = match.groups()
            gates.append(_gate(None, metric, op, limit, None, "fail"))
        else:
            raise UserError(
                f"gate: {item!r} is neither a profile ({', '.join(PROFILES)}) nor a limit "
                "as in 'speech.ttfa_ms.p95 <= 500ms'"
            )
    for gate in gates:
        check_path(gate.metric, known)
    return tuple(gates)


def applies(gate: Gate, plan: Plan, stage: StagePlan) -> bool:
    """Whether a gate is asked of a stage: where it says so, else where its load runs (against the reference:
    not in the baseline itself)."""
    if gate.stages is not None:
        return stage.name in gate.stages
    kind, load = kinds_of(gate.metric)
    if gate.metric.startswith("vs_reference.") and kind == "voices" and stage.baseline:
        return False
    if load:
        return load in stage.loads
    return not kind or bool(plan.of_kind(stage, kind))


def judge_gate(gate: Gate, part: Part, doubt: Doubt, decision: str, tail: float) -> dict[str, Any]:
    """The gate's entry in the summary."""
    value, reason = look_up({**part.entry, "why": part.why}, gate.metric)
    bounds = bounds_of(part, gate.metric, tail)
    verdict, why = _decide(gate, value, reason, bounds.low, bounds.high, bounds.why, decision)
    margin = None if value is None else _margin(gate, value)
    verdict, why = _doubted(gate, part, doubt, verdict, why, margin)
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
    if verdict == "inconclusive" and decision == "interval":
        entry["needs_more"] = more_needed(gate.op, gate.limit, value, part.samples, gate.metric, bounds, tail)
    entry["verdict"] = verdict
    if why:
        entry["why"]["verdict"] = why
    return entry


def worst(verdicts: Iterable[str]) -> str:
    """The worst of some verdicts, `pass` of none."""
    return max(verdicts, key=WORST.index, default="pass")


def gate_text(gate: Mapping[str, Any]) -> str:
    """A gate's entry as a user would write it."""
    return f"{gate['metric']} {gate['op']} {limit_text(str(gate['metric']), float(gate['limit']))}"


def limit_text(metric: str, limit: float) -> str:
    """A limit with its unit."""
    unit = unit_of(metric)
    if unit == "ms":
        return f"{limit:g} ms"
    return f"{100 * limit:g} %" if unit == "share" else f"{limit:g}"


def parse_limit(metric: str, limit: str | float) -> float:
    """A limit in the unit of its metric: `500ms`, `95 %`, `0.95`, `20/s`, `32k`. Raises UserError."""
    if isinstance(limit, int | float):
        return float(limit)
    text, unit = limit.strip(), unit_of(metric)
    try:
        if unit == "ms" and not _plain(text):
            sign, bare = (-1, text[1:]) if text.startswith("-") else (1, text)
            return sign * parse_duration_ns(bare) / NS_PER_MS
        if text.endswith("%"):
            return float(text[:-1].strip()) / 100
        if "/" in text:
            return parse_rate_per_s(text)
        return float(text) if _plain(text) else float(parse_size(text))
    except ValueError:
        shape = {"ms": "a duration, as in 500ms", "share": "a share, as in 95 % or 0.95"}.get(
            unit, "a number"
        )
        raise UserError(f"gate: the limit {limit!r} of {metric} is wrong; write {shape}") from None


def _plain(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", text, re.IGNORECASE) is not None


def _from_model(item: WrittenGate, plan: Plan) -> Gate:
    names = [stage.name for stage in plan.stages]
    for name in item.stages or ():
        if name not in names:
            raise UserError(f"gate: there is no stage {name!r}; the stages are {', '.join(names)}")
    stages = None if item.stages is None else tuple(item.stages)
    return _gate(None, item.metric, item.op, item.limit, stages, item.level)


def _from_profile(name: str, plan: Plan) -> list[Gate]:
    profile = PROFILES[name]
    gates = []
    for limit in profile.limits:
        loads = [load.name for load in plan.loads.values() if load.kind == profile.kind]
        metrics = (
            [limit.metric.replace("{load}", load) for load in loads]
            if "{load}" in limit.metric
            else [limit.metric]
        )
        gates += [_gate(name, metric, limit.op, limit.limit, None, "fail") for metric in metrics]
    return gates


def _gate(
    profile: str | None, metric: str, op: str, limit: str | float, stages: Sequence[str] | None, level: str
) -> Gate:
    number = parse_limit(metric, limit)
    if not math.isfinite(number):
        raise UserError(f"gate: the limit of {metric} is {limit}; write a finite number")
    return Gate(
        profile=profile, metric=metric, op=op, limit=number,
        stages=None if stages is None else tuple(stages), level=level,
    )  # fmt: skip


def _margin(gate: Gate, value: float) -> float:
    """How far the value is on the good side of the limit; negative on the bad one."""
    return gate.limit - value if gate.op.startswith("<") else value - gate.limit


def _decide(
    gate: Gate,
    value: float | None,
    reason: str,
    low: float | None,
    high: float | None,
    lack: str,
    decision: str,
) -> tuple[str, str]:
    holds = OPS[gate.op]
    if value is None:
        return "inconclusive", reason or "no data"
    if decision == "point":
        return ("pass" if holds(value, gate.limit) else "fail"), ""
    good, bad = (high, low) if gate.op.startswith("<") else (low, high)
    if good is not None and holds(good, gate.limit):
        return "pass", ""
    if bad is not None and not holds(bad, gate.limit):
        return "fail", ""
    if good is None or bad is None:
        return "inconclusive", lack
    return "inconclusive", "the interval holds the limit: too few to decide"


def _doubted(
    gate: Gate, part: Part, doubt: Doubt, verdict: str, why: str, margin: float | None
) -> tuple[str, str]:
    """A verdict that our own measuring could turn is none."""
    kind = kinds_of(gate.metric)[0]
    if verdict == "pass" and gate.metric in part.doubts:
        return "inconclusive", part.doubts[gate.metric]
    if verdict == "inconclusive" or kind not in doubt.error_ms:
        return verdict, why
    error = doubt.error_ms[kind]
    if error is None:
        return ("inconclusive", "our own timing error is unknown") if verdict == "pass" else (verdict, why)
    if unit_of(gate.metric) == "ms" and margin is not None and abs(margin) < error:
        return "inconclusive", f"the margin is within our own timing error of {error:g} ms"
    return verdict, why


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 6) + 0.0
