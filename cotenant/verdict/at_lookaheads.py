"""A run judged at many lookaheads: only what the lookahead changes is computed anew for each.

The verdicts are those of `judge` with that lookahead; what it says beside them (causes, mends, what-ifs) is
left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from cotenant.playback.fleet import play_fleet
from cotenant.records import Recording
from cotenant.units import ms_from_ns
from cotenant.verdict.bounds import bounds_of
from cotenant.verdict.face_part import face_part
from cotenant.verdict.faces import read_faces
from cotenant.verdict.facts import Facts, Paired
from cotenant.verdict.gates import Gate, applies, judge_gate
from cotenant.verdict.judging import (
    Judging,
    error_of,
    is_claim,
    read_judging,
    run_verdict,
    stage_verdict,
    was_measured,
    why_withheld,
)
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.plan import Plan
from cotenant.verdict.sample import Part
from cotenant.verdict.speech import speech_part
from cotenant.verdict.stages import StageFacts, put_reference
from cotenant.verdict.utterances import utterances
from cotenant.verdict.voices import heard_within

# What another lookahead changes begins with one of these.
_CHANGED: Final = ("speech", "face", "vs_reference")
# But for these: they are before the player, or beside it.
_UNCHANGED: Final = (
    "speech.ttfa_ms.",
    "speech.audible_ttfa_ms.",
    "speech.rtf.",
    "speech.chunk_gap",
    "face.frame_latency_ms.",
)
_Judged = Mapping[str, Mapping[int, dict[str, Any]]]


def judge_at(
    recording: Recording, options: JudgeOptions, lookaheads_ns: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """For each lookahead the summary of `judge`, with what a lookahead changes and the gates of each stage,
    without the rest; `clean_bounds` are the one-sided bounds of the share of clean utterances.

    Raises what `judge` raises.
    """
    run = read_judging(recording, options)
    judged = _unchanged(run)
    for lookahead_ns in lookaheads_ns:
        yield _at(run, judged, recording, lookahead_ns)


def _unchanged(run: Judging) -> dict[str, dict[int, dict[str, Any]]]:
    """Each stage's gates (by number) on what no lookahead changes."""
    return {
        found.plan.name: {
            number: judge_gate(gate, found.part, found.doubt, run.decision, run.facts.tail)
            for number, gate in enumerate(run.gates)
            if applies(gate, run.facts.plan, found.plan) and not _changes(gate)
        }
        for found in run.stages
    }


def _clean_bounds(found: StageFacts, tail: float) -> dict[str, float | None]:
    if "speech" not in found.part.entry:
        return {"low": None, "high": None}
    bounds = bounds_of(found.part, "speech.clean_share", tail)
    return {"low": bounds.low, "high": bounds.high}


def _changes(gate: Gate) -> bool:
    return gate.metric.split(".")[0] in _CHANGED and not gate.metric.startswith(_UNCHANGED)


def _at(run: Judging, judged: _Judged, recording: Recording, lookahead_ns: int) -> dict[str, Any]:
    facts, plan = _replayed(run.facts, recording, lookahead_ns), run.facts.plan
    solo, again = run.solo, run.again
    if any(_asks_reference(run, found) for found in run.stages):
        solo = {load: _renewed(facts, found) for load, found in run.solo.items()}
        again = None if run.again is None else _renewed(facts, run.again)
    stages = [_renewed(facts, found) for found in run.stages]
    for stage in stages:
        if _asks_reference(run, stage):
            put_reference(facts, stage, solo, again)
    first = [_entry(run, judged, facts, stage, "") for stage in stages if stage.plan.baseline]
    withheld = why_withheld(first)
    rest = [_entry(run, judged, facts, stage, withheld) for stage in stages if not stage.plan.baseline]
    by_name = {entry["name"]: entry for entry in (*first, *rest)}
    entries = [by_name[stage.plan.name] for stage in stages]
    verdict, because = run_verdict(entries, run.gates)
    return _summary(recording, plan, run, entries, verdict, because, lookahead_ns)


def _asks_reference(run: Judging, found: StageFacts) -> bool:
    """Whether a gate of the stage compares, so that the comparisons are worth their bootstraps."""
    return any(
        gate.metric.startswith("vs_reference.") and applies(gate, run.facts.plan, found.plan)
        for gate in run.gates
    )


def _summary(
    recording: Recording,
    plan: Plan,
    run: Judging,
    entries: list[dict[str, Any]],
    verdict: str,
    because: str,
    lookahead_ns: int,
) -> dict[str, Any]:
    invalid = [f"{entry['name']}: {why}" for entry in entries for why in entry["invalid_because"]]
    return {
        "status": str(recording.manifest.get("status", "running")),
        "error": error_of(recording.manifest),
        "measured": was_measured(plan),
        "scenario": plan.scenario.name,
        "verdict": verdict,
        "verdict_because": because,
        "validity": "invalid" if invalid else "valid",
        "invalid_because": invalid,
        "decision": run.decision,
        "lookahead_ms": ms_from_ns(lookahead_ns),
        "stages": entries,
    }


def _replayed(facts: Facts, recording: Recording, lookahead_ns: int) -> Facts:
    """The same run through a player with another lookahead."""
    player = replace(facts.player, lookahead_ns=lookahead_ns)
    voices = heard_within(replace(facts.voices, played=play_fleet(facts.voices.arrivals, player)))
    kinds = {name: load.kind for name, load in facts.plan.loads.items()}
    kind = np.array([kinds.get(load, "") for load in facts.streams.load], dtype=np.object_)
    faces = facts.faces
    if faces.clips:
        faces = read_faces(
            recording, facts.streams, facts.measured, facts.under_way, kind, voices, player, facts.plan
        )
    return replace(facts, player=player, voices=voices, faces=faces)


def _renewed(facts: Facts, found: StageFacts) -> StageFacts:
    """A stage's facts with the parts that a lookahead changes computed anew."""
    part = Part(
        entry={name: value for name, value in found.part.entry.items() if name not in _CHANGED},
        why=_kept(found.part.why),
        samples=_kept(found.part.samples),
        doubts=_kept(found.part.doubts),
    )
    stage, match = found.plan, found.paired
    if match is not None:
        own = utterances(facts.voices, match.own.rows, match.own.blocks, match.own.pair_audio_ns)
        other = match.reference
        if other is not None:
            other = utterances(facts.voices, other.rows, other.blocks, other.pair_audio_ns)
        match = Paired(own=own, reference=other, matched=match.matched)
        part.add("speech", speech_part(facts.voices, own, compared=other is not None))
    if facts.plan.of_kind(stage, "faces"):
        windows = facts.plan.measured.get(stage.name, ())
        part.add("face", face_part(facts.faces, stage.name, windows, facts.block_ns))
        # That a voice's end is not known does not hang on the lookahead.
        part.doubts.update(
            {
                path: doubt
                for path, doubt in found.part.doubts.items()
                if path.startswith("face.") and path not in part.doubts
            }
        )
    return replace(found, part=part, paired=match)


def _kept(values: Mapping[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in values.items() if path.split(".")[0] not in _CHANGED}


def _entry(run: Judging, judged: _Judged, facts: Facts, found: StageFacts, withheld: str) -> dict[str, Any]:
    name, gates = found.plan.name, []
    for number, gate in enumerate(run.gates):
        if not applies(gate, facts.plan, found.plan):
            continue
        same = judged[name].get(number)
        held = withheld if is_claim(gate) else ""
        gates.append(same or judge_gate(gate, found.part, found.doubt, run.decision, facts.tail, held))
    verdict, reason = stage_verdict(facts.plan, name, gates, found.doubt.not_shown)
    why = {**found.part.why, **({"verdict": reason} if reason else {})}
    parts: dict[str, Any] = {name: found.part.entry[name] for name in _CHANGED if name in found.part.entry}
    return {
        "name": name,
        "baseline": found.plan.baseline,
        "verdict": verdict,
        "validity": "invalid" if found.invalid else "valid",
        "invalid_because": found.invalid,
        "why": why,
        **parts,
        "failures": found.failures,
        "caveats": found.caveats,
        "clean_bounds": _clean_bounds(found, facts.tail),
        "gates": gates,
    }
