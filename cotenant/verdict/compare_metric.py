"""One metric of a stage in two runs: the difference, its bounds, and whether it matters."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from cotenant.verdict.bounds import bounds_of
from cotenant.verdict.columns import Ints
from cotenant.verdict.effects import FREEZES, Metric
from cotenant.verdict.sample import number_of
from cotenant.verdict.stages import StageFacts
from cotenant.verdict.stats import Bounds, paired_bounds, paired_share_bounds
from cotenant.verdict.utterances import paired_quantiles

# One-sided; an interval of both bounds holds the difference in 95 of 100 cases.
TAIL: Final = 0.025
# Path in a stage's entry -> the name under which utterances are paired for it.
_COMPARED: Final = {
    f"speech.{place}.p{round(100 * level)}": name for name, (place, level) in paired_quantiles().items()
}

Decision = Literal["interval", "point"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """A stage in both runs; `rows`: positions of the pairs (in B, in A), None where there are none.

    `standing`: in which of them the picture stands still, "" where in neither.
    """

    a: StageFacts
    b: StageFacts
    rows: tuple[Ints, Ints] | None
    noise: Mapping[str, float]
    decision: Decision
    standing: str = ""


def compare_metric(both: Both, path: str, metric: Metric) -> dict[str, Any] | None:
    """One metric of both; None where neither has it. Its verdict is null where it cannot be compared."""
    values, reasons = {}, {}
    for name, found in (("a", both.a), ("b", both.b)):
        values[name], reasons[name] = number_of(found.part, path)
    if values["a"] is None and values["b"] is None:
        return None
    if path == FREEZES and both.standing:
        return _not_compared(path, values, reasons, f"not compared: the picture stands still {both.standing}")
    bounds, is_paired = _bounds(both, path, values["a"], values["b"])
    difference = None
    if values["a"] is not None and values["b"] is not None:
        with np.errstate(invalid="ignore"):
            difference = float(np.float64(values["b"]) - np.float64(values["a"]))
        if math.isnan(difference):
            difference = 0.0  # Both are the same infinity.
    by_value = _by_value(metric, values["a"], difference, both, path)
    verdict, reason = _decide(by_value, difference, bounds, both.decision)
    ratio = None
    if values["a"] and values["b"] is not None and math.isfinite(values["a"]) and values["a"] > 0:
        ratio = values["b"] / values["a"]
    lacking = reasons["a"] or reasons["b"] or bounds.why or "no bound from so few"
    entry: dict[str, Any] = {
        "metric": path,
        "verdict": verdict,
        "by_value": by_value,
        "paired": is_paired,
        "n": bounds.n,
        "why": {},
    }
    numbers = {**values, "difference": difference, "ratio": ratio, "low": bounds.low, "high": bounds.high}
    for name, number in numbers.items():
        entry[name] = None if number is None or not math.isfinite(number) else round(number, 6) + 0.0
        if entry[name] is None:
            sign = "" if number is None else "+inf" if number > 0 else "-inf"
            zero = "A is zero, negative or infinite" if name == "ratio" else ""
            entry["why"][name] = sign or reasons.get(name) or zero or lacking
    if reason:
        entry["why"]["verdict"] = reason
    return entry


def _not_compared(
    path: str, values: Mapping[str, float | None], reasons: Mapping[str, str], why: str
) -> dict[str, Any]:
    """Both values, and null with the reason for all that would compare them."""
    shown = {name: None if value is None else round(value, 6) + 0.0 for name, value in values.items()}
    lacking = {name: reasons[name] for name, value in shown.items() if value is None}
    null = ("verdict", "by_value", "difference", "ratio", "low", "high")
    entry = {"metric": path, "verdict": None, "paired": False, "n": 0, **shown, **dict.fromkeys(null)}
    return {**entry, "why": lacking | dict.fromkeys(null, why)}


def _bounds(both: Both, path: str, a: float | None, b: float | None) -> tuple[Bounds, bool]:
    """Bounds of B - A, and whether they are of pairs."""
    if both.rows is not None and len(both.rows[0]) and both.a.paired and both.b.paired:
        left, right = both.rows
        own, other = both.b.paired.own, both.a.paired.own
        if path in _COMPARED:
            place, level = paired_quantiles()[_COMPARED[path]]
            ours, theirs = own.values[place][left], other.values[place][right]
            known = ~np.isnan(ours) & ~np.isnan(theirs)
            blocks = own.blocks[left][known]
            return paired_bounds(ours[known], theirs[known], blocks, level, ratio=False, tail=TAIL), True
        if path == "speech.clean_share":
            found = paired_share_bounds(own.clean[left], other.clean[right], own.blocks[left], tail=TAIL)
            return found, True
    of_a, of_b = (bounds_of(found.part, path, TAIL) for found in (both.a, both.b))
    low = high = None
    if a is not None and b is not None and (_is_certain(a, of_a) or _is_certain(b, of_b)):
        low = high = 0.0 if a == b else b - a
    elif a is not None and b is not None and math.isfinite(a) and math.isfinite(b):
        if of_a.high is not None and of_b.low is not None:
            low = b - a - math.hypot(b - of_b.low, of_a.high - a)
        if of_a.low is not None and of_b.high is not None:
            high = b - a + math.hypot(of_b.high - b, a - of_a.low)
    n, n_eff = min(of_a.n, of_b.n), min(of_a.n_eff, of_b.n_eff)
    return Bounds(low=low, high=high, n=n, n_eff=n_eff, blocks=0, why=of_a.why or of_b.why), False


def _is_certain(value: float, bounds: Bounds) -> bool:
    """Whether it is infinite for sure: then so is its difference from any other."""
    return math.isinf(value) and bounds.low == bounds.high == value


def _by_value(metric: Metric, a: float | None, difference: float | None, both: Both, path: str) -> str | None:
    """What the values say, whatever the interval: `regression`, `improvement` or `same`; None without one."""
    if difference is None or a is None:
        return None
    sign = 1 if metric.worse == "higher" else -1
    least = metric.least(a)
    noise = both.noise.get(_COMPARED.get(path, ""), 1.0)
    if math.isfinite(a):
        least = max(least, abs(a) * (noise - 1))
    if abs(difference) < least:
        return "same"
    return "regression" if sign * difference > 0 else "improvement"


def _decide(
    word: str | None, difference: float | None, bounds: Bounds, decision: Decision
) -> tuple[str, str]:
    """`regression`, `improvement`, `same` or `inconclusive`, and the reason where it is not plain; `word`: as
    the values say."""
    if word is None or difference is None:
        return "inconclusive", "one of the runs has no value"
    if word == "same" or decision == "point":
        return word, ""
    near = bounds.low if difference > 0 else bounds.high
    if near is not None and near * difference > 0:
        return word, ""
    if near is not None and math.isfinite(near):
        return "same", "the interval of the difference holds zero"
    reason = "too few to bound the difference" if near is not None else bounds.why or "no bound from so few"
    # Nothing speaks for a regression where the value itself is better.
    return ("inconclusive" if word == "regression" else "same"), reason
