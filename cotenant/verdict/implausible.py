"""Readings of exactly 0 while the GPU was at work: marked `implausible`, so that they count as missing.

Some drivers answer with a zero what they do not measure. A zero is not believed where something else shows
that the GPU worked at that time. Each such proof is a span in which it worked at some moment:

- a kernel of the GPU canary, from its launch to its end: of what any kernel moves (a healthy GPU gives shares
  down to 1e-7 % beside nothing but the canary, and exactly 0 only without it);
- a request, sent and answered to its end, of a tenant that holds memory of this GPU by the driver's process
  list, and NVML's own utilization where it is no rounding: of DRAM use too;
- a Jetson's load from sysfs: of NVML's utilization.

A span proves nothing unless readings cover it without a hole and every one of them is 0.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from cotenant.records import Recording
from cotenant.units import NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Bools, Floats, Ints, Texts
from cotenant.verdict.observed import ON_HOST

STATUS: Final = "implausible"
# Metric -> which proofs speak of it.
_PROOFS: Final[Mapping[str, tuple[str, ...]]] = {
    "sm_percent": ("kernel", "work"),
    "sm_occupancy_percent": ("kernel", "work"),
    "dram_percent": ("work",),
    "nvml_utilization_percent": ("load",),
}
_MEMORY: Final = "process_memory_bytes/"
_UTILIZATION: Final = "nvml_utilization_percent"
_TEGRA_LOAD: Final = "tegra_gpu_load_percent"
# NVML rounds to whole per cents, and its period may have begun up to a second before the reading's.
_SURE_PERCENT: Final = 5.0
_PERIOD_NS: Final = NS_PER_S


class _Spans(NamedTuple):
    start_ns: Ints
    end_ns: Ints


class _Gpu(NamedTuple):
    """The table `gpu`."""

    start_ns: Ints
    end_ns: Ints
    gpu: Texts
    metric: Texts
    value: Floats
    good: Bools


def mark_implausible(recording: Recording) -> Recording:
    """The recording with the status of such rows of `gpu` as `implausible` and their value null; what is
    marked already stays so."""
    rows = columns.table(recording, "gpu")
    value, metric = columns.floats(rows, "value"), columns.texts(rows, "metric")
    zero = (value == 0) & np.isin(metric, list(_PROOFS))
    if not zero.any():
        return recording
    status = columns.texts(rows, "status")
    table = _Gpu(
        start_ns=columns.ints(rows, "t0"),
        end_ns=columns.ints(rows, "t1"),
        gpu=columns.texts(rows, "gpu"),
        metric=metric,
        value=value,
        good=status == "ok",
    )
    zero &= table.good
    marked = np.zeros(rows.num_rows, dtype=np.bool_)
    for gpu in sorted(set(table.gpu[zero])):
        proofs = {name: _joined(spans) for name, spans in _proofs(recording, table, gpu).items()}
        for metric in sorted(set(table.metric[zero & (table.gpu == gpu)])):
            mine = np.flatnonzero((table.gpu == gpu) & (table.metric == metric) & (table.start_ns != NULL))
            mine = mine[np.argsort(table.start_ns[mine], kind="stable")]
            for name in _PROOFS[metric]:
                marked[mine] |= _refuted(table.start_ns[mine], table.end_ns[mine], zero[mine], proofs[name])
    if not marked.any():
        return recording
    changed = {
        "value": pa.array(value, mask=marked | np.isnan(value), type=pa.float64()),
        "status": pa.array(np.where(marked, STATUS, status), type=pa.string()),
    }
    for name, column in changed.items():
        rows = rows.set_column(rows.column_names.index(name), name, column)
    return replace(recording, tables={**recording.tables, "gpu": rows})


def _proofs(recording: Recording, table: _Gpu, gpu: str) -> dict[str, list[_Spans]]:
    alone = len(set(table.gpu)) == 1
    return {
        "kernel": [_kernels(recording, gpu, alone=alone)],
        "work": [_answers(recording, table, gpu), _above(table, gpu, _UTILIZATION)],
        "load": [_above(table, gpu, _TEGRA_LOAD)],
    }


def _kernels(recording: Recording, gpu: str, *, alone: bool) -> _Spans:
    """The canary's. Where several GPUs are watched it has to name its own by UUID."""
    rows = columns.table(recording, "canary")
    start, latency = columns.ints(rows, "t"), columns.ints(rows, "latency")
    device = columns.texts(rows, "device")
    mine = ~np.isin(device, ON_HOST) if alone else device == gpu
    kept = mine & (start != NULL) & (latency != NULL)
    return _Spans(start[kept], start[kept] + latency[kept])


def _answers(recording: Recording, table: _Gpu, gpu: str) -> _Spans:
    """Requests of the tenants that were seen on this GPU."""
    held = {
        str(name).removeprefix(_MEMORY)
        for name in set(table.metric[table.good & (table.gpu == gpu)])
        if str(name).startswith(_MEMORY)
    }
    rows = columns.table(recording, "streams")
    sent, done = columns.ints(rows, "sent"), columns.ints(rows, "done")
    kept = np.isin(columns.texts(rows, "tenant"), list(held)) & (columns.texts(rows, "end") == "eos")
    kept &= (sent != NULL) & (done != NULL)
    return _Spans(sent[kept], done[kept])


def _above(table: _Gpu, gpu: str, metric: str) -> _Spans:
    """A coarse percentage where it is sure to be none of rounding."""
    mine = table.good & (table.gpu == gpu) & (table.metric == metric) & (table.value >= _SURE_PERCENT)
    return _Spans(table.start_ns[mine] - _PERIOD_NS, table.end_ns[mine])


def _joined(spans: list[_Spans]) -> _Spans:
    return _Spans(
        np.concatenate([one.start_ns for one in spans]), np.concatenate([one.end_ns for one in spans])
    )


def _refuted(start_ns: Ints, end_ns: Ints, zero: Bools, proofs: _Spans) -> Bools:
    """Which readings, in order of time, are refuted: zeros that make up the whole of a proof's span."""
    low = np.searchsorted(end_ns, proofs.start_ns, side="right")
    high = np.searchsorted(start_ns, proofs.end_ns, side="left")
    some = (high > low) & (proofs.end_ns > proofs.start_ns)
    low, high = low[some], high[some]
    zeros = np.concatenate(([0], np.cumsum(zero)))
    lengths = np.concatenate(([0], np.cumsum(end_ns - start_ns)))
    whole = (start_ns[low] <= proofs.start_ns[some]) & (end_ns[high - 1] >= proofs.end_ns[some])
    whole &= lengths[high] - lengths[low] == end_ns[high - 1] - start_ns[low]
    whole &= zeros[high] - zeros[low] == high - low
    edges = np.zeros(len(zero) + 1, dtype=np.int64)
    np.add.at(edges, low[whole], 1)
    np.add.at(edges, high[whole], -1)
    return np.asarray(np.cumsum(edges[:-1]) > 0, dtype=np.bool_)
