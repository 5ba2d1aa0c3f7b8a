"""The verdict on a run: from a recording to summary.json, and to the exit code.

summary.json (`cotenant.verdict.typed` has it as objects). Every number has its unit in its name, and a null
its reason in the `why` beside it, by dotted path. Of the run: `verdict` pass | fail | inconclusive,
`validity` valid | invalid with `invalid_because`, `decision` interval | point, `player`, `caveats`,
`stages`; `error`: what a run that failed ended by; `measured`: whether any of its stages was; `a_a`: ratios
of the closing baseline over the first, and its entry; `solo`: what each load did alone.

Of a stage, beside `verdict`, `validity`, `gates` and what each load got (`speech`, `face`, `llm` by load):
speech, face     `under_way`, where there are any: how many are judged by what of them was heard (seen) in the
                 window, since nothing fell due there (`cotenant.verdict.under_way`); `speech.delay_ms`: how
                 long turns waited for the one before them, which no TTFA holds
gpu              metric -> `mean` over the measure window, `coverage` (the share of it that is known)
canary_ms        how long a tiny kernel waited on the GPU: `p50`, `p99`
host_canary_ms   by how much the host woke a sleeper too late, the worst of each second: `p50`, `p99`
timing           load -> our own error of its stamps
vs_reference     voices against the pairs in the baseline, the rest against the solo window: `own`,
                 `reference`, `ratio`, `difference`, one-sided 95 % bounds `low` and `high` of `bounds_of`
what_if          the least lookahead for clean utterances, by player (`cotenant.verdict.lookaheads`)
causes           what stalls and freezes are blamed on, strongest first (`typed.Cause`): `what` is
                 llm_prefill, llm_decode, face, voices, throttle (beside these, likelier than without),
                 co_tenancy (all together, against the baseline), service_slow (slow alone), voice_late (a
                 face had no sound), own_load, host (our or the host's own fault) or unattributed; `evidence`
                 is what was seen while late ones were made, and in names that end in `_in_time` otherwise
failures         by service, what failed by an error (`cotenant.verdict.failures`)
caveats          what limits the figures: `kind`, `text`, `advice`, numbers (`typed.Caveat`)
mend, untried    of a failing stage: the lookahead that this recording proves to help; what was not tried
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from cotenant.errors import ExitCode
from cotenant.records import SOLO_PREFIX, Recording
from cotenant.units import ms_from_ns
from cotenant.verdict.causes.entry import Run
from cotenant.verdict.causes.of_stage import causes_of
from cotenant.verdict.caveats_run import run_caveats
from cotenant.verdict.facts import Facts
from cotenant.verdict.gates import Gate, applies, judge_gate
from cotenant.verdict.judging import (
    error_of,
    is_claim,
    read_judging,
    run_verdict,
    stage_verdict,
    was_measured,
    why_withheld,
)
from cotenant.verdict.left_out import left_open, with_reason
from cotenant.verdict.lookaheads import what_if_part
from cotenant.verdict.mend import mend_of
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.plan import Plan
from cotenant.verdict.sample import Part
from cotenant.verdict.stages import NO_BASELINE, StageFacts, a_a_ratios, entry_of, put_reference, why_no_a_a
from cotenant.verdict.untried import untried

__all__ = ["JudgeOptions", "exit_code", "failed_unmeasured", "is_decided", "judge", "to_json"]

SCHEMA: Final = 1


def judge(recording: Recording, options: JudgeOptions) -> dict[str, Any]:
    """The summary of a run. The same recording and options give the same summary.

    Raises UserError for a manifest without a scenario and for gates that name no metric.
    """
    run = read_judging(recording, options)
    facts, plan, player, decision = run.facts, run.facts.plan, run.facts.player, run.decision
    gates, stages, solo, again = run.gates, run.stages, run.solo, run.again
    for stage in stages:
        put_reference(facts, stage, solo, again)
    baselines = [_stage_entry(facts, stage, gates, decision) for stage in stages if stage.plan.baseline]
    withheld = why_withheld(baselines)
    rest = [
        _stage_entry(facts, stage, gates, decision, withheld) for stage in stages if not stage.plan.baseline
    ]
    by_name = {entry["name"]: entry for entry in (*baselines, *rest)}
    entries = [by_name[stage.plan.name] for stage in stages]
    blaming = Run(facts=facts, stages=stages, again=again, withheld=withheld)
    for entry, stage in zip(entries, stages, strict=True):
        _put_causes(entry, blaming, stage)
    verdict, because = run_verdict(entries, gates)
    invalid = [f"{entry['name']}: {why}" for entry in entries for why in entry["invalid_because"]]
    manifest = recording.manifest
    return {
        "schema": SCHEMA,
        "run_id": str(manifest.get("run_id", "")),
        "status": str(manifest.get("status", "running")),
        "error": error_of(manifest),
        "measured": was_measured(plan),
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
        "a_a": _a_a_entry(plan, again),
        "solo": {load: _solo_entry(found) for load, found in solo.items()},
        "caveats": run_caveats(recording, plan, a_a_ratios(again)),
        "stages": entries,
    }


def to_json(summary: Mapping[str, Any]) -> str:
    """The text of summary.json; the same summary gives the same bytes. Raises ValueError for NaN or an
    infinity."""
    return json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def exit_code(summary: Mapping[str, Any], inconclusive: Literal["fail", "pass"] | None = None) -> ExitCode:
    """A run that failed before anything was measured is 5, an invalid baseline 4; then any valid failing
    stage 1; then 4, 3, 0.

    A run that is not complete, and whose gates pass, is 3. `inconclusive` turns 3 into 0 or 1.
    """
    stages = summary["stages"]
    if failed_unmeasured(summary):
        return ExitCode.COULD_NOT_RUN
    if any(stage["baseline"] and stage["validity"] == "invalid" for stage in stages):
        return ExitCode.INVALID
    if any(stage["verdict"] == "fail" and stage["validity"] == "valid" for stage in stages):
        return ExitCode.FAIL
    if summary["validity"] == "invalid":
        return ExitCode.INVALID
    if summary["verdict"] == "pass" and summary["status"] == "complete":
        return ExitCode.PASS
    return {"fail": ExitCode.FAIL, "pass": ExitCode.PASS}.get(inconclusive or "", ExitCode.INCONCLUSIVE)


def failed_unmeasured(summary: Mapping[str, Any]) -> bool:
    """Whether the run failed before anything was measured."""
    return summary["status"] == "failed" and not summary.get("measured", True)


def is_decided(summary: Mapping[str, Any], stage: str) -> bool:
    """Whether every gate of a stage that can fail has passed or failed, so that measuring on would change
    nothing.

    A gate that more of the same cannot decide (no data, our own timing error, no utterances of the baseline
    left to compare with) does not keep a stage open.
    """
    entry = next(entry for entry in summary["stages"] if entry["name"] == stage)
    undecided = [
        gate
        for gate in entry["gates"]
        if gate["level"] == "fail" and gate["verdict"] == "inconclusive" and gate["needs_more"]
    ]
    return not any(_grows(summary, gate) for gate in undecided)


def _grows(summary: Mapping[str, Any], gate: Mapping[str, Any]) -> bool:
    """Whether measuring on gives the gate more to judge by: pairs end with the utterances of the baseline."""
    if not gate["metric"].startswith("vs_reference."):
        return True
    spoken = sum(entry["speech"]["streams"] for entry in summary["stages"] if entry["baseline"])
    return bool(gate["n"] < spoken)


def _stage_entry(
    facts: Facts, found: StageFacts, gates: Sequence[Gate], decision: str, withheld: str = ""
) -> dict[str, Any]:
    """A stage's entry; `withheld`: why its comparisons with the baseline are not judged."""
    judged = [
        judge_gate(gate, found.part, found.doubt, decision, facts.tail, withheld if is_claim(gate) else "")
        for gate in gates
        if applies(gate, facts.plan, found.plan)
    ]
    judged = left_open(judged, facts.plan, found.plan.name)
    part = Part(why=dict(found.part.why))
    if found.paired is not None:
        part.add("what_if", what_if_part(facts, found, judged))
    why = dict(sorted(part.why.items()))
    verdict, reason = stage_verdict(facts.plan, found.plan.name, judged, found.doubt.not_shown)
    if reason:
        why["verdict"] = reason
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
        **part.entry,
        "failures": found.failures,
        "causes": [],
        "caveats": found.caveats,
        "mend": mend_of(facts, found, judged) if verdict == "fail" else None,
        "untried": untried(facts.plan, found.plan) if verdict == "fail" else [],
        "gates": judged,
    }


def _put_causes(entry: dict[str, Any], run: Run, found: StageFacts) -> None:
    entry["causes"], reason = causes_of(run, found)
    if reason:
        entry["why"] = dict(sorted({**entry["why"], "causes": reason}.items()))


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
    return {**own, "invalid_because": found.invalid, "caveats": found.caveats, "why": why}


def _a_a_entry(plan: Plan, again: StageFacts | None) -> dict[str, Any]:
    entry: dict[str, Any] = {f"{name}_ratio": ratio for name, ratio in a_a_ratios(again).items()}
    entry.setdefault("ttfa_p95_ratio", None)
    reason = NO_BASELINE if plan.baseline is None else why_no_a_a(again)
    if again is None and plan.again is not None:
        reason = with_reason(reason, plan, plan.again.name)
    if again is None:
        return {**entry, "stage": None, "why": {"stage": reason, "ttfa_p95_ratio": reason}}
    why = {key: reason or "no pairs with a first baseline" for key, value in entry.items() if value is None}
    entry["stage"] = {
        "name": again.plan.name,
        "validity": "invalid" if again.invalid else "valid",
        "invalid_because": again.invalid,
        "caveats": again.caveats,
        "why": dict(sorted(again.part.why.items())),
        **entry_of(again),
    }
    return {**entry, "why": why}
