"""What the machine showed meanwhile: the `gpu` and `canary_ms` parts of a stage's entry."""

from typing import Any, Final

import numpy as np

from cotenant.records import Recording
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Bools, Ints
from cotenant.verdict.plan import Window, length_ns, within
from cotenant.verdict.sample import Part, Quantiles, milliseconds, put, put_quantiles

NO_GPU: Final = "no NVIDIA GPU"
# Always there, so that a reader of the summary need not look for it.
_ALWAYS: Final = "sm_percent"


def gpu_part(recording: Recording, windows: tuple[Window, ...], has_gpu: bool) -> Part:
    """Per metric: the mean over the window weighted by time, and `coverage`, the share of it that has a
    value."""
    part = Part()
    rows = columns.table(recording, "gpu")
    start, end = columns.ints(rows, "t0"), columns.ints(rows, "t1")
    near = np.zeros(len(start), dtype=np.bool_)
    for window in windows:
        near |= (start < window.end_ns) & (end > window.start_ns) & (start != NULL)
    metric, status = columns.texts(rows, "metric")[near], columns.texts(rows, "status")[near]
    value, gpus = columns.floats(rows, "value")[near], columns.texts(rows, "gpu")[near]
    overlap = _overlap(start[near], end[near], windows)
    wanted = length_ns(windows) * max(1, len(set(gpus)))
    for name in sorted({_ALWAYS, *metric}):
        mine = metric == name
        good = mine & (status == "ok") & ~np.isnan(value)
        seen = int(overlap[good].sum())
        mean = float((value[good] * overlap[good]).sum()) / seen if seen else None
        put(part, f"{name}.mean", mean, _why_none(status[mine], has_gpu), 3)
        put(part, f"{name}.coverage", min(1.0, seen / wanted) if wanted else 0.0, "", 3)
    return part


def canary_part(recording: Recording, windows: tuple[Window, ...], has_gpu: bool, *, host: bool) -> Part:
    """Latency of the little probe that runs beside the tenants, on the GPU or on the host."""
    rows = columns.table(recording, "canary")
    device = columns.texts(rows, "device")
    on_host: Bools = np.isin(device, ("cpu", "host"))
    latency = columns.ints(rows, "latency")
    kept = within(columns.ints(rows, "t"), windows) & (latency != NULL) & (on_host == host)
    reason = "no sample in the measure window" if has_gpu or host else NO_GPU
    values = milliseconds(latency[kept])
    sample = Quantiles(values=values, blocks=np.zeros(len(values), dtype=np.int64))
    holder = Part()
    put_quantiles(holder, "x", sample, ("p50", "p99"), reason)
    return Part(
        entry=holder.entry["x"], why={path.removeprefix("x."): why for path, why in holder.why.items()}
    )


def _overlap(start: Ints, end: Ints, windows: tuple[Window, ...]) -> Ints:
    total = np.zeros(len(start), dtype=np.int64)
    for window in windows:
        total += np.maximum(0, np.minimum(end, window.end_ns) - np.maximum(start, window.start_ns))
    return total


def _why_none(status: Any, has_gpu: bool) -> str:
    if not has_gpu:
        return NO_GPU
    words, counts = np.unique([word for word in status if word], return_counts=True)
    if not len(words):
        return "no sample in the measure window"
    return {
        "unsupported": "this GPU or driver does not report it",
        "no_permission": "the driver reports it to administrators only",
        "lost": "the GPU was lost",
        "stale": "the driver repeated an old sample",
    }.get(str(words[int(np.argmax(counts))]), "no value")
