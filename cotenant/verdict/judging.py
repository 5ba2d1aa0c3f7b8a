"""A run read for judging, and how its gates and stages make a verdict: the same for the summary and for every
other lookahead."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cotenant.playback.options import PlayerOptions
from cotenant.records import Recording
from cotenant.verdict.caveats import crowded
from cotenant.verdict.facts import Facts, read_facts
from cotenant.verdict.failures import decided_by, headline
from cotenant.verdict.gates import Gate, worst
from cotenant.verdict.left_out import NOT_MEASURED, with_reason
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.paths import kinds_of
from cotenant.verdict.plan import Plan, decision_of, player_of, read_plan
from cotenant.verdict.stages import StageFacts, judge_machine, stage_facts
from cotenant.verdict.stats import TAIL
from cotenant.verdict.written_gates import resolve

NOT_ALONE: Final = "the voice does not live here even alone"
LATE_ALONE: Final = "with this lookahead the voice begins too late even alone"
NO_GATE: Final = "no gate was asked"
NOT_JUDGED: Final = "no gate was judged: no stage has what the gates are about"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """A run as it is judged: its stages in order, the solo window of each load that has one, and the closing
    baseline; what the machine did to each is in them, comparisons with a reference are not."""

    facts: Facts
    gates: Sequence[Gate]
    decision: str
    stages: Sequence[StageFacts]
    solo: Mapping[str, StageFacts]
    again: StageFacts | None


def read_judging(recording: Recording, options: JudgeOptions) -> Judging:
    """Raises UserError for a manifest without a scenario and for gates that name no metric."""
    plan = read_plan(recording)
    gates = resolve(options.gates or plan.scenario.gate, plan)
    looks = options.looks or recording.manifest.get("looks") or 1
    facts = read_facts(recording, plan, player_options(plan, options), TAIL / max(1, int(looks)))
    solo = {stage.loads[0]: stage_facts(facts, stage) for stage in plan.solos if stage.name in plan.measured}
    again = None
    if plan.again is not None and plan.again.name in plan.measured:
        again = stage_facts(facts, plan.again, by_round=False)
    stages = [stage_facts(facts, stage) for stage in plan.stages]
    if not plan.none_here:
        judge_machine(facts, stages, solo.values(), again)
    bad = {load: found.invalid[0] for load, found in solo.items() if found.invalid}
    facts = replace(facts, invalid_solos=bad)
    decision = decision_of(plan, options.decision)
    return Judging(facts=facts, gates=gates, decision=decision, stages=stages, solo=solo, again=again)


def player_options(plan: Plan, options: JudgeOptions) -> PlayerOptions:
    """The player of a run, changed by what was asked."""
    asked = {
        "lookahead_ns": options.lookahead_ns,
        "start": options.start,
        "after_underrun": options.after_underrun,
        "quantum_ns": options.quantum_ns,
    }
    changes: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    return replace(player_of(plan.scenario), **changes)


def error_of(manifest: Mapping[str, Any]) -> str | None:
    """What a run that failed ended by; None for one that did not."""
    if manifest.get("status") != "failed":
        return None
    return str(manifest.get("error") or "the run failed, and its manifest.json does not say why")


def was_measured(plan: Plan) -> bool:
    """Whether any stage of the ladder was measured, if only begun."""
    return any(stage.name in plan.measured for stage in plan.stages)


def is_claim(gate: Gate) -> bool:
    """Whether the gate compares a voice with the baseline."""
    return gate.metric.startswith("vs_reference.") and kinds_of(gate.metric)[0] == "voices"


def why_withheld(baselines: Sequence[Mapping[str, Any]]) -> str:
    """Why nothing is claimed against the baseline; `""` where something may be."""
    for entry in baselines:
        if entry["validity"] == "invalid":
            return f"the baseline is invalid ({entry['invalid_because'][0]})"
        if entry["verdict"] == "fail":
            return f"the baseline itself fails: {_alone(entry)}"
    return ""


def _alone(baseline: Mapping[str, Any]) -> str:
    """What a failing baseline says, and who else took the machine meanwhile."""
    meanwhile = crowded(baseline["caveats"])
    return _what_fails_alone(baseline) + (f" ({meanwhile})" if meanwhile else "")


def _what_fails_alone(baseline: Mapping[str, Any]) -> str:
    """Of the voice, of nothing but the price of the lookahead, or that a service failed, which says nothing
    of either."""
    if (failure := decided_by(baseline)) is not None:
        return headline(failure, baseline=True)
    failed = [gate for gate in baseline["gates"] if gate["level"] == "fail" and gate["verdict"] == "fail"]
    of_lookahead = all(gate["metric"].startswith("speech.time_to_playback_ms") for gate in failed)
    return LATE_ALONE if failed and of_lookahead else NOT_ALONE


def stage_verdict(
    plan: Plan, stage: str, judged: Sequence[Mapping[str, Any]], not_shown: str
) -> tuple[str, str]:
    """The verdict of a stage by its judged gates, and why it is none; `""` where the gates say it.

    `not_shown`: why it does not pass, also where no gate of it can fail.
    """
    if stage not in plan.measured:
        return "inconclusive", with_reason(NOT_MEASURED, plan, stage)
    verdict = worst(gate["verdict"] for gate in judged if gate["level"] == "fail")
    if judged and verdict == "pass" and not_shown:
        return "inconclusive", not_shown
    return verdict, "" if judged else "no gate is asked of this stage"


def run_verdict(entries: Sequence[Mapping[str, Any]], gates: Sequence[Gate]) -> tuple[str, str]:
    """The run's verdict, and one sentence where it does not speak for itself."""
    for entry in entries:
        if entry["baseline"] and entry["verdict"] == "fail":
            return "fail", _alone(entry)
    if not any(entry["gates"] for entry in entries):
        return "inconclusive", NOT_JUDGED if gates else NO_GATE
    verdict = worst(entry["verdict"] for entry in entries)
    failing = [entry for entry in entries if entry["verdict"] == "fail"]
    failing = [entry for entry in failing if entry["validity"] == "valid"] or failing
    if failing and (failure := decided_by(failing[-1])) is not None:
        return verdict, headline(failure, baseline=False)
    return verdict, ""
