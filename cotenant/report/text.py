"""Words and numbers of a summary as plain text: safe to print, whatever a scenario or a server put into
them."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from cotenant.units import format_ms, format_share

_LONGEST: Final = 300
# Directions that reorder what follows them on a line: as dangerous to a reader as control characters.
_REORDERING: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def safe(text: object, longest: int = _LONGEST) -> str:
    """One line without control characters, escapes and direction marks, at most `longest` characters."""
    line = re.sub(r"\s+", " ", str(text)).strip()
    shown = "".join(
        "?" if unicodedata.category(character).startswith("C") or character in _REORDERING else character
        for character in line
    )
    return shown if len(shown) <= longest else shown[: longest - 3] + "..."


def number(entry: Mapping[str, Any], path: str) -> float | None:
    """The number at a dotted path, infinities restored from `why`; None where there is none."""
    place: Any = entry
    for step in path.split("."):
        if not isinstance(place, Mapping):
            return None
        place = place.get(step)
    if isinstance(place, int | float):
        return float(place)
    reason = entry.get("why", {}).get(path)
    return {"+inf": float("inf"), "-inf": float("-inf")}.get(reason)


def value_text(path: str, value: float | None) -> str:
    """A metric's value with its unit, as a person reads it."""
    if value is None:
        return "-"
    steps = path.split(".")
    if any(step.endswith("_ms") for step in steps[-2:]) and steps[-1] != "unlimited":
        return format_ms(value, signed="headroom_ms" in steps or "skew_ms" in steps)
    if steps[-1].endswith("_share") or "skew_outside" in steps or "continuity" in steps:
        return format_share(value)
    if steps[-1] == "stall_ratio":
        return format_share(value, 1)
    return f"{value:.4g}"


# Metric -> what it is, in a sentence: "33 % of utterances clean".
NAMES: Final[Mapping[str, str]] = {
    "speech.ttfa_ms.p95": "time to first audio p95",
    "speech.time_to_playback_ms.p95": "time to playback p95",
    "speech.clean_share": "utterances clean",
    "speech.stall_ratio": "of the playing time stalled",
    "speech.headroom_ms.p5": "headroom p5",
    "face.fps_p5": "frames a second p5",
    "face.harmonic_fps": "harmonic frames a second",
    "face.freezes_per_minute": "freezes a minute",
    "face.first_frame_ms.p95": "first frame p95",
    "face.dropped_share": "frames dropped",
    "face.skew_outside.detect": "of the time with a noticeable lip-sync error",
    "face.skew_outside.accept": "of the time with an unacceptable lip-sync error",
}
_UNITS: Final[Mapping[str, str]] = {"speech": "utterances", "llm": "requests"}
_ASKED: Final[Mapping[str, str]] = {"<=": "at most", "<": "under", ">=": "at least", ">": "over"}


def gate_sentence(gate: Mapping[str, Any]) -> str:
    """`33 % of utterances clean, at least 95 % asked (n = 80)`, with the reason where it is not decided."""
    metric = str(gate["metric"])
    value = number({"value": gate.get("value"), "why": gate.get("why", {})}, "value")
    shown, limit = value_text(metric, value), value_text(metric, float(gate["limit"])).removeprefix("+")
    name = NAMES.get(metric, metric)
    if metric == "speech.clean_share":
        name = f"of {name}"
    said = f"{shown} {name}" if _is_share(metric) else f"{name} {shown}"
    if value is None:
        said = f"{NAMES.get(metric, metric)} unknown"
    sentence = f"{said}, {_ASKED.get(str(gate['op']), str(gate['op']))} {limit} asked"
    if gate.get("n"):
        sentence += f" (n = {gate['n']})"
    if gate["verdict"] == "inconclusive":
        reason = gate.get("why", {}).get("verdict", "no data")
        more = gate.get("needs_more")
        sentence += f": {safe(reason)}"
        if more:
            sentence += f"; needs about {more} more {_UNITS.get(metric.split('.')[0], 'samples')}"
    return sentence


def _is_share(metric: str) -> bool:
    return metric.endswith(("_share", "stall_ratio")) or "skew_outside" in metric


def stalled_text(entry: Mapping[str, Any]) -> str:
    """The stall ratio of a stage with one digit."""
    value = number(entry, "speech.stall_ratio")
    if value is not None and value == float("inf"):
        return "inf"
    return format_share(value, 1) if value else "-" if value is None else "0.0 %"
