"""Two runs side by side: what of B is worse than A, beyond its interval and by an amount that matters."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant.errors import ExitCode
from cotenant.records import Recording
from cotenant.units import format_share, ms_from_ns
from cotenant.verdict.compare import pairs
from cotenant.verdict.compare_metric import TAIL, Both, Decision, compare_metric
from cotenant.verdict.effects import METRICS, STANDING_S, STANDING_SHARE, metrics_of
from cotenant.verdict.facts import Facts, read_facts
from cotenant.verdict.left_out import NOT_MEASURED, with_reason
from cotenant.verdict.plan import Plan, StagePlan, decision_of, player_of, read_plan
from cotenant.verdict.sample import Ratio
from cotenant.verdict.stages import StageFacts, a_a_ratios, stage_facts

SCHEMA: Final = 1
# What has to agree for utterances to be the same: who is asked may differ, that is what is compared.
_PAIRED_BY: Final = ("seed", "load", "stages", "timing")
_WORST: Final = ("pass", "inconclusive", "fail")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run, played by its own player. `noise`: ratios of its closing baseline over the first."""

    recording: Recording
    plan: Plan
    facts: Facts
    noise: Mapping[str, float | None]


def compare_runs(a: Recording, b: Recording, decision: Decision | None = None) -> dict[str, Any]:
    """What `compare --json` prints: for each stage of both, metrics of A and B with B - A and its bounds.

    Voices are paired by load, round, listener and utterance where seed, load, stages and timing of the runs
    agree (block bootstrap over pairs); everything else has the interval of two independent values (Zou and
    Donner 2008: the distances to the bounds of each, added in quadrature). A difference smaller than a run's
    own, between its first and its closing baseline, is no regression. `by_value` is what the values alone
    say, `verdict` what counts: where intervals decide and leave a better value open, it is `same`. `decision`
    None: intervals, unless both runs decide by point estimates. Raises UserError where a manifest holds no
    scenario.
    """
    run_a, run_b = _read(a), _read(b)
    why_unpaired = _why_unpaired(a.manifest, b.manifest)
    points = all(decision_of(run.plan, None) == "point" for run in (run_a, run_b))
    chosen: Decision = decision or ("point" if points else "interval")
    noise = _noise(run_a, run_b)
    names_a = [stage.name for stage in run_a.plan.stages]
    in_b = {stage.name: stage for stage in run_b.plan.stages}
    only_in_a = [name for name in names_a if name not in in_b]
    stages = [
        _stage(run_a, run_b, stage, in_b[stage.name], why_unpaired is None, noise, chosen)
        for stage in run_a.plan.stages
        if stage.name in in_b
    ]
    return {
        "schema": SCHEMA,
        "a": _about(a.manifest),
        "b": _about(b.manifest),
        "paired": why_unpaired is None,
        "decision": chosen,
        "verdict": _verdict(stages, only_in_a),
        "only_in_a": only_in_a,
        "only_in_b": [name for name in in_b if name not in names_a],
        "caveats": _caveats(run_a, run_b),
        "minimum_effects": {metric.path: metric.effect for metric in METRICS},
        "stages": stages,
        "why": {} if why_unpaired is None else {"paired": why_unpaired},
    }


def exit_code(comparison: Mapping[str, Any]) -> ExitCode:
    """1 for a regression; 3 where nothing, or not all that A has, could be compared; else 0."""
    found = {"pass": ExitCode.PASS, "fail": ExitCode.FAIL}
    return found.get(str(comparison["verdict"]), ExitCode.INCONCLUSIVE)


def _read(recording: Recording) -> _Run:
    plan = read_plan(recording)
    facts = read_facts(recording, plan, player_of(plan.scenario), TAIL)
    again = None
    if plan.again is not None and plan.again.name in plan.measured:
        again = stage_facts(facts, plan.again, by_round=False)
    return _Run(recording=recording, plan=plan, facts=facts, noise=a_a_ratios(again))


def _why_unpaired(a: Mapping[str, Any], b: Mapping[str, Any]) -> str | None:
    """Why utterances of the runs are no pairs; None where they are."""
    differ = [key for key in _PAIRED_BY if a["scenario"].get(key) != b["scenario"].get(key)]
    return f"the scenarios differ in {', '.join(differ)}: utterances are no pairs" if differ else None


def _noise(a: _Run, b: _Run) -> dict[str, float]:
    """By name of a compared quantile: the largest factor between two baselines of one run."""
    factors: dict[str, float] = {}
    for run in (a, b):
        for name, ratio in run.noise.items():
            if ratio is not None and ratio > 0 and math.isfinite(ratio):
                factors[name] = max(factors.get(name, 1.0), ratio, 1 / ratio)
    return factors


def _stage(
    a: _Run,
    b: _Run,
    stage_a: StagePlan,
    stage_b: StagePlan,
    paired: bool,
    noise: Mapping[str, float],
    decision: Decision,
) -> dict[str, Any]:
    facts_a, facts_b = stage_facts(a.facts, stage_a), stage_facts(b.facts, stage_b)
    invalid = [
        f"{name}: {reason}" for name, found in (("A", facts_a), ("B", facts_b)) for reason in found.invalid
    ]
    for name, run in (("A", a), ("B", b)):
        if stage_a.name not in run.plan.measured:
            invalid.append(f"{name}: {with_reason(NOT_MEASURED, run.plan, stage_a.name)}")
    rows = None
    if paired and facts_a.paired is not None and facts_b.paired is not None:
        own, other = facts_b.paired.own.rows, facts_a.paired.own.rows
        streams = b.facts.voices.streams.take(own), a.facts.voices.streams.take(other)
        rows = pairs(*streams, by_round=True)
    standing = _standing(facts_a, "A") or _standing(facts_b, "B")
    both = Both(a=facts_a, b=facts_b, rows=rows, noise=noise, decision=decision, standing=standing)
    every = [compare_metric(both, path, metric) for path, metric in metrics_of((facts_a.part, facts_b.part))]
    metrics = [entry for entry in every if entry is not None]
    verdict = _of_metrics([entry["verdict"] for entry in metrics if entry["verdict"] is not None])
    why = {"verdict": "no metric has a value in both runs"} if not metrics else {}
    if invalid:
        verdict, why = "inconclusive", {"verdict": "; ".join(invalid)}
    return {
        "name": stage_a.name,
        "pairs": None if rows is None else len(rows[0]),
        "verdict": verdict,
        "metrics": metrics,
        "why": why,
    }


def _standing(found: StageFacts, name: str) -> str:
    """`in A (for 93 % of the time)` where the faces of a stage stand still; else ""."""
    shown = found.part.samples.get("face.harmonic_fps")
    if not isinstance(shown, Ratio):
        return ""
    seconds = shown.numerators
    total, stood = float(seconds.sum()), float(seconds[seconds > STANDING_S].sum())
    return (
        f"in {name} (for {format_share(stood / total)} of the time)" if stood > STANDING_SHARE * total else ""
    )


def _of_metrics(verdicts: list[str]) -> str:
    if "regression" in verdicts:
        return "fail"
    return "inconclusive" if not verdicts or "inconclusive" in verdicts else "pass"


def _verdict(stages: list[dict[str, Any]], only_in_a: list[str]) -> str:
    """What B does not have could have been worse there."""
    verdicts = [stage["verdict"] for stage in stages] + ["inconclusive"] * len(only_in_a)
    return max(verdicts, key=_WORST.index, default="inconclusive")


def _about(manifest: Mapping[str, Any]) -> dict[str, Any]:
    scenario = manifest["scenario"]
    return {
        "run_id": str(manifest.get("run_id", "")),
        "scenario": str(scenario.get("name", "")),
        "status": str(manifest.get("status", "running")),
    }


def _caveats(a: _Run, b: _Run) -> list[str]:
    found = []
    players = [run.facts.player for run in (a, b)]
    if players[0] != players[1]:
        shown = [f"{ms_from_ns(player.lookahead_ns):g} ms ({player.start})" for player in players]
        found.append(f"each run was played by its own player: A with {shown[0]}, B with {shown[1]}")
    for name, run in (("A", a), ("B", b)):
        status = run.recording.manifest.get("status", "running")
        if status != "complete":
            found.append(f"{name} is not complete: {status}")
        if run.plan.baseline is not None and not run.noise:
            found.append(f"{name} has no valid closing baseline: how much it varies by itself is not known")
    kinds = [(run.recording.manifest.get("device") or {}).get("name") for run in (a, b)]
    if kinds[0] != kinds[1]:
        found.append(f"the devices differ: {kinds[0]} and {kinds[1]}")
    return found
