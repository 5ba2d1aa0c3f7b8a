"""A judged gate in words and numbers, for the reports that other tools read."""

from collections.abc import Mapping
from typing import Any, Final

from cotenant.units import format_ms, format_share
from cotenant.verdict.gates import gate_text
from cotenant.verdict.paths import unit_of

_INFINITIES: Final = {"+inf": float("inf"), "-inf": float("-inf")}


def number_of(gate: Mapping[str, Any], key: str) -> float | None:
    """`value`, `low`, `high` or `margin`, an infinity restored from its reason; None where there is none."""
    value = gate.get(key)
    if value is None:
        return _INFINITIES.get(str((gate.get("why") or {}).get(key)))
    return float(value)


def number_text(metric: str, value: float | None, *, signed: bool = False) -> str:
    """A number of this metric with its unit; `-` for None."""
    if value is None:
        return "-"
    if unit_of(metric) == "ms":
        return format_ms(value, signed=signed)
    sign = "+" if signed and value > 0 else ""
    if unit_of(metric) == "share" and abs(value) != float("inf"):
        return f"{sign}{100 * value:.1f} %" if signed else format_share(value, 1)
    return f"{sign}{value:.4g}"


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
