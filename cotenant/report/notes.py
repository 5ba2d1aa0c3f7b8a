"""The notes of a run, one line each: what it does not tell, what is INVALID, caveats with their advice."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cotenant.errors import hint_of
from cotenant.report.elsewhere import none_here
from cotenant.report.gate_words import short_sentence
from cotenant.report.text import could_not_run, error_text, not_measured, safe
from cotenant.units import counted

Entry = Mapping[str, Any]
CPU_NOTE: Final = "this ran on a CPU: the contention is real, but it tells nothing about your GPU"
# More than these, wrapped to two lines each, would push the table off a screen.
MOST: Final = 12
_MOST_INVALID: Final = 4
_NAMED: Final = 2
_WARNED: Final[Mapping[str, str]] = {"fail": "warning", "inconclusive": "warning, not decided"}


def notes(summary: Entry, manifest: Entry | None = None) -> list[str]:
    """The notes, the gravest first; the same caveat of several stages is one. `manifest`: whose services
    they were, where that is known."""
    advised = [_advised(caveat, safe(caveat["text"])) for caveat in summary["caveats"]]
    if could_not_run(summary):
        return advised
    found = []
    if error := error_text(summary):
        found.append(f"the run failed before its end, and what was recorded until then was judged: {error}")
    if summary["device"] == "cpu" and not none_here(summary):
        found.append(CPU_NOTE)
    if summary["status"] != "complete" and not error:
        found.append(f"the run is {safe(summary['status'])}: what was recorded was judged")
    found += _invalid(summary)
    found += [text for stage in summary["stages"] for text in _failures(stage, manifest or {})]
    found += advised
    found += _caveats(summary)
    found += _warnings(summary)
    found += _baseline_again(summary)
    found += _delays(summary)
    if len(found) > MOST:
        left = len(found) - MOST + 1
        found = [*found[: MOST - 1], f"and {left} more notes; summary.json has them all"]
    return found


def _delays(summary: Entry) -> Iterator[str]:
    """How many were due later than their turn would have been, and by how much: no TTFA holds that."""
    speeches = [(stage["name"], stage.get("speech", {})) for stage in summary["stages"]]
    delayed = sum(speech.get("delayed") or 0 for _, speech in speeches)
    if not delayed:
        return
    waits = [(wait, name) for name, one in speeches if (wait := (one.get("delay_ms") or {}).get("p95"))]
    worst, stage = max(waits, default=(None, ""))
    how_long = "" if worst is None else f" (p95 in {safe(stage)}: {worst:.0f} ms)"
    them = "it" if delayed == 1 else "them"
    count = counted(delayed, "utterance")
    yield f"{count} waited for the one before {them} to end{how_long}; TTFA does not hold that wait"


def stages_named(names: Sequence[str]) -> str:
    """`tts-alone, talking-head and 3 more`."""
    shown = ", ".join(safe(name) for name in names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def _invalid(summary: Entry) -> Iterator[str]:
    """Each reason once, with all the stages that it makes INVALID."""
    stages = [(stage["name"], stage["invalid_because"]) for stage in _with_again(summary)]
    reasons: dict[str, list[str]] = {}
    for name, because in stages:
        for reason in because:
            reasons.setdefault(str(reason), []).append(str(name))
    for reason, names in list(reasons.items())[:_MOST_INVALID]:
        verb = "is" if len(names) == 1 else "are"
        yield f"{stages_named(names)} {verb} INVALID: {safe(reason)}"
    for load, solo in summary.get("solo", {}).items():
        if because := solo.get("invalid_because"):
            reason = safe(because[0])
            yield f"the solo window of {safe(load)} is INVALID, nothing is compared with it: {reason}"
    if len(reasons) > _MOST_INVALID:
        yield f"and {counted(len(reasons) - _MOST_INVALID, 'more reason')} for INVALID, in summary.json"


def _caveats(summary: Entry) -> Iterator[str]:
    """One line for each kind; where the stages' texts differ, that of the stage where it is worst.

    What makes a stage INVALID has been said as that.
    """
    kinds: dict[str, list[tuple[str, Entry]]] = {}
    for stage in _with_again(summary):
        for caveat in stage["caveats"]:
            told = any(str(caveat["text"]) in str(reason) for reason in stage["invalid_because"])
            if not told:
                kinds.setdefault(str(caveat["kind"]), []).append((str(stage["name"]), caveat))
    for found in kinds.values():
        names = list(dict.fromkeys(name for name, _ in found))
        texts = {str(caveat["text"]) for _, caveat in found}
        name, worst = max(found, key=lambda pair: _gravity(pair[1]))
        where = ""
        if len(texts) > 1:
            where = f" ({safe(name)})" if len(names) > 1 else f" (and {len(texts) - 1} more)"
        yield f"{stages_named(names)}: {_advised(worst, safe(worst['text']) + where)}"


def _gravity(caveat: Entry) -> float:
    """By its first number: a ratio by how far it is from 1, a coverage by what it lacks."""
    for name, value in caveat.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            away = name.endswith("_ratio") or name == "coverage"
            return abs(value - 1) if away else float(value)
    return 0.0


def _advised(caveat: Entry, text: str) -> str:
    return f"{text}; {safe(caveat['advice'])}" if caveat["advice"] else text


def _warnings(summary: Entry) -> Iterator[str]:
    for stage in summary["stages"]:
        for gate in stage["gates"]:
            if gate["level"] == "warn" and gate["verdict"] != "pass":
                yield f"{safe(stage['name'])}: {_WARNED[gate['verdict']]}: {short_sentence(gate)}"


def _baseline_again(summary: Entry) -> Iterator[str]:
    """Why it tells nothing. Where it differs from the first that is a caveat, where it does not no note."""
    if any(caveat["kind"] == "a-a" for caveat in summary["caveats"]):
        return
    if summary["a_a"].get("ttfa_p95_ratio") is None and any(stage["baseline"] for stage in summary["stages"]):
        reason = summary["a_a"]["why"].get("ttfa_p95_ratio", "no data")
        yield f"the baseline once more at the end tells nothing: {safe(reason)}"


def _with_again(summary: Entry) -> list[Entry]:
    again = summary["a_a"].get("stage")
    return [*summary["stages"], *([again] if again else [])]


def _failures(stage: Entry, manifest: Entry) -> list[str]:
    """What a service did not do in a stage, by kind; and a stage in which nothing was said."""
    found, speech = [], stage.get("speech")

    def failed(part: Entry, who: str, kind: str, load: str | None = None) -> None:
        names = _asked(manifest, stage, kind, load)
        hint = _hint(part, _started(manifest, names), _key_env(manifest, names))
        found.append(f"{who} failed ({_kinds(part)}){hint}")

    if speech is not None and speech["streams"] == 0 and not not_measured(stage):
        found.append("no utterance fell due while it was measured")
    if speech and speech["failed"]:
        failed(speech, f"{speech['failed']} of {counted(speech['streams'], 'utterance')}", "voices")
    face = stage.get("face")
    if face and face.get("failed"):
        failed(face, f"{face['failed']} of {counted(face['streams'], 'clip')}", "faces")
    for name, load in (stage.get("llm") or {}).items():
        if load["failed"]:
            failed(load, f"{counted(load['failed'], 'request')} of {safe(name)}", "completions", name)
    return [f"{safe(stage['name'])}: {text}" for text in found]


def _kinds(part: Entry) -> str:
    return ", ".join(f"{safe(kind)} {count}" for kind, count in part["errors"].items())


def _hint(part: Entry, started: Sequence[str], key_env: str | None) -> str:
    """What to look at first, for the kind that most of them failed by."""
    kind = max(part["errors"], key=lambda kind: part["errors"][kind], default="")
    hint = hint_of(str(kind), started, key_env=key_env)
    return f"; {hint}" if hint else ""


def _asked(manifest: Entry, stage: Entry, kind: str, load: str | None = None) -> list[str]:
    """The tenants of a stage's loads of a kind, or of one load."""
    scenario = manifest.get("scenario") or {}
    ran: Sequence[str] = next(
        (one["load"] for one in scenario.get("stages", []) if one["name"] == stage["name"]), []
    )
    asked = [scenario["load"][name] for name in ran if load in (None, name)]
    return list(dict.fromkeys(one["tenant"] for one in asked if one["kind"] == kind))


def _started(manifest: Entry, names: Sequence[str]) -> list[str]:
    """These tenants, where the run itself started all of them."""
    engines = {manifest["scenario"]["tenants"][name].get("engine") for name in names}
    return [safe(name, 40) for name in names] if engines <= {"builtin", "launch"} else []


def _key_env(manifest: Entry, names: Sequence[str]) -> str | None:
    """The variables that the keys of these tenants came from."""
    variables = (manifest["scenario"]["tenants"][name].get("api_key_env") for name in names)
    return " or ".join(dict.fromkeys(safe(one, 40) for one in variables if one)) or None
