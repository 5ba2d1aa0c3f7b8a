"""One stage's entry of the summary: its parts, its comparison with the reference, its validity."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cotenant.records import SOLO_PREFIX
from cotenant.units import counted, ms_from_ns
from cotenant.verdict.caveats import Caveat, engine_caveats, measuring_caveats
from cotenant.verdict.caveats_gpu import Watched, baselines_drifted, machine_findings
from cotenant.verdict.columns import NULL
from cotenant.verdict.compare import NO_PAIRS, compare_voices, put_comparison, quantile_ratios, widen
from cotenant.verdict.face_part import face_part
from cotenant.verdict.facts import Facts, Paired, judgeable, paired, timing_errors
from cotenant.verdict.failures import Failure, failures_of
from cotenant.verdict.gates import Doubt
from cotenant.verdict.left_out import left_out_caveats, with_reason
from cotenant.verdict.llm import llm_part
from cotenant.verdict.llm_silent import silent_llm_caveats, silent_llms, why_nothing_shown
from cotenant.verdict.observed import canary_part, gpu_part
from cotenant.verdict.paths import FACE_METRICS
from cotenant.verdict.plan import StagePlan
from cotenant.verdict.sample import Doubted, Part, number_of, put
from cotenant.verdict.speech import speech_part
from cotenant.verdict.timing import TimingError
from cotenant.verdict.under_way import under_way_caveat
from cotenant.verdict.unsettled import silence_caveat, silent_listeners
from cotenant.verdict.validity import caveats, invalid_because

NO_BASELINE: Final = "the scenario has no baseline"
IS_BASELINE: Final = "this is the baseline"
NO_SOLO: Final = "this load has no solo window in this run"
NO_AGAIN: Final = "the closing baseline was not measured"
BAD_AGAIN: Final = "the closing baseline is invalid"
NO_NOISE: Final = "the run's own noise is not known: {}"
# Name in vs_reference -> path in the load's own entry, and its unit.
_FACE_NUMBERS: Final = {
    "frame_latency_p95": ("frame_latency_ms.p95", "_ms"),
    "harmonic_fps": ("harmonic_fps", ""),
}
_LLM_NUMBERS: Final = {
    "tokens_per_s": ("tokens_per_s", ""),
    "prompt_tokens_per_s": ("prompt_tokens_per_s", ""),
    "ttft_p95": ("ttft_ms.p95", "_ms"),
    "itl_p99": ("itl_ms.p99", "_ms"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFacts:
    """A stage's entry before its gates are judged, and what they need beside it."""

    plan: StagePlan
    part: Part
    paired: Paired | None
    invalid: list[str]
    caveats: list[Caveat]
    failures: list[Failure]
    doubt: Doubt


def stage_facts(facts: Facts, stage: StagePlan, *, by_round: bool = True) -> StageFacts:
    """Everything about a stage that no other stage's result changes."""
    part = Part()
    windows = facts.plan.measured.get(stage.name, ())
    plan, match = facts.plan, None
    if plan.of_kind(stage, "voices"):
        match = paired(facts, stage, by_round=by_round)
        part.add("speech", speech_part(facts.voices, match.own, compared=match.reference is not None))
    if plan.of_kind(stage, "faces"):
        part.add("face", face_part(facts.faces, stage.name, windows, facts.block_ns))
        _doubt_faces(part, facts, stage)
    if loads := plan.of_kind(stage, "completions"):
        llm = Part()
        for load in loads:
            llm.add(load.name, llm_part(facts.tokens, load, stage.name, windows, facts.block_ns))
        part.add("llm", llm)
    part.add("gpu", gpu_part(facts.recording, windows, plan))
    part.add("canary_ms", canary_part(facts.recording, windows, plan, host=False))
    part.add("host_canary_ms", canary_part(facts.recording, windows, plan, host=True))
    errors = timing_errors(facts, stage)
    _put_timing(part, errors)
    silent, mute = silent_listeners(facts, stage), silent_llms(facts, stage)
    return StageFacts(
        plan=stage,
        part=part,
        paired=match,
        invalid=invalid_because(
            facts.recording,
            plan,
            stage,
            errors,
            part.entry.get("llm", {}),
            judgeable(facts, stage),
            silent=bool(silent),
        ),
        caveats=[
            *caveats(facts.recording, plan, stage, errors, facts.voices.reordered),
            *measuring_caveats(facts.recording, plan, errors, windows),
            *engine_caveats(facts.recording, plan, stage, windows),
            *([] if match is None else under_way_caveat(match.own.under_way)),
            *silence_caveat(facts, stage, silent),
            *silent_llm_caveats(mute),
            *left_out_caveats(plan, stage),
        ],
        failures=failures_of(facts, stage),
        doubt=_doubt(facts, errors, why_nothing_shown(mute)),
    )


def judge_machine(
    facts: Facts, stages: Sequence[StageFacts], solos: Iterable[StageFacts], again: StageFacts | None
) -> None:
    """Adds to every stage what the GPU did in it: caveats, and what makes it INVALID, against the baseline.

    Before `put_reference`: an invalid closing baseline or solo window is no reference.
    """
    baseline = next((stage for stage in stages if stage.plan.baseline), None)
    drift = ""
    if again is not None and baseline is not None:
        drift = baselines_drifted(again.part.entry["gpu"], baseline.part.entry["gpu"])
        if drift:
            again.invalid.append(drift)
    for found in (*stages, *solos, *([again] if again else [])):
        is_baseline = found is baseline
        findings = machine_findings(
            facts.recording,
            facts.plan,
            _watched(facts, found),
            None if baseline is None or is_baseline else _watched(facts, baseline),
            drifted=bool(drift),
            is_baseline=is_baseline,
        )
        found.invalid.extend(findings.invalid)
        found.caveats.extend(findings.caveats)


def _watched(facts: Facts, found: StageFacts) -> Watched:
    return Watched(gpu=found.part.entry["gpu"], windows=facts.plan.measured.get(found.plan.name, ()))


def put_reference(
    facts: Facts, found: StageFacts, solo: Mapping[str, StageFacts], again: StageFacts | None
) -> None:
    """Puts `vs_reference` into a stage's part: voices against the baseline, widened by how far the closing
    baseline (`again`) was from the first, the rest against their solo window."""
    part, stage = Part(), found.plan
    if found.paired is not None:
        if found.paired.reference is None:
            part.why[""] = IS_BASELINE if stage.baseline else NO_BASELINE
        else:
            matched = found.paired.matched
            part = compare_voices(found.paired.own, found.paired.reference, matched, facts.tail)
            a_a = a_a_ratios(again)
            lacking = NO_NOISE.format(why_no_a_a(again) or "no pairs with the first baseline")
            for name in part.entry:
                widen(part, name, a_a.get(name), lacking)
            if not len(matched[0]):
                part.why[""] = NO_PAIRS
    for load in facts.plan.of_kind(stage, "faces"):
        lacking = with_reason(NO_SOLO, facts.plan, SOLO_PREFIX + load.name)
        _against_solo(part, "", found, "face", solo.get(load.name), "face", _FACE_NUMBERS, lacking)
    for load in facts.plan.of_kind(stage, "completions"):
        path = f"llm.{load.name}"
        lacking = with_reason(NO_SOLO, facts.plan, SOLO_PREFIX + load.name)
        _against_solo(part, f"{path}.", found, path, solo.get(load.name), path, _LLM_NUMBERS, lacking)
    found.part.add("vs_reference", part)


def why_no_a_a(again: StageFacts | None) -> str:
    """Why the baselines of a run say nothing of its noise; `""` where they do."""
    if again is None:
        return NO_AGAIN
    return f"{BAD_AGAIN} ({again.invalid[0]})" if again.invalid else ""


def a_a_ratios(again: StageFacts | None) -> dict[str, float | None]:
    """Ratio of the closing baseline over the first, for each compared quantile; {} where there is none that
    is valid."""
    if again is None or again.invalid or again.paired is None or again.paired.reference is None:
        return {}
    return quantile_ratios(again.paired.own, again.paired.reference, again.paired.matched)


def _against_solo(
    part: Part,
    prefix: str,
    found: StageFacts,
    own_path: str,
    solo: StageFacts | None,
    solo_path: str,
    numbers: Mapping[str, tuple[str, str]],
    lacking_solo: str,
) -> None:
    for name, (path, unit) in numbers.items():
        own, why = number_of(found.part, f"{own_path}.{path}")
        reference, lacking = None, lacking_solo
        if solo is not None and solo.invalid:
            lacking = f"the solo window is invalid ({solo.invalid[0]})"
        elif solo is not None:
            reference, lacking = number_of(solo.part, f"{solo_path}.{path}")
        place = f"{prefix}{name}"
        put_comparison(part, place, own, reference, ratio=True, unit=unit, reason=why or lacking)
        for leaf in ("low", "high"):
            put(part, f"{place}.{leaf}", None, "a solo window is too short for an interval")


def _doubt_faces(part: Part, facts: Facts, stage: StagePlan) -> None:
    """A face is watched until its voice ends: where that is not known, too long a time may be looked at."""
    unknown = int(np.count_nonzero(facts.voices.streams.done[facts.voice_rows[stage.name]] == NULL))
    if unknown:
        reason = f"of {counted(unknown, 'voice')} the end is not known"
        part.doubts |= {f"face.{path}": Doubted(reason=reason) for path in FACE_METRICS}


def _put_timing(part: Part, errors: Mapping[str, TimingError]) -> None:
    for load, error in errors.items():
        for name, value, count in (
            ("p99_ms", error.p99_ns, error.arrivals + error.sends),
            ("arrivals_p99_ms", error.arrivals_p99_ns, error.arrivals),
            ("sends_p99_ms", error.sends_p99_ns, error.sends),
        ):
            reason = "unknown" if count else "there was nothing to time"
            put(part, f"timing.{load}.{name}", None if value is None else ms_from_ns(value), reason)
        put(part, f"timing.{load}.unknown_share", error.unknown_share, "")


def _doubt(facts: Facts, errors: Mapping[str, TimingError], not_shown: str) -> Doubt:
    by_kind: dict[str, float | None] = {}
    for load, error in errors.items():
        if not error.arrivals + error.sends:
            continue
        kind = facts.plan.loads[load].kind
        former = by_kind.get(kind, 0.0)
        value = None if error.p99_ns is None else ms_from_ns(error.p99_ns)
        by_kind[kind] = None if former is None or value is None else max(former, value)
    return Doubt(error_ms=by_kind, not_shown=not_shown)


def entry_of(found: StageFacts) -> dict[str, Any]:
    """The parts in the order of the summary."""
    entry = found.part.entry
    order = ("speech", "face", "llm", "gpu", "canary_ms", "host_canary_ms", "timing", "vs_reference")
    return {key: entry[key] for key in order if key in entry}
