"""The verdict on a run: from a recording to summary.json, and to the exit code."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from cotenant.errors import ExitCode
from cotenant.playback.options import PlayerOptions
from cotenant.records import SOLO_PREFIX, Recording
from cotenant.units import ms_from_ns
from cotenant.verdict.facts import Facts, read_facts
from cotenant.verdict.gates import Gate, applies, judge_gate, resolve, worst
from cotenant.verdict.mend import mend_of
from cotenant.verdict.plan import Plan, decision_of, read_plan
from cotenant.verdict.stages import (
    NO_BASELINE,
    StageFacts,
    a_a_ratios,
    entry_of,
    put_reference,
    stage_facts,
)
from cotenant.verdict.stats import TAIL

SCHEMA: Final = 1
NOT_ALONE: Final = "the voice does not live here even alone"
NO_GATE: Final = "no gate was asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """What to judge a recording by; None: what its own scenario says.

    `gates` replace the scenario's where there are any. `looks`: how often the same run is judged while it
    goes on (None: what the manifest says, else once); the error level is split over them. `inconclusive` is
    not used by `judge`; `exit_code` takes it.
    """

    lookahead_ns: int | None = None
    start: Literal["prefill", "delay"] | None = None
    after_underrun: Literal["resume", "refill", "drop"] | None = None
    quantum_ns: int | None = None
    gates: Sequence[str] = ()
    decision: Literal["interval", "point"] | None = None
    inconclusive: Literal["fail", "pass"] | None = None
    looks: int | None = None


def judge(recording: Recording, options: JudgeOptions) -> dict[str, Any]:
    """The summary of a run. The same recording and options give the same summary.

    Raises UserError for a manifest without a scenario and for gates that name no metric.
    """
    plan = read_plan(recording)
    player = _player(plan, options)
    decision = decision_of(plan, options.decision)
    gates = resolve(options.gates or plan.scenario.gate, plan)
    looks = options.looks or recording.manifest.get("looks") or 1
    facts = read_facts(recording, plan, player, TAIL / max(1, int(looks)))
    solo = {stage.loads[0]: stage_facts(facts, stage) for stage in plan.solos if stage.name in plan.measured}
    again = None
    if plan.again is not None and plan.again.name in plan.measured:
        again = stage_facts(facts, plan.again, by_round=False)
    ratios = a_a_ratios(again)
    stages = [stage_facts(facts, stage) for stage in plan.stages]
    for stage in stages:
        put_reference(facts, stage, solo, ratios)
    entries = [_stage_entry(facts, stage, gates, decision) for stage in stages]
    verdict, because = _verdict(entries, gates)
    invalid = [f"{entry['name']}: {why}" for entry in entries for why in entry["invalid_because"]]
    manifest = recording.manifest
    return {
        "schema": SCHEMA,
        "run_id": str(manifest.get("run_id", "")),
        "status": str(manifest.get("status", "running")),
        "scenario": plan.scenario.name,
        "verdict": verdict,
        "verdict_because": because,
        "validity": "invalid" if invalid else "valid",
        "invalid_because": invalid,
        "decision": decision,
        "device": "gpu" if plan.has_gpu else "cpu",
        "lookahead_ms": ms_from_ns(player.lookahead_ns),
        "player": {
            "start": player.start,
            "after_underrun": player.after_underrun,
            "quantum_ms": ms_from_ns(player.quantum_ns),
        },
        "a_a": _a_a_entry(plan, again, ratios),
        "solo": {load: _solo_entry(found) for load, found in solo.items()},
        "stages": entries,
    }


def to_json(summary: Mapping[str, Any]) -> str:
    """The text of summary.json; the same summary gives the same bytes. Raises ValueError for NaN or an
    infinity."""
    return json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def exit_code(summary: Mapping[str, Any], inconclusive: Literal["fail", "pass"] | None = None) -> ExitCode:
    """An invalid baseline is 4; then any valid failing stage 1; then 4, 3, 0.

    A run that is not complete, and whose gates pass, is 3. `inconclusive` turns 3 into 0 or 1.
    """
    stages = summary["stages"]
    if any(stage["baseline"] and stage["validity"] == "invalid" for stage in stages):
        return ExitCode.INVALID
    if any(stage["verdict"] == "fail" and stage["validity"] == "valid" for stage in stages):
        return ExitCode.FAIL
    if summary["validity"] == "invalid":
        return ExitCode.INVALID
    if summary["verdict"] == "pass" and summary["status"] == "complete":
        return ExitCode.PASS
    return {"fail": ExitCode.FAIL, "pass": ExitCode.PASS}.get(inconclusive or "", ExitCode.INCONCLUSIVE)


def is_decided(summary: Mapping[str, Any], stage: str) -> bool:
    """Whether every gate of a stage has passed or failed, so that measuring on would change nothing.

    A gate that more of the same cannot decide (no data, our own timing error) does not keep a stage open.
    """
    entry = next(entry for entry in summary["stages"] if entry["name"] == stage)
    return all(gate["verdict"] != "inconclusive" or not gate["needs_more"] for gate in entry["gates"])


def _player(plan: Plan, options: JudgeOptions) -> PlayerOptions:
    scenario = plan.scenario
    lookahead_ns, quantum_ns = options.lookahead_ns, options.quantum_ns
    return PlayerOptions(
        lookahead_ns=scenario.lookahead_ns if lookahead_ns is None else lookahead_ns,
        start=options.start or scenario.player.start,
        after_underrun=options.after_underrun or scenario.player.after_underrun,
        quantum_ns=scenario.player.quantum_ns if quantum_ns is None else quantum_ns,
    )


def _stage_entry(facts: Facts, found: StageFacts, gates: Sequence[Gate], decision: str) -> dict[str, Any]:
    asked = [gate for gate in gates if applies(gate, facts.plan, found.plan)]
    judged = [judge_gate(gate, found.part, found.doubt, decision, facts.tail) for gate in asked]
    why = dict(sorted(found.part.why.items()))
    verdict = worst(gate["verdict"] for gate in judged if gate["level"] == "fail")
    if not asked:
        why["verdict"] = "no gate is asked of this stage"
    if found.plan.name not in facts.plan.measured:
        why["verdict"] = "this stage was not measured"
        verdict = "inconclusive"
    if not why.get(""):
        why.pop("", None)
    return {
        "name": found.plan.name,
        "baseline": found.plan.baseline,
        "verdict": verdict,
        "validity": "invalid" if found.invalid else "valid",
        "invalid_because": found.invalid,
        "why": why,
        **entry_of(found),
        "causes": [],
        "caveats": found.caveats,
        "mend": mend_of(facts, found, judged) if verdict == "fail" else None,
        "gates": judged,
    }


def _solo_entry(found: StageFacts) -> dict[str, Any]:
    """The load's own part, flat, with its reasons."""
    name = found.plan.name.removeprefix(SOLO_PREFIX)
    prefix = "face." if "face" in found.part.entry else f"llm.{name}."
    own = found.part.entry["face"] if prefix == "face." else found.part.entry["llm"][name]
    why = {
        path.removeprefix(prefix): reason
        for path, reason in sorted(found.part.why.items())
        if path.startswith(prefix)
    }
    return {**own, "invalid_because": found.invalid, "why": why}


def _a_a_entry(plan: Plan, again: StageFacts | None, ratios: Mapping[str, float | None]) -> dict[str, Any]:
    entry: dict[str, Any] = {f"{name}_ratio": ratio for name, ratio in ratios.items()}
    entry.setdefault("ttfa_p95_ratio", None)
    if again is None:
        reason = NO_BASELINE if plan.baseline is None else "the closing baseline was not measured"
        return {**entry, "stage": None, "why": {"stage": reason, "ttfa_p95_ratio": reason}}
    why = {key: "no pairs with a first baseline" for key, value in entry.items() if value is None}
    entry["stage"] = {
        "name": again.plan.name,
        "validity": "invalid" if again.invalid else "valid",
        "invalid_because": again.invalid,
        "why": dict(sorted(again.part.why.items())),
        **entry_of(again),
    }
    return {**entry, "why": why}


def _verdict(entries: Sequence[Mapping[str, Any]], gates: Sequence[Gate]) -> tuple[str, str]:
    """The run's verdict, and one sentence where it does not speak for itself."""
    if any(entry["baseline"] and entry["verdict"] == "fail" for entry in entries):
        return "fail", NOT_ALONE
    if not gates:
        return "inconclusive", NO_GATE
    return worst(entry["verdict"] for entry in entries), ""
