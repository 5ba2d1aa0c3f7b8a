"""The counters of a trace: each GPU and its canary, the engines, the host's and our own processes' lag."""

from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from cotenant.records import Recording
from cotenant.report.trace_events import TraceEvents
from cotenant.units import NS_PER_MS
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Floats, Ints, Texts
from cotenant.verdict.implausible import mark_implausible

# A canary ticks some 200 times a second: with more points than this, the slowest of each tenth of a second.
CANARY_POINTS: Final = 50_000
# What an engine has now; its other figures are counts since the reading before.
_GAUGES: Final = frozenset({"running", "waiting", "kv_cache_usage"})
_BIN_NS: Final = 100 * NS_PER_MS
_UNITS: Final = {"_percent": "percent", "_mhz": "MHz", "_mib_per_s": "MiB/s", "_w": "W", "_bytes": "bytes",
                 "_share": "share"}  # fmt: skip


class Tenants(Protocol):
    """Who knows the process of each tenant."""

    def pid(self, name: str) -> int:
        """The pid of the tenant of that name."""


def add_counters(events: TraceEvents, recording: Recording, run_pid: int, tenants: Tenants) -> None:
    """All counters. Where a GPU metric has no value, a slice says for how long and why."""
    _add_gpu(events, columns.table(mark_implausible(recording), "gpu"))
    _add_canary(events, columns.table(recording, "canary"))
    engine = columns.table(recording, "engine")
    times, names = columns.ints(engine, "t"), columns.texts(engine, "tenant")
    metrics, values = columns.texts(engine, "metric"), columns.floats(engine, "value")
    for tenant, metric, rows in _series(names, metrics):
        unit = "tokens" if metric.endswith("tokens") else "value"
        at = times[rows]
        if metric not in _GAUGES and len(at) > 1:
            # A count since the reading before: shown over that time.
            at = np.concatenate(([2 * at[0] - at[1]], at[:-1]))
        events.counter(tenants.pid(tenant), f"engine {metric}", unit, at.tolist(), values[rows].tolist())
    _add_host(events, run_pid, columns.table(recording, "host"))


def _add_gpu(events: TraceEvents, gpu: pa.Table) -> None:
    start, end = columns.ints(gpu, "t0"), columns.ints(gpu, "t1")
    names, metrics = columns.texts(gpu, "gpu"), columns.texts(gpu, "metric")
    values, status = columns.floats(gpu, "value"), columns.texts(gpu, "status")
    pids: dict[str, int] = {}
    for name, metric, rows in _series(names, metrics):
        if name not in pids:
            pids[name] = events.process(f"GPU {name}")
        pid = pids[name]
        label, unit = _unit(metric)
        # A value speaks of [t0, t1); a counter holds until the next point.
        events.counter(pid, label, unit, start[rows].tolist(), values[rows].tolist())
        _add_missing(events, pid, metric, start[rows], end[rows], values[rows], status[rows])


def _add_missing(
    events: TraceEvents, pid: int, metric: str, start: Ints, end: Ints, values: Floats, status: Texts
) -> None:
    lacking = np.flatnonzero(np.isnan(values))
    if not len(lacking):
        return
    tid = events.thread(pid, f"missing: {metric}")
    new = np.flatnonzero((np.diff(lacking) > 1) | (status[lacking[1:]] != status[lacking[:-1]])) + 1
    for rows in np.split(lacking, new):
        why = str(status[rows[0]]) or "no value"
        events.slice(
            pid,
            tid,
            why,
            "missing",
            int(start[rows[0]]),
            int(end[rows[-1]]),
            {"metric": metric, "rows": len(rows)},
        )


def _add_canary(events: TraceEvents, canary: pa.Table) -> None:
    times, latency = columns.ints(canary, "t"), columns.ints(canary, "latency")
    devices = columns.texts(canary, "device")
    for device, _, rows in _series(devices, np.full(len(devices), "", dtype=np.object_)):
        known = rows[latency[rows] != NULL]
        if not len(known):
            continue
        kept = known if len(known) <= CANARY_POINTS else _slowest(known, times, latency)
        pid = events.process(f"canary {device}")
        values = (latency[kept] / NS_PER_MS).round(3)
        events.counter(pid, "canary latency", "ms", times[kept].tolist(), values.tolist())


def _slowest(rows: Ints, times: Ints, latency: Ints) -> Ints:
    """Of each bin the row with the longest latency, in the order of time."""
    order = rows[np.lexsort((-latency[rows], times[rows] // _BIN_NS))]
    first = np.concatenate(([True], np.diff(times[order] // _BIN_NS) > 0))
    kept: Ints = order[first]
    return kept


def _add_host(events: TraceEvents, pid: int, host: pa.Table) -> None:
    times, values = columns.ints(host, "t"), columns.floats(host, "value")
    sources, metrics = columns.texts(host, "source"), columns.texts(host, "metric")
    for source, metric, rows in _series(sources, metrics):
        t, value = times[rows], values[rows]
        if metric.endswith("lag_ns"):
            label = f"{source} {metric.removesuffix('_ns').replace('_', ' ')}"
            events.counter(pid, label, "ms", t.tolist(), _rounded(value / NS_PER_MS).tolist())
        elif metric == "cpu_s" and len(t) > 1:
            # Seconds of CPU so far -> cores in use since the row before, shown over that time.
            took = np.diff(t) / 1e9
            with np.errstate(over="ignore", invalid="ignore"):
                used = np.divide(np.diff(value), took, out=np.full(len(took), np.nan), where=took > 0)
            events.counter(pid, f"{source} CPU", "cores", t[:-1].tolist(), _rounded(used).tolist())


def _rounded(values: Floats) -> Floats:
    """To three digits; what no clock ever read overflows, and is then no value."""
    with np.errstate(over="ignore"):
        return np.asarray(values.round(3))


def _series(names: Texts, metrics: Texts) -> list[tuple[str, str, Ints]]:
    """The rows of each (name, metric), in their order, sorted by name and metric."""
    groups: dict[tuple[Any, Any], list[int]] = {}
    for row, key in enumerate(zip(names.tolist(), metrics.tolist(), strict=True)):
        groups.setdefault(key, []).append(row)
    return [(name, metric, np.array(rows, dtype=np.int64)) for (name, metric), rows in sorted(groups.items())]


def _unit(metric: str) -> tuple[str, str]:
    """`sm_clock_mhz` -> "sm clock", "MHz"; `process_memory_bytes/llm` -> "process memory llm", "bytes"."""
    base, slash, rest = metric.partition("/")
    for suffix, unit in _UNITS.items():
        if base.endswith(suffix):
            label = base.removesuffix(suffix).replace("_", " ")
            return (f"{label} {rest}" if slash else label), unit
    return metric.replace("_", " "), "value"
