"""A fake libnvidia-ml: its functions, which take ctypes arguments as the C library does, over fake GPUs."""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import pynvml

from cotenant.testing.fake_gpu import FakeGpu

OK, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = 0, 3, 6, 7
_FIRST_HANDLE: Final = 0x1000
_SLICE_STEP: Final = 0x100


class FakeLibrary:
    """Attributes are C functions, as of ctypes.CDLL; `missing` are those that this driver does not have."""

    def __init__(
        self, *gpus: FakeGpu, missing: tuple[str, ...] = (), init_code: int = 0, delay_s: float = 0
    ) -> None:
        self.gpus, self.missing, self.init_code, self.delay_s = gpus, missing, init_code, delay_s
        self.calls: list[str] = []
        self.callers: dict[str, set[str]] = {}  # thread -> what it called
        self.in_flight = 0
        self.shutdown_while_in_flight: bool | None = None
        self.sampled_ns: dict[int, int] = {}  # buffer -> when it was last filled
        self._buffers = 0

    def __getattr__(self, name: str) -> Callable[..., int]:
        implementation = getattr(type(self), f"_{name}", None)
        if name in self.missing or implementation is None or not name.startswith("nvml"):
            raise AttributeError(name)

        def function(*arguments: Any) -> int:
            self.calls.append(name)
            self.callers.setdefault(threading.current_thread().name, set()).add(name)
            self.in_flight += 1
            try:
                if self.delay_s and name.startswith(("nvmlDevice", "nvmlGpm")):
                    time.sleep(self.delay_s)
                return self._code_for(name, arguments) or implementation(self, *arguments)
            finally:
                self.in_flight -= 1

        return function

    def _code_for(self, name: str, arguments: tuple[Any, ...]) -> int:
        of_device = bool(arguments) and _number(arguments[0]) >= _FIRST_HANDLE
        if not of_device and name != "nvmlGpmMetricsGet":
            return OK
        gpu = self._gpu(arguments[0]) if of_device else self.gpus[0]
        if name in gpu.fails_after:
            before, code = gpu.fails_after[name]
            if self.calls.count(name) > before:
                return code
        return gpu.codes.get(name, OK)

    def _gpu(self, handle: Any) -> FakeGpu:
        return self.gpus[(_number(handle) - _FIRST_HANDLE) // 0x1000]

    def _slice(self, handle: Any) -> int | None:
        low = (_number(handle) - _FIRST_HANDLE) % 0x1000
        return low // _SLICE_STEP - 1 if low else None

    # What follows is named after the C functions, one each.

    def _nvmlInitWithFlags(self, _: int) -> int:
        return self.init_code

    def _nvmlShutdown(self) -> int:
        self.shutdown_while_in_flight = self.in_flight > 1
        return OK

    def _nvmlErrorString(self, code: int) -> bytes:
        return b"code %d" % code

    def _nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return OK

    def _nvmlSystemGetDriverVersion(self, text: Any, _: Any) -> int:
        text.value = b"580.159.04"
        return OK

    def _nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        if index.value >= len(self.gpus):
            return 2
        return _set_handle(handle, _FIRST_HANDLE + index.value * 0x1000)

    def _nvmlDeviceGetHandleByUUID(self, uuid: Any, handle: Any) -> int:
        for position, gpu in enumerate(self.gpus):
            names = [gpu.uuid, *gpu.mig_slices]
            if uuid.value.decode() in names:
                offset = names.index(uuid.value.decode()) * _SLICE_STEP
                return _set_handle(handle, _FIRST_HANDLE + position * 0x1000 + offset)
        return NOT_FOUND

    def _nvmlDeviceGetUUID(self, handle: Any, text: Any, _: Any) -> int:
        gpu, number = self._gpu(handle), self._slice(handle)
        text.value = (gpu.uuid if number is None else gpu.mig_slices[number]).encode()
        return OK

    def _nvmlDeviceGetName(self, handle: Any, text: Any, _: Any) -> int:
        text.value = self._gpu(handle).name
        return OK

    def _nvmlDeviceGetIndex(self, handle: Any, index: Any) -> int:
        index._obj.value = (_number(handle) - _FIRST_HANDLE) // 0x1000
        return OK

    def _nvmlDeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> int:
        current._obj.value = pending._obj.value = int(bool(self._gpu(handle).mig_slices))
        return OK

    def _nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, count: Any) -> int:
        count._obj.value = 7
        return OK

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, found: Any) -> int:
        if index.value >= len(self._gpu(handle).mig_slices):
            return NOT_FOUND
        return _set_handle(found, _number(handle) + (index.value + 1) * _SLICE_STEP)

    def _nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Any, found: Any) -> int:
        return _set_handle(found, _number(handle) // 0x1000 * 0x1000)

    def _nvmlDeviceGetGpuInstanceId(self, handle: Any, number: Any) -> int:
        position = self._slice(handle)
        if position is None:
            return NOT_SUPPORTED
        number._obj.value = position + 1
        return OK

    def _nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        gpu, whole = self._gpu(handle), self._slice(handle) is None
        memory._obj.total = gpu.memory_total_bytes if whole else gpu.slice_total_bytes
        memory._obj.used = gpu.memory_used_bytes if whole else gpu.slice_used_bytes
        return OK

    _nvmlDeviceGetMemoryInfo_v2 = _nvmlDeviceGetMemoryInfo

    def _nvmlDeviceGetClockInfo(self, handle: Any, kind: Any, mhz: Any) -> int:
        mhz._obj.value = self._gpu(handle).clocks_mhz[kind.value]
        return OK

    def _nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any, reasons: Any) -> int:
        reasons._obj.value = self._gpu(handle).event_reasons
        return OK

    _nvmlDeviceGetCurrentClocksThrottleReasons = _nvmlDeviceGetCurrentClocksEventReasons

    def _nvmlDeviceGetFieldValues(self, handle: Any, count: Any, values: Any) -> int:
        gpu = self._gpu(handle)
        for position in range(count.value):
            value = values._obj[position]
            value.nvmlReturn = gpu.codes.get(f"field:{value.fieldId}", OK)
            value.timestamp = 0 if gpu.power_stamp_frozen else time.time_ns() // 1000
            if value.fieldId == 186:
                value.valueType, value.value.uiVal = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, gpu.power_mw
            else:
                counter_ns = int(time.monotonic_ns() * gpu.throttled_share) if value.fieldId == 74 else 0
                value.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
                value.value.ullVal = counter_ns
        return OK

    def _nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, energy: Any) -> int:
        energy._obj.value = time.monotonic_ns() * self._gpu(handle).energy_mj_per_s // 1_000_000_000
        return OK

    def _nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> int:
        if self._gpu(handle).mig_slices:
            return NOT_SUPPORTED
        rates._obj.gpu = self._gpu(handle).utilization_percent
        return OK

    def _nvmlDeviceGetPcieThroughput(self, handle: Any, counter: Any, kb: Any) -> int:
        kb._obj.value = 1000 + counter.value
        return OK

    def _nvmlDeviceGetSamples(self, *_: Any) -> int:
        return NOT_FOUND

    def _nvmlDeviceGetProcessUtilization(self, *_: Any) -> int:
        return OK  # success with no entry, of which the binding makes an error of code 0

    def _nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, array: Any) -> int:
        gpu = self._gpu(handle)
        return _fill(gpu.processes if self._slice(handle) is None else gpu.slice_processes, count, array)

    _nvmlDeviceGetComputeRunningProcesses_v2 = _nvmlDeviceGetComputeRunningProcesses_v3

    def _nvmlDeviceGetMPSComputeRunningProcesses_v3(self, handle: Any, count: Any, array: Any) -> int:
        return _fill(self._gpu(handle).mps_processes, count, array)

    _nvmlDeviceGetMPSComputeRunningProcesses_v2 = _nvmlDeviceGetMPSComputeRunningProcesses_v3

    def _nvmlGpmQueryDeviceSupport(self, handle: Any, support: Any) -> int:
        support._obj.isSupportedDevice = int(self._gpu(handle).gpm)
        return OK

    def _nvmlGpmSampleAlloc(self, sample: Any) -> int:
        self._buffers += 1
        return _set_handle(sample, self._buffers)

    def _nvmlGpmSampleFree(self, _: Any) -> int:
        return OK

    def _nvmlGpmSampleGet(self, _: Any, sample: Any) -> int:
        self.sampled_ns[_number(sample)] = time.monotonic_ns()
        return OK

    def _nvmlGpmMigSampleGet(self, handle: Any, instance: int, sample: Any) -> int:
        if not 1 <= instance <= len(self._gpu(handle).mig_slices):
            return 2
        return self._nvmlGpmSampleGet(handle, sample)

    def _nvmlGpmMetricsGet(self, request: Any) -> int:
        asked, gpu = request._obj, self.gpus[0]
        for position in range(asked.numMetrics):
            metric = asked.metrics[position]
            metric.nvmlReturn = gpu.codes.get(f"gpm:{metric.metricId}", OK)
            metric.value = gpu.gpm_values.get(metric.metricId, 0.0)
        return OK


def _number(handle: Any) -> int:
    if isinstance(handle, ctypes._Pointer):
        return ctypes.cast(handle, ctypes.c_void_p).value or 0
    return 0


def _set_handle(reference: Any, number: int) -> int:
    holder = reference._obj
    ctypes.memmove(
        ctypes.byref(holder), ctypes.byref(ctypes.c_void_p(number)), ctypes.sizeof(ctypes.c_void_p)
    )
    return OK


def _fill(processes: list[tuple[int, int]], count: Any, array: Any) -> int:
    if array is None:
        count._obj.value = len(processes)
        return INSUFFICIENT_SIZE if processes else OK
    for position, (pid, used_bytes) in enumerate(processes):
        array[position].pid, array[position].usedGpuMemory = pid, used_bytes
    count._obj.value = len(processes)
    return OK
