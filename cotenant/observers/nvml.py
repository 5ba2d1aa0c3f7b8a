"""NVML through one choke point: every call gives (value, status) and none raises.

The status says what a missing value means: `unsupported` (this GPU, driver or binding has no such reading),
`no_permission`, `stale` (nothing new since the last reading, or a value that cannot be a current one) and
`lost` (the driver failed). A missing value is None, never 0. `pynvml` is loaded by `nvml_open`.
"""

import ctypes
import math
import threading
import time
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple

Status = Literal["ok", "unsupported", "no_permission", "stale", "lost"]


class Reading(NamedTuple):
    """`value` is None exactly where `status` is not "ok"."""

    value: Any
    status: Status


NONE: Final = Reading(None, "unsupported")


class Field(NamedTuple):
    """A field's value and the driver's own stamp of it (us of the wall clock, 0 where it gives none)."""

    value: float | None
    status: Status
    stamp_us: int


# nvmlReturn_t of nvml.h; a code that is not here is a failure of the driver: lost.
_STATUS_OF_CODE: Final[dict[int, Status]] = {
    0: "stale",  # the binding raises a success with nothing in it (process utilization of an idle GPU)
    2: "unsupported",  # invalid argument: the driver does not know what was asked
    3: "unsupported",
    4: "no_permission",
    6: "stale",  # not found: no sample since the last call
    10: "stale",  # timeout
    13: "unsupported",  # function not found
    19: "stale",  # in use
    21: "stale",  # no data
    25: "unsupported",  # argument version mismatch
    26: "unsupported",  # deprecated
    27: "stale",  # not ready
}
# A value type of nvml.h -> the union's member that holds it.
_UNION_MEMBERS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class Nvml:
    """An initialised NVML. Calls may come from several threads; after `close` they give "lost"."""

    def __init__(self, binding: ModuleType) -> None:
        self._binding = binding
        self._slowest_ns: dict[str, int] = {}
        self._calls = 0
        self._closed = False
        self._gate = threading.Condition()

    def call(self, name: str, *arguments: Any) -> Reading:
        """`pynvml.<name>(*arguments)`, whatever it raises; the time it took is kept for `take_latencies`."""
        with self._gate:
            if self._closed:
                return Reading(None, "lost")
            self._calls += 1
        before_ns = time.monotonic_ns()
        try:
            return self._try(name, arguments)
        finally:
            took_ns = time.monotonic_ns() - before_ns
            with self._gate:
                self._slowest_ns[name] = max(took_ns, self._slowest_ns.get(name, 0))
                self._calls -= 1
                self._gate.notify_all()

    def _try(self, name: str, arguments: tuple[Any, ...]) -> Reading:
        function = getattr(self._binding, name, None)
        if function is None:  # an older binding
            return Reading(None, "unsupported")
        try:
            value = function(*arguments)
        except Exception as error:  # noqa: BLE001  the binding's mismatch error is no NVMLError
            return Reading(None, _status_of(error, self._binding))
        return Reading(value, "ok")

    def text(self, name: str, *arguments: Any) -> str | None:
        """A call that gives a text: bytes from old bindings, str from new ones; None where it failed."""
        value, _ = self.call(name, *arguments)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def memory(self, handle: Any) -> Reading:
        """A memory structure with `total` and `used` in bytes: what the driver reserves is in `used`."""
        version = getattr(self._binding, "nvmlMemory_v2", None)
        if version is not None:
            reading = self.call("nvmlDeviceGetMemoryInfo", handle, version)
            if reading.status != "unsupported":
                return reading
        return self.call("nvmlDeviceGetMemoryInfo", handle)  # drivers before 515

    def fields(self, handle: Any, ids: Sequence[int]) -> dict[int, Field]:
        """Each field with a status of its own: the call succeeds when any of them could be read."""
        values, status = self.call("nvmlDeviceGetFieldValues", handle, list(ids))
        if values is None:
            return {number: Field(None, status, 0) for number in ids}
        return {number: _field(value) for number, value in zip(ids, values, strict=True)}

    def gpm_request(self, ids: Sequence[int]) -> Any:
        """A structure to be used again and again with `gpm_metrics`; None where the binding has no GPM."""
        if not hasattr(self._binding, "c_nvmlGpmMetricsGet_t"):
            return None
        request = self._binding.c_nvmlGpmMetricsGet_t()
        request.version = self._binding.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(ids)
        for position, number in enumerate(ids):
            request.metrics[position].metricId = number
        return request

    def gpm_metrics(self, request: Any, older: Any, newer: Any) -> dict[int, Reading]:
        """Metric id -> what it was between two samples. Not-a-number and impossible shares are stale."""
        request.sample1, request.sample2 = older, newer
        for position in range(request.numMetrics):
            request.metrics[position].nvmlReturn = 3  # what the driver leaves alone it did not measure
        _, status = self.call("nvmlGpmMetricsGet", request)
        if status != "ok":
            return {request.metrics[i].metricId: Reading(None, status) for i in range(request.numMetrics)}
        return {
            request.metrics[i].metricId: _gpm_reading(request.metrics[i]) for i in range(request.numMetrics)
        }

    def take_latencies(self) -> dict[str, int]:
        """The slowest call of each name since the last time this was asked, in ns."""
        with self._gate:
            taken, self._slowest_ns = self._slowest_ns, {}
        return taken

    def close(self, within_s: float = 2.0) -> bool:
        """Shut NVML down once no call is in flight; False (and left as it is) if one hangs."""
        with self._gate:
            self._closed = True
            if not self._gate.wait_for(lambda: self._calls == 0, timeout=within_s):
                return False
        return self._try("nvmlShutdown", ()).status == "ok"


def _status_of(error: Exception, binding: ModuleType) -> Status:
    if isinstance(error, binding.NVMLError):
        return _STATUS_OF_CODE.get(getattr(error, "value", -1), "lost")
    # A mismatch of versions, a text that is none, a signature of another binding: never a dead GPU.
    return "unsupported"


def _field(value: Any) -> Field:
    stamp_us = int(value.timestamp)
    if value.nvmlReturn != 0:
        return Field(None, _STATUS_OF_CODE.get(value.nvmlReturn, "lost"), stamp_us)
    if value.valueType >= len(_UNION_MEMBERS):
        return Field(None, "unsupported", stamp_us)
    return Field(float(getattr(value.value, _UNION_MEMBERS[value.valueType])), "ok", stamp_us)


def _gpm_reading(metric: Any) -> Reading:
    if metric.nvmlReturn != 0:
        return Reading(None, _STATUS_OF_CODE.get(metric.nvmlReturn, "lost"))
    # Windows under 100 ms make DRAM's share not-a-number; ids below 20 are shares of 100.
    if not math.isfinite(metric.value) or metric.value < 0 or (metric.metricId < 20 and metric.value > 101):
        return Reading(None, "stale")
    return Reading(float(metric.value), "ok")


def valid_processes(processes: Iterable[Any], total_bytes: int | None) -> list[tuple[int, int | None]]:
    """(pid, bytes or None) of a process list, without what a wrong structure layout makes of it.

    Drivers 535.43 to 535.98 with another release's binding give pids 0 and 2^32-1 and absurd sizes.
    """
    kept = []
    for process in processes:
        used_bytes = process.usedGpuMemory
        if used_bytes is not None and used_bytes == ctypes.c_ulonglong(-1).value:
            used_bytes = None
        absurd = used_bytes is not None and total_bytes is not None and used_bytes > total_bytes
        if process.pid not in (0, 2**32 - 1) and not absurd:
            kept.append((int(process.pid), used_bytes))
    return kept
