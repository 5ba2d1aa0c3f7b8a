"""A judged gate in words and numbers: a sentence for people, and all that it rests on for other tools."""

from collections.abc import Mapping
from typing import Any, Final

from cotenant.report.text import safe
from cotenant.units import counted, format_ms, format_share
from cotenant.verdict.gates import gate_text
from cotenant.verdict.paths import unit_of

_INFINITIES: Final = {"+inf": float("inf"), "-inf": float("-inf")}
# Metric -> what it is, in a sentence: "33 % of utterances clean".
NAMES: Final[Mapping[str, str]] = {
    "speech.ttfa_ms.p95": "time to first audio p95",
    "speech.time_to_playback_ms.p95": "time to playback p95",
    "speech.clean_share": "of utterances clean",
    "speech.stall_ratio": "of the playing time stalled",
    "speech.headroom_ms.p5": "headroom p5",
    "face.fps_p5": "frames a second p5",
    "face.harmonic_fps": "harmonic frames a second",
    "face.freezes_per_minute": "freezes a minute",
    "face.first_frame_ms.p95": "first frame p95",
    "face.dropped_share": "of frames dropped",
    "face.skew_outside.detect": "of the time with a noticeable lip-sync error",
    "face.skew_outside.accept": "of the time with an unacceptable lip-sync error",
}
_SIGNED: Final = ("headroom_ms", "skew_ms", "difference", "difference_ms")
_COUNTED: Final[Mapping[str, str]] = {"speech": "utterance", "llm": "request", "vs_reference": "pair"}
_ASKED: Final[Mapping[str, str]] = {"<=": "at most", "<": "under", ">=": "at least", ">": "over"}


def number_of(gate: Mapping[str, Any], key: str) -> float | None:
    """`value`, `low`, `high` or `margin`, an infinity restored from its reason; None where there is none."""
    value = gate.get(key)
    if value is None:
        return _INFINITIES.get(str((gate.get("why") or {}).get(key)))
    return float(value)


def number_text(metric: str, value: float | None, *, signed: bool = False, digits: int = 1) -> str:
    """A number of this metric with its unit; `-` for None. `digits`: those of a share in per cent.

    What is signed is a difference: one of shares is told in points, for a per cent would be relative to one.
    """
    if value is None:
        return "-"
    unit = unit_of(metric)
    if unit == "ms":
        return format_ms(value, signed=signed)
    sign = "+" if signed and value > 0 else ""
    if unit == "share" and abs(value) != float("inf"):
        return f"{sign}{100 * value:.{digits}f} points" if signed else format_share(value, digits)
    return f"{sign}{value:.4g}"


def interval_text(metric: str, entry: Mapping[str, Any]) -> str:
    """`-12.3 to -3.4 points`: the bounds of a difference, `-` where there are none."""
    low, high = (number_text(metric, number_of(entry, key), signed=True) for key in ("low", "high"))
    if (low, high) == ("-", "-"):
        return "-"
    return f"{low.removesuffix(' points') if high.endswith(' points') else low} to {high}"


def title(gate: Mapping[str, Any]) -> str:
    """`speech.clean_share >= 95 % (voice)`."""
    profile = f" ({gate['profile']})" if gate.get("profile") else ""
    return f"{gate_text(gate)}{profile}"


def sentence(gate: Mapping[str, Any]) -> str:
    """What was found, and what the verdict on it rests on."""
    metric, why = str(gate["metric"]), gate.get("why") or {}
    value = number_of(gate, "value")
    if value is None:
        return f"no value: {why.get('value') or why.get('verdict') or 'no data'}"
    low, high = number_of(gate, "low"), number_of(gate, "high")
    parts = [number_text(metric, value)]
    if low is not None or high is not None:
        parts.append(f"one-sided 95 % bounds {number_text(metric, low)} and {number_text(metric, high)}")
    parts.append(f"n = {gate.get('n', 0)}")
    parts.append(f"margin {number_text(metric, number_of(gate, 'margin'), signed=True)}")
    if why.get("verdict"):
        parts.append(str(why["verdict"]))
    if gate.get("needs_more"):
        parts.append(f"needs about {gate['needs_more']} more")
    return ", ".join(parts)


def short_sentence(gate: Mapping[str, Any]) -> str:
    """`33 % of utterances clean, at least 95 % asked (n = 80)`, with the reason where it is not decided."""
    metric = str(gate["metric"])
    name, value = NAMES.get(metric, metric), number_of(gate, "value")
    limit = _shown(metric, float(gate["limit"])).removeprefix("+")
    if value is None:
        # One that fails without a value is known to be over its limit.
        known = (gate.get("why") or {}).get("value") if gate["verdict"] == "fail" else None
        said = f"{name.removeprefix('of ')} {safe(known or 'unknown')}"
    elif name.startswith("of "):
        said = f"{_shown(metric, value)} {name}"
    else:
        said = f"{name} {_shown(metric, value)}"
    found = f"{said}, {_ASKED.get(str(gate['op']), str(gate['op']))} {limit} asked"
    if gate.get("n"):
        found += f" (n = {gate['n']})"
    if gate["verdict"] == "inconclusive":
        found += f": {safe(gate.get('why', {}).get('verdict', 'no data'))}"
        if more := gate.get("needs_more"):
            what = _COUNTED.get(metric.split(".")[0], "sample")
            found += f"; needs about {counted(more, f'more {what}')}"
    return found


def _shown(metric: str, value: float) -> str:
    signed = any(step in _SIGNED for step in metric.split("."))
    return number_text(metric, value, signed=signed, digits=1 if metric.endswith("stall_ratio") else 0)
