"""What was seen while late chunks were being made, beside what was seen while others were."""

from typing import Any, Final

import numpy as np

from cotenant.units import NS_PER_MS
from cotenant.verdict import columns
from cotenant.verdict.causes.canary import busy_processes, canary_of, wait_ms
from cotenant.verdict.causes.time import Series
from cotenant.verdict.causes.units import Units
from cotenant.verdict.causes.work import Work, clock_of, clock_of_baseline, gpu_series
from cotenant.verdict.columns import NULL, Bools, Floats, Ints
from cotenant.verdict.facts import Facts
from cotenant.verdict.plan import StagePlan

# More windows say no more.
_MOST: Final = 2000
_REACH_NS: Final = 2_000_000_000
_ENGINE: Final = {"largest_step_tokens": "max", "running": "mean", "waiting": "mean", "preemptions": "sum"}


def evidence_of(
    facts: Facts, stage: StagePlan, units: Units, chosen: Bools, works: list[Work]
) -> tuple[dict[str, Any], dict[str, str]]:
    """(Values by name, reasons of those that are None) over the chosen late units. Names that end in
    `_in_time` are of the units that came in time."""
    late, rest = _some(chosen), _some(~units.late)
    spans = {"": (units.start_ns[late], units.end_ns[late]), "_in_time": _usual(units, rest)}
    found: dict[str, Any] = {}
    why: dict[str, str] = {}
    for suffix, (start, end) in spans.items():
        found[f"making_ms{suffix}"] = _rounded(np.median(end - start) / NS_PER_MS if len(start) else None)
        if not len(start):
            why[f"making_ms{suffix}"] = "no such chunk"
        for work in works:
            if work.level is not None:
                unit = "prompt_tokens" if work.what == "llm_prefill" else "streams"
                value = work.level.mean(start, end)
                found[f"{work.name}.{unit}{suffix}"] = _mean(value)
    _gpu(facts, stage, spans, found, why)
    if facts.plan.of_kind(stage, "completions"):
        _engine(facts, spans[""], found)
    return found, why


def _gpu(
    facts: Facts,
    stage: StagePlan,
    spans: dict[str, tuple[Ints, Ints]],
    found: dict[str, Any],
    why: dict[str, str],
) -> None:
    if not facts.plan.has_gpu or facts.plan.none_here:
        return
    canary = canary_of(facts)
    busy = busy_processes(facts, canary, facts.plan.measured.get(stage.name, ()))
    found["gpu_processes"], found["canary_longest_ms"] = busy.value, _rounded(busy.longest_ms)
    if busy.value is None:
        why["gpu_processes"] = busy.how
    else:
        found["gpu_processes_how"] = busy.how
    for suffix, (start, end) in spans.items():
        found[f"canary_p50_ms{suffix}"] = _rounded(wait_ms(canary, start, end))
        for metric in ("sm_percent", "dram_percent"):
            found[f"{metric}{suffix}"] = _mean(gpu_series(facts, metric).mean(start, end))
    samples, (start, end) = gpu_series(facts, "sm_percent"), spans[""]
    if len(samples):
        window = float(np.median(samples.end_ns - samples.start_ns))
        found["gpu_window_ms"] = _rounded(window / NS_PER_MS)
        # A shorter making time is not told from what happened around it.
        found["gpu_window_fits_share"] = _mean((end - start >= window).astype(np.float64))
    clock = clock_of(facts)
    found["sm_clock_mhz"] = _mean(clock.mean(start, end))
    found["sm_clock_mhz_baseline"] = _rounded(clock_of_baseline(facts, clock))


def _engine(facts: Facts, span: tuple[Ints, Ints], found: dict[str, Any]) -> None:
    """Steps and queues of each LLM server, from the samples whose time meets the late ones' making."""
    rows = columns.table(facts.recording, "engine")
    metrics, tenants = columns.texts(rows, "metric"), columns.texts(rows, "tenant")
    at, values = columns.ints(rows, "t"), columns.floats(rows, "value")
    for tenant in sorted(set(tenants)):
        for metric, how in _ENGINE.items():
            mine = (tenants == tenant) & (metrics == metric) & (at != NULL)
            series = Series.ticked(at[mine], values[mine], _REACH_NS)
            seen = series.largest(*span) if how != "mean" else series.mean(*span)
            seen = seen[~np.isnan(seen)]
            if len(seen):
                value = seen.max() if how == "max" else seen.mean() if how == "mean" else seen.sum()
                found[f"{tenant}.{metric}"] = _rounded(value)


def _some(chosen: Bools) -> Ints:
    rows = np.flatnonzero(chosen).astype(np.int64)
    return rows if len(rows) <= _MOST else rows[np.linspace(0, len(rows) - 1, _MOST).astype(np.int64)]


def _usual(units: Units, rows: Ints) -> tuple[Ints, Ints]:
    return units.start_ns[rows], units.end_ns[rows]


def _mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return _rounded(float(known.mean())) if len(known) else None


def _rounded(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(f"{float(value):.4g}") + 0.0
