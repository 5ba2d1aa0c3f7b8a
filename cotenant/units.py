"""Durations, sizes and rates as users write them, and the only place that formats them."""

import math
import re
from fractions import Fraction

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

_DURATION_NS = {
    "ns": 1, "us": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S, "m": 60 * NS_PER_S, "h": 3600 * NS_PER_S,
}  # fmt: skip
_SIZE = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30,
}  # fmt: skip
_NUMBER = r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
_DURATION_RE = re.compile(_NUMBER + r"\s*(ns|us|ms|s|m|h)")
_SIZE_RE = re.compile(_NUMBER + r"\s*(Ki|Mi|Gi|k|M|G|)")
_RATE_RE = re.compile(_NUMBER + r"\s*/\s*(ms|s|m|h)")
_MAX_NS = 366 * 24 * 3600 * NS_PER_S


def parse_duration_ns(text: str) -> int:
    """`400ms`, `1.5s`, `20m` -> nanoseconds. Raises ValueError with what would be right."""
    match = _DURATION_RE.fullmatch(text.strip()) if len(text) <= 40 else None
    if match is None:
        right = "write a number and a unit, as in 400ms, 1.5s or 20m"
        raise ValueError(f"{text[:40]!r} is not a duration; {right}")
    value_ns = round(Fraction(match[1]) * _DURATION_NS[match[2]])
    if value_ns > _MAX_NS:
        raise ValueError(f"{text!r} is longer than a year")
    return value_ns


def parse_size(text: str) -> int:
    """`32k` (32,000), `4Ki` (4,096), `12` -> a whole number. Raises ValueError with what would be right."""
    match = _SIZE_RE.fullmatch(text.strip()) if len(text) <= 40 else None
    if match is None:
        right = "write a whole number, as in 400, 32k (1000s) or 4Ki (1024s)"
        raise ValueError(f"{text[:40]!r} is not a size; {right}")
    value = Fraction(match[1]) * _SIZE[match[2]]
    if value.denominator != 1 or value > 2**53:
        raise ValueError(f"{text!r} is not a whole number of at most 2^53")
    return int(value)


def parse_rate_per_s(text: str) -> float:
    """`2.5/s`, `30/m` -> events per second. Raises ValueError with what would be right."""
    match = _RATE_RE.fullmatch(text.strip()) if len(text) <= 40 else None
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a rate; write events per time, as in 2.5/s or 30/m")
    return float(Fraction(match[1]) / Fraction(_DURATION_NS[match[2]], NS_PER_S))


def duration_text(value_ns: int) -> str:
    """The shortest text that `parse_duration_ns` reads back as exactly this: 400ms, 1.5s, 20m."""
    for unit in ("h", "m", "s", "ms", "us"):
        if value_ns and value_ns % _DURATION_NS[unit] == 0:
            return f"{value_ns // _DURATION_NS[unit]}{unit}"
    if value_ns == 0:
        return "0ms"
    if value_ns % NS_PER_MS == 0 or value_ns < NS_PER_S:
        return f"{value_ns}ns"
    return f"{value_ns // NS_PER_S}.{value_ns % NS_PER_S:09d}".rstrip("0") + "s"


def ms_from_ns(value_ns: int | float) -> float:
    """Nanoseconds -> milliseconds with at most microsecond digits, as JSON and tables show them."""
    return round(value_ns / NS_PER_MS, 3)


def format_ms(value_ms: float | None, *, signed: bool = False) -> str:
    """`314 ms`, `+310 ms`, `0.25 ms` under 1 ms, `12.3 s` from 10 s on; `-` for None, `inf`, `-inf`."""
    if value_ms is None:
        return "-"
    if math.isinf(value_ms):
        return "+inf" if value_ms > 0 and signed else "inf" if value_ms > 0 else "-inf"
    sign = "+" if signed and value_ms > 0 else ""
    if abs(value_ms) >= 10_000:
        return f"{sign}{value_ms / 1000:.1f} s"
    if abs(value_ms) < 1 and value_ms != 0:
        return f"{sign}{value_ms:.2f} ms"
    return f"{sign}{value_ms:.0f} ms"


def counted(count: int | str, one: str, many: str | None = None) -> str:
    """`1 face`, `2 faces`; `many` where the plural is not `one` and an s. Text is a number not yet known."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def format_share(value: float | None, digits: int = 0) -> str:
    """`71 %`, never rounded up to 100 % or down to 0 %; `-` for None."""
    if value is None:
        return "-"
    text = f"{100 * value:.{digits}f}"
    step = 10.0**-digits
    if value < 1 and float(text) >= 100:
        text = f"{100 - step:.{digits}f}"
    if value > 0 and float(text) == 0:
        return f"<{step:.{digits}f} %"
    return f"{text} %"
