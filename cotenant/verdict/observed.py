"""What the machine showed meanwhile: the `gpu` and `canary_ms` parts of a stage's entry."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.records import Recording
from cotenant.units import NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Bools, Ints
from cotenant.verdict.plan import Plan, Window, length_ns, within
from cotenant.verdict.sample import Part, Quantiles, milliseconds, put, put_quantiles

NO_GPU: Final = "no NVIDIA GPU"
NO_SAMPLE: Final = "no sample in the measure window"
GPU: Final = "gpu"
CANARY: Final = "gpu-canary"
# Observer -> its field in the scenario's `observe`.
_SWITCH: Final = {GPU: "gpu", CANARY: "canary"}
# Always there, so that a reader of the summary need not look for it.
_ALWAYS: Final = "sm_percent"
# The devices of a canary that is not on a GPU.
ON_HOST: Final = ("cpu", "host")


def gpu_part(recording: Recording, windows: tuple[Window, ...], plan: Plan) -> Part:
    """Per metric: the mean over the window weighted by time, and `coverage`, the share of it that has a
    value."""
    part = Part()
    rows = columns.table(recording, "gpu")
    start, end = columns.ints(rows, "t0"), columns.ints(rows, "t1")
    near = np.zeros(len(start), dtype=np.bool_)
    for window in windows:
        near |= (start < window.end_ns) & (end > window.start_ns) & (start != NULL)
    rows = rows.filter(pa.array(near))
    metric, status, gpus = (columns.texts(rows, name) for name in ("metric", "status", "gpu"))
    value, overlap = columns.floats(rows, "value"), overlap_ns(start[near], end[near], windows)
    wanted = length_ns(windows) * max(1, len(set(gpus)))
    for name in sorted({_ALWAYS, *metric}):
        mine = metric == name
        good = mine & (status == "ok") & ~np.isnan(value)
        seen = int(overlap[good].sum())
        mean = float((value[good] * overlap[good]).sum()) / seen if seen else None
        reason = "" if seen else _why_no_value(recording, plan, windows, name, status[mine])
        put(part, f"{name}.mean", mean, reason, 3)
        put(part, f"{name}.coverage", min(1.0, seen / wanted) if wanted else 0.0, "", 3)
    return part


def canary_part(recording: Recording, windows: tuple[Window, ...], plan: Plan, *, host: bool) -> Part:
    """Latency of the little probe that runs beside the tenants on the GPU; on the host, by how much the
    longest sleep of each second was too long."""
    latency = _sleep_lags(recording, windows) if host else _canary(recording, windows, host=False)
    if host and not len(latency):
        latency = _canary(recording, windows, host=True)
    reason = "the host observer is switched off in the scenario (observe.host)"
    if not host:
        reason = why_not_watched(recording, plan, CANARY) or NO_SAMPLE
    elif plan.scenario.observe.host:
        reason = NO_SAMPLE
    values = milliseconds(latency)
    sample = Quantiles(values=values, blocks=np.zeros(len(values), dtype=np.int64))
    holder = Part()
    put_quantiles(holder, "x", sample, ("p50", "p99"), reason)
    return Part(
        entry=holder.entry["x"], why={path.removeprefix("x."): why for path, why in holder.why.items()}
    )


def why_not_watched(recording: Recording, plan: Plan, observer: str) -> str:
    """Why an observer of the GPU can have told nothing in this run; "" where it may have."""
    told = told_by(recording, observer)
    if told.get("ready") is False:
        return "; ".join(str(told[key]) for key in ("message", "advice") if told.get(key)) or "it gave up"
    if not plan.has_gpu:
        return NO_GPU
    switch = _SWITCH[observer]
    if not getattr(plan.scenario.observe, switch):
        return f"switched off in the scenario (observe.{switch})"
    return ""


def told_by(recording: Recording, observer: str) -> dict[str, Any]:
    """What an observer said of itself, as the manifest has it; {} where nothing is known."""
    observers = recording.manifest.get("observers")
    told = observers.get(observer) if isinstance(observers, dict) else None
    return told if isinstance(told, dict) else {}


def seconds_of_run(recording: Recording, t_ns: int) -> float | None:
    """How far into the run an instant is; None where its beginning is not known."""
    anchor = recording.manifest.get("anchor")
    start_ns = anchor.get("mono_ns") if isinstance(anchor, dict) else None
    return (t_ns - start_ns) / NS_PER_S if isinstance(start_ns, int) else None


def _canary(recording: Recording, windows: tuple[Window, ...], *, host: bool) -> Ints:
    rows = columns.table(recording, "canary")
    on_host: Bools = np.isin(columns.texts(rows, "device"), ON_HOST)
    latency = columns.ints(rows, "latency")
    kept = within(columns.ints(rows, "t"), windows) & (latency != NULL) & (on_host == host)
    return np.asarray(latency[kept], dtype=np.int64)


def _sleep_lags(recording: Recording, windows: tuple[Window, ...]) -> Ints:
    rows = columns.table(recording, "host")
    mine = columns.texts(rows, "metric") == "sleep_lag_ns"
    value = columns.floats(rows, "value")
    kept = mine & ~np.isnan(value) & within(columns.ints(rows, "t"), windows)
    return np.asarray(value[kept], dtype=np.int64)


def overlap_ns(start: Ints, end: Ints, windows: tuple[Window, ...]) -> Ints:
    """How many ns of the windows each span [start, end) covers."""
    total = np.zeros(len(start), dtype=np.int64)
    for window in windows:
        total += np.maximum(0, np.minimum(end, window.end_ns) - np.maximum(start, window.start_ns))
    return total


def _why_no_value(
    recording: Recording, plan: Plan, windows: tuple[Window, ...], metric: str, status: Any
) -> str:
    if reason := why_not_watched(recording, plan, GPU):
        return reason
    words, counts = np.unique([word for word in status if word], return_counts=True)
    if not len(words):
        return NO_SAMPLE
    word = str(words[int(np.argmax(counts))])
    if word == "lost":
        return _why_lost(recording, windows, metric)
    return {
        "unsupported": "this GPU or driver does not report it",
        "no_permission": "the driver reports it to administrators only",
        "stale": "the driver repeated an old sample",
        "implausible": "the driver reported 0 while the GPU was at work",
    }.get(word, "no value")


def _why_lost(recording: Recording, windows: tuple[Window, ...], metric: str) -> str:
    """Of a metric that failed in all of the windows: since when."""
    rows = columns.table(recording, "gpu")
    good = (columns.texts(rows, "metric") == metric) & (columns.texts(rows, "status") == "ok")
    ends = columns.ints(rows, "t1")[good]
    former = ends[ends <= min((window.start_ns for window in windows), default=0)]
    if not len(former):
        return "the driver failed to answer for it"
    since_s = seconds_of_run(recording, int(former.max()))
    when = "before this stage" if since_s is None else f"{since_s:.1f} s into the run"
    return f"the driver stopped answering for it {when}"
