"""The whole of the page's data, one JSON object; its contract is dashboards/drilldown/README.md."""

import datetime
from collections.abc import Mapping
from typing import Any, Final

from cotenant.playback.lipsync import ACCEPT_NS, DETECT_NS
from cotenant.playback.options import CLEAN_STALL_NS
from cotenant.records import Recording
from cotenant.report import console
from cotenant.report.banner import banner_line
from cotenant.report.notes import notes
from cotenant.report.page.activity import activity_of
from cotenant.report.page.base import Base, read_base
from cotenant.report.page.causes import causes_by_stream
from cotenant.report.page.distributions import distributions
from cotenant.report.page.services import faces, llm
from cotenant.report.page.timeline import timeline
from cotenant.report.page.utterances import Extras, utterances
from cotenant.report.page.what_if import POSITIONS, what_if
from cotenant.report.why import why_lines
from cotenant.scenario.schema import Faces, Voices
from cotenant.units import NS_PER_MS, NS_PER_S, counted
from cotenant.verdict.options import JudgeOptions

VERSION: Final = 1
NO_VOICES: Final = "no stage has voices, so no lookahead changes anything"
Entry = Mapping[str, Any]


def page_data(
    recording: Recording,
    options: JudgeOptions,
    summary: Entry,
    base: Base,
    extras: Extras,
    *,
    positions: int = POSITIONS,
) -> dict[str, Any]:
    """What the page shows. `summary` is the judged run, `base` the same run as read by `read_base`;
    `positions`: at how many lookaheads it is judged."""
    activity = activity_of(base)
    voiced = any(stage.get("speech", {}).get("streams") for stage in summary["stages"])
    return {
        "version": VERSION,
        "kind": "run",
        "run": {**run_part(base, summary), "argument": extras.run},
        "console": console_part(summary, recording.manifest),
        "summary": summary,
        "what_if": what_if(recording, options, summary, positions) if voiced else None,
        "what_if_why": None if voiced else NO_VOICES,
        "timeline": timeline(base, activity),
        "utterances": utterances(base, activity, causes_by_stream(base, summary), extras),
        "faces": faces(base),
        "limits": {
            "skew_detect_ms": [limit / NS_PER_MS for limit in DETECT_NS],
            "skew_accept_ms": [limit / NS_PER_MS for limit in ACCEPT_NS],
            "clean_stall_ms": CLEAN_STALL_NS / NS_PER_MS,
        },
        "llm": llm(base),
        "distributions": distributions(base),
    }


def run_part(base: Base, summary: Entry) -> dict[str, Any]:
    """Who and what ran, when, on what."""
    manifest = base.recording.manifest
    scenario = _mapping(manifest, "scenario")
    device, tenants = _mapping(manifest, "device"), _mapping(scenario, "tenants")
    return {
        "id": str(summary["run_id"]),
        "scenario": str(summary["scenario"]),
        "about": str(scenario.get("about") or ""),
        "status": str(summary["status"]),
        "error": None if manifest.get("error") is None else str(manifest["error"]),
        "device": str(device.get("name") or "an unknown device"),
        "device_kind": str(summary["device"]),
        "started": _started(base),
        "lookahead_ms": summary["lookahead_ms"],
        "player": summary["player"],
        "versions": {str(name): str(value) for name, value in _mapping(manifest, "versions").items()},
        "tenants": {str(name): _tenant(name, tenant) for name, tenant in tenants.items()},
        "loads": {name: _load(base, name) for name in base.facts.plan.loads},
    }


def console_part(summary: Entry, manifest: Entry) -> dict[str, Any]:
    """What the terminal prints, in pieces."""
    word, sentence = console.verdict_line(summary)
    heading, noted, why, mend = console_texts(summary, manifest)
    return {
        "heading": heading,
        "first_why": _first_why(summary, sentence),
        "why": why,
        "mend": mend,
        "notes": noted,
        "verdict_word": word,
        "verdict_sentence": sentence,
    }


def _first_why(summary: Entry, sentence: str) -> str | None:
    """The banner's reason, unless the verdict's sentence says it already."""
    line = banner_line(summary)
    return None if line is None or line in sentence else line


def console_texts(summary: Entry, manifest: Entry) -> tuple[str, list[str], list[str], list[str]]:
    """Heading, notes, why and mend as the terminal has them."""
    return (
        console.heading(summary, manifest),
        notes(summary, manifest),
        why_lines(summary),
        console.mend_lines(summary),
    )


def _mapping(place: Entry, name: str) -> Entry:
    found = place.get(name)
    return found if isinstance(found, Mapping) else {}


def _tenant(name: str, tenant: Any) -> dict[str, str]:
    told = tenant if isinstance(tenant, Mapping) else {}
    what = told.get("model") or told.get("shape") or ""
    engine = str(told.get("engine", ""))
    label = f"{name} ({', '.join(str(part) for part in (engine, what) if part)})"
    return {"kind": str(told.get("kind", "")), "engine": engine, "label": label}


def _load(base: Base, name: str) -> dict[str, str]:
    load = base.facts.plan.scenario.load[name]
    if isinstance(load, Voices):
        said = f"{counted(load.listeners, 'listener')}, {load.mode}"
    elif isinstance(load, Faces):
        said = f"{counted(load.listeners, 'face')} at {load.fps} fps"
    else:
        asked = (
            counted(load.streams, "stream")
            if load.mode == "alive"
            else f"{load.rate_per_s:g} request{'' if load.rate_per_s == 1 else 's'} a second"
        )
        said = f"{asked}, prompt {load.prompt}, output {load.output}"
    return {"kind": load.kind, "tenant": load.tenant, "label": f"{name} ({said})"}


def _started(base: Base) -> str | None:
    """The wall clock at t0, by the run's anchor."""
    anchor = _mapping(base.recording.manifest, "anchor")
    mono, wall = anchor.get("mono_ns"), anchor.get("wall_ns")
    if not isinstance(mono, int) or not isinstance(wall, int):
        return None
    try:
        at = datetime.datetime.fromtimestamp((wall + base.t0_ns - mono) / NS_PER_S, tz=datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


__all__ = ["Extras", "page_data", "read_base"]
