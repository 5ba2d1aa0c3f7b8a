"""The `timeline` of the page's data: stages, lines, spans of activity and events on one clock."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from cotenant.report.page.activity import Activity, joined
from cotenant.report.page.base import Base, ms, stage_kind
from cotenant.report.page.machine import machine_lines
from cotenant.report.page.playing import fps_lines, gap_lines, playable_ahead
from cotenant.verdict.causes import faces as causes_faces
from cotenant.verdict.plan import StagePlan

MOST_SPANS: Final = 20_000
_GROUPS: Final = ("ahead", "gap", "fps", "canary", "sm", "dram", "clock", "power", "engine", "host")
_OF_GPU: Final = frozenset({"canary", "sm", "dram", "clock", "power"})


def timeline(base: Base, activity: Activity) -> dict[str, Any]:
    """Everything that has a place on the time axis."""
    lines = [*playable_ahead(base), *gap_lines(base), *fps_lines(base), *machine_lines(base)]
    spans, spans_why = joined(base, activity, MOST_SPANS)
    underruns, freezes = underrun_events(base), freeze_events(base)
    return {
        "length_s": base.second(base.end_ns),
        "stages": _stages(base),
        "series": lines,
        "spans": spans,
        "spans_why": spans_why,
        "underruns": underruns,
        "freezes": freezes,
        "missing": _missing(base, {line["group"] for line in lines}, bool(spans)),
    }


def _stages(base: Base) -> list[dict[str, Any]]:
    plan = base.facts.plan
    solo = {stage.name for stage in plan.solos}
    found = []
    for name, spans in plan.lived.items():
        measured = plan.measured.get(name, ())
        for span in spans:
            inside = [w for w in measured if span.start_ns <= w.start_ns <= span.end_ns]
            entry = {
                "name": name,
                "kind": stage_kind(name, name in solo),
                "start_s": base.second(span.start_ns),
                "end_s": base.second(span.end_ns),
                "measure": [[base.second(w.start_ns), base.second(w.end_ns)] for w in inside],
            }
            found.append((span.start_ns, name, entry))
    return [entry for _, _, entry in sorted(found, key=lambda one: one[:2])]


def underrun_events(base: Base) -> list[dict[str, Any]]:
    """Every underrun of every measured utterance, by start."""
    events, voices = base.facts.voices.played.events, base.facts.voices.streams
    order = np.lexsort((events.stream, events.start_ns))
    return [
        {
            "stage": str(voices.stage[row]),
            "stream": int(voices.stream[row]),
            "start_s": base.second(start),
            "duration_ms": ms(duration),
        }
        for row, start, duration in zip(
            events.stream[order].tolist(),
            events.start_ns[order].tolist(),
            events.duration_ns[order].tolist(),
            strict=True,
        )
    ]


def freeze_events(base: Base) -> list[dict[str, Any]]:
    """Every freeze of every measured face, by start."""
    found = []
    for stage, clips in base.facts.faces.clips.items():
        streams, freezes = base.facts.faces.streams[stage].stream, causes_faces.freeze_events(clips)
        for clip, start_ns, duration_ns in zip(
            freezes.stream.tolist(), freezes.start_ns.tolist(), freezes.duration_ns.tolist(), strict=True
        ):
            entry = {
                "stage": stage,
                "stream": int(streams[clip]),
                "start_s": base.second(start_ns),
                "duration_ms": ms(duration_ns),
            }
            found.append((start_ns, entry["stream"], entry))
    return [entry for _, _, entry in sorted(found, key=lambda one: one[:2])]


def _missing(base: Base, there: set[Any], spans: bool) -> list[dict[str, str]]:
    """What has no line, and why."""
    plan, found = base.facts.plan, []
    for group in _GROUPS:
        if group not in there:
            found.append({"what": group, "why": _why_none(base, group)})
    if not spans:
        found.append({"what": "spans", "why": "no request was recorded outside the warm-up"})
    if not _loads(base, plan.stages, "voices"):
        found.append({"what": "underruns", "why": "no stage has voices"})
    if not _loads(base, plan.stages, "faces"):
        found.append({"what": "freezes", "why": "no stage has faces"})
    return found


def _loads(base: Base, stages: Sequence[StagePlan], kind: str) -> bool:
    return any(base.facts.plan.of_kind(stage, kind) for stage in stages)


def _why_none(base: Base, group: str) -> str:
    stages = base.facts.plan.stages
    kind = {"ahead": "voices", "gap": "voices", "fps": "faces", "engine": "completions"}.get(group)
    if kind is not None and not _loads(base, stages, kind):
        return f"no stage has {kind}"
    if group in _OF_GPU and not base.facts.plan.has_gpu:
        return "no NVIDIA GPU"
    return "nothing was recorded"
