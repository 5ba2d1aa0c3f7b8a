"""From what the user wrote to gates: profiles, texts and limits, checked against the scenario."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from cotenant.errors import UserError
from cotenant.records import Recording
from cotenant.scenario.load import dump
from cotenant.scenario.schema import Gate as WrittenGate
from cotenant.scenario.schema import Scenario
from cotenant.units import NS_PER_MS, parse_duration_ns, parse_rate_per_s, parse_size
from cotenant.verdict.gates import Gate, lacking
from cotenant.verdict.paths import check_path, known_paths, unit_of
from cotenant.verdict.plan import Plan, read_plan
from cotenant.verdict.profiles import PROFILES

_TEXT: Final = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*(<=|>=|<|>)\s*(\S.*?)\s*")


def resolve(written: Iterable[str | WrittenGate], plan: Plan) -> tuple[Gate, ...]:
    """Profiles, texts and limits as gates. Raises UserError for an unknown profile, metric or stage, a bad
    limit, and a limit that no stage (or not each of those it names) has anything for."""
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
        _check_place(gate, plan)
    return tuple(gates)


def check_gates(scenario: Scenario, device_kind: str) -> None:
    """Raises UserError where a resolved scenario's own gates cannot be judged, before anything is started."""
    manifest = {"scenario": dump(scenario), "device": {"kind": device_kind}}
    resolve(scenario.gate, read_plan(Recording(manifest=manifest, tables={})))


def parse_limit(metric: str, limit: str | float) -> float:
    """A limit in the unit of its metric: `500ms`, `95 %`, `0.95`, `20/s`, `32k`. Raises UserError."""
    number = _number_of(metric, limit)
    if unit_of(metric) == "share":
        least = _least_share(metric)
        if not least <= number <= 1:
            bare = "%" not in str(limit) and 1 < number <= 100
            right = f"{number:g} %" if bare else "95 % or 0.95"
            raise UserError(f"gate: the limit {limit} of {metric} is no share ({least} to 1); write {right}")
    return number


def _least_share(metric: str) -> int:
    return -1 if metric.endswith(".difference") else 0


def _number_of(metric: str, limit: str | float) -> float:
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
    if unit_of(metric) == "share" and (op, number) in (("<=", 1), (">=", _least_share(metric))):
        right = "1 %" if number == 1 else "95 %"
        raise UserError(
            f"gate: {metric} {op} {limit} can never fail; write a share in per cent, as in {right}"
        )
    if not math.isfinite(number):
        raise UserError(f"gate: the limit of {metric} is {limit}; write a finite number")
    return Gate(
        profile=profile, metric=metric, op=op, limit=number,
        stages=None if stages is None else tuple(stages), level=level,
    )  # fmt: skip


def _check_place(gate: Gate, plan: Plan) -> None:
    """A limit that somebody wrote has to be asked somewhere; a profile may be about what is not there."""
    lacks = {stage.name: lacking(gate, plan, stage) for stage in plan.stages}
    for name in gate.stages or ():
        if lacks[name]:
            raise UserError(f"gate: {gate.metric} cannot be judged in the stage {name}: {lacks[name]}")
    if gate.profile is None and all(lacks.values()):
        told = "; ".join(f"{name}: {reason}" for name, reason in lacks.items())
        raise UserError(f"gate: {gate.metric} cannot be judged in any stage ({told})")
