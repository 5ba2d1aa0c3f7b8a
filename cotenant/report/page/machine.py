"""Lines of what the machine did: canary, GPU metrics, the engines' own gauges, the host."""

from typing import Any, Final

import numpy as np

from cotenant.report.page.base import Base, rows
from cotenant.report.page.series import line
from cotenant.units import NS_PER_MS, NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Bools, Floats, Ints
from cotenant.verdict.observed import ON_HOST

_MIB: Final = 1 << 20
# What a metric's name says -> (group, unit, what one unit is in those of the table).
_GPU_GROUPS: Final = (
    ("sm_percent", "sm", "%", 1.0),
    ("dram_percent", "dram", "%", 1.0),
    ("_clock_mhz", "clock", "MHz", 1.0),
    ("power_w", "power", "W", 1.0),
    ("temperature", "temperature", "°C", 1.0),
    ("memory_used_bytes", "memory", "MiB", _MIB),
    ("_bytes", "gpu", "MiB", _MIB),
    ("_percent", "gpu", "%", 1.0),
    ("_mib_per_s", "gpu", "MiB/s", 1.0),
)
_ENGINE_UNITS: Final = {"kv_cache_usage": "share", "running": "requests", "waiting": "requests"}
_HOST: Final = {
    "loop_lag_ns": ("loop lag", "ms", NS_PER_MS),
    "sleep_lag_ns": ("sleep lag", "ms", NS_PER_MS),
    "tick_lag_ns": ("tick lag", "ms", NS_PER_MS),
    "rss_bytes": ("memory", "MiB", _MIB),
}


def machine_lines(base: Base) -> list[dict[str, Any]]:
    """All of them that have a value."""
    lines = [*_canary(base), *_gpu(base), *_engine(base), *_host(base)]
    return [entry for entry in lines if any(value is not None for value in entry["y"])]


def _canary(base: Base) -> list[dict[str, Any]]:
    table = rows(base.recording, "canary")
    times, latency = columns.ints(table, "t"), columns.ints(table, "latency")
    devices = columns.texts(table, "device")
    found = []
    for device in sorted(set(devices)):
        mine = (devices == device) & (times != NULL)
        host = device in ON_HOST
        value = np.where(latency[mine] == NULL, np.nan, latency[mine] / NS_PER_MS)
        found.append(
            line(
                base,
                group="host" if host else "canary",
                name=f"canary/{device}",
                label=f"canary on {device}",
                unit="ms",
                time_ns=times[mine],
                value=value,
                most=4000,
            )
        )
    return found


def _gpu(base: Base) -> list[dict[str, Any]]:
    table = rows(base.recording, "gpu")
    times, value = columns.ints(table, "t1"), columns.floats(table, "value")
    metrics, gpus = columns.texts(table, "metric"), columns.texts(table, "gpu")
    good = columns.texts(table, "status") == "ok"
    several = len(set(gpus)) > 1
    found = []
    for gpu in sorted(set(gpus)):
        for metric in sorted(set(metrics[gpus == gpu])):
            mine = np.flatnonzero((gpus == gpu) & (metrics == metric) & (times != NULL))
            mine = mine[np.argsort(times[mine], kind="stable")]
            group, unit, one = _of_gpu(metric)
            found.append(
                line(
                    base,
                    group=group,
                    name=f"gpu/{gpu}/{metric}",
                    label=f"{metric} of {gpu}" if several else metric,
                    unit=unit,
                    time_ns=times[mine],
                    value=np.where(good[mine], value[mine], np.nan) / one,
                    digits=2,
                )
            )
    return found


def _of_gpu(metric: str) -> tuple[str, str, float]:
    for ending, group, unit, one in _GPU_GROUPS:
        if metric == ending or (ending.startswith("_") and ending in metric) or metric.endswith(ending):
            return group, unit, one
    return "gpu", "", 1.0


def _engine(base: Base) -> list[dict[str, Any]]:
    table = rows(base.recording, "engine")
    times, value = columns.ints(table, "t"), columns.floats(table, "value")
    metrics, tenants = columns.texts(table, "metric"), columns.texts(table, "tenant")
    found = []
    for tenant, metric in sorted(set(zip(tenants.tolist(), metrics.tolist(), strict=True))):
        mine = (tenants == tenant) & (metrics == metric) & (times != NULL)
        found.append(
            line(
                base,
                group="engine",
                name=f"engine/{tenant}/{metric}",
                label=f"{tenant}: {metric}",
                unit=_ENGINE_UNITS.get(metric, ""),
                time_ns=times[mine],
                value=value[mine],
            )
        )
    return found


def _host(base: Base) -> list[dict[str, Any]]:
    table = rows(base.recording, "host")
    times, value = columns.ints(table, "t"), columns.floats(table, "value")
    metrics, sources = columns.texts(table, "metric"), columns.texts(table, "source")
    found = []
    for source, metric in sorted(set(zip(sources.tolist(), metrics.tolist(), strict=True))):
        mine = (sources == source) & (metrics == metric) & (times != NULL)
        if metric == "cpu_s":
            what, unit, shown = "CPU", "%", _cpu_percent(times[mine], value[mine])
        elif metric in _HOST:
            what, unit, one = _HOST[metric]
            shown = value[mine] / one
        else:
            continue
        found.append(
            line(
                base,
                group="host",
                name=f"host/{source}/{metric}",
                label=f"{source}: {what}",
                unit=unit,
                time_ns=times[mine],
                value=shown,
                digits=2,
            )
        )
    return found


def _cpu_percent(times_ns: Ints, cpu_s: Floats) -> Floats:
    """Of one core, since the sample before; unknown where the counter fell (a new process)."""
    if len(times_ns) < 2:
        return np.full(len(times_ns), np.nan)
    lasted = np.diff(times_ns) / NS_PER_S
    spent = np.diff(cpu_s)
    known: Bools = (lasted > 0) & (spent >= 0)
    share = np.full(len(spent), np.nan)
    share[known] = 100 * spent[known] / lasted[known]
    return np.concatenate(([np.nan], share))
