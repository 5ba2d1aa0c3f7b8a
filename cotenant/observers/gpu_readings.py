"""What NVML tells beside GPM, as rows: quick readings at each tick, slow ones on a thread that times nothing.

Every row covers [t0, t1): a reading of a moment stands for the time since the one before it, a counter for
the difference between two.
"""

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from cotenant.observers.gpu_device import GpuDevice, unified_memory_used_bytes
from cotenant.observers.gpu_processes import ProcessReadings
from cotenant.observers.nvml import NONE, Field, Nvml, Reading, Status
from cotenant.observers.tegra import METRIC as TEGRA_LOAD
from cotenant.observers.tegra import read_load

_POWER_FIELD: Final = 186  # NVML_FI_DEV_POWER_INSTANT, mW
# NVML_FI_DEV_CLOCKS_EVENT_REASON_*: ns in which the clock was held down, since the driver started.
_THROTTLE_FIELDS: Final = {
    74: "throttle_power_cap_share",
    76: "throttle_sync_boost_share",
    269: "throttle_sw_thermal_share",
    270: "throttle_hw_thermal_share",
    271: "throttle_hw_power_brake_share",
}
_FIELDS: Final = (_POWER_FIELD, *_THROTTLE_FIELDS)
# Bits of nvmlDeviceGetCurrentClocksEventReasons.
_EVENT_BITS: Final = {
    "clock_event_idle": 0x1,
    "clock_event_power_cap": 0x4,
    "clock_event_hw_slowdown": 0x8,
    "clock_event_sync_boost": 0x10,
    "clock_event_sw_thermal": 0x20,
    "clock_event_hw_thermal": 0x40,
    "clock_event_hw_power_brake": 0x80,
}
_CLOCKS: Final = {"sm_clock_mhz": 1, "memory_clock_mhz": 2}  # NVML_CLOCK_SM, NVML_CLOCK_MEM
# No GPU runs at 0 MHz or above 10 GHz, and none that can be asked draws nothing: some drivers say so.
_CLOCK_LIMIT_MHZ: Final = 10_000


class Row(NamedTuple):
    """One row of the table `gpu`, without the GPU's name."""

    t0_ns: int
    t1_ns: int
    metric: str
    value: float | None
    status: Status


class QuickReadings:
    """Power, throttling, clocks and memory: calls of well under a millisecond."""

    def __init__(self, nvml: Nvml, device: GpuDevice, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._nvml, self._device, self._now_ns = nvml, device, now_ns
        self._last_ns = now_ns()
        self._fields = nvml.fields(device.board, _FIELDS)
        self._stamps_move = False

    def take(self) -> list[Row]:
        """All of them, for the time since the last call."""
        fields = self._nvml.fields(self._device.board, _FIELDS)
        now_ns = self._now_ns()
        readings = {"power_w": self._power(fields[_POWER_FIELD])}
        for number, name in _THROTTLE_FIELDS.items():
            readings[name] = _share(self._fields[number], fields[number], now_ns - self._last_ns)
        self._fields = fields
        readings |= self._clocks() | self._events() | self._memory()
        start_ns, self._last_ns = self._last_ns, now_ns
        return [Row(start_ns, now_ns, name, *reading) for name, reading in readings.items()]

    def _power(self, field: Field) -> Reading:
        before = self._fields[_POWER_FIELD]
        self._stamps_move |= bool(before.stamp_us) and field.stamp_us > before.stamp_us
        if field.value is None:
            return Reading(None, field.status)
        if field.value <= 0:
            return NONE
        # Only a driver that stamps its samples at all can show that it repeats one.
        if self._stamps_move and (field.stamp_us, field.value) == (before.stamp_us, before.value):
            return Reading(None, "stale")
        return Reading(field.value / 1000, "ok")

    def _clocks(self) -> dict[str, Reading]:
        readings = {}
        for name, kind in _CLOCKS.items():
            mhz, status = self._nvml.call("nvmlDeviceGetClockInfo", self._device.board, kind)
            plausible = mhz is not None and 0 < mhz <= _CLOCK_LIMIT_MHZ
            readings[name] = Reading(float(mhz), "ok") if plausible else Reading(None, _failed(status))
        return readings

    def _events(self) -> dict[str, Reading]:
        board = self._device.board
        bits, status = self._nvml.call("nvmlDeviceGetCurrentClocksEventReasons", board)
        if status == "unsupported":  # the call's name before release 535
            bits, status = self._nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", board)
        if bits is None:
            return dict.fromkeys(_EVENT_BITS, Reading(None, status))
        return {name: Reading(float(bool(bits & bit)), "ok") for name, bit in _EVENT_BITS.items()}

    def _memory(self) -> dict[str, Reading]:
        if self._device.unified_memory:
            used_bytes = unified_memory_used_bytes(_meminfo())
            shared = NONE if used_bytes is None else Reading(float(used_bytes), "ok")
            return {"memory_used_bytes": NONE, "unified_memory_used_bytes": shared}
        memory, status = self._nvml.memory(self._device.handle)
        plausible = memory is not None and memory.total and memory.used <= memory.total
        used = Reading(float(memory.used), "ok") if plausible else Reading(None, _failed(status))
        return {"memory_used_bytes": used}


class SlowReadings:
    """Energy, memory by process, a Jetson's load; where GPM is missing, NVML's utilization and PCIe: up to
    21 ms a call. Where GPM reads 0, the utilization too."""

    def __init__(
        self,
        nvml: Nvml,
        device: GpuDevice,
        gpm_delivers: Callable[[], bool],
        tenant_of: Callable[[], Mapping[int, str]],
        now_ns: Callable[[], int] = time.monotonic_ns,
        *,
        own_of: Callable[[Collection[int]], Collection[int]] | None = None,
        gpm_reads_zero: Callable[[], bool] = lambda: False,
    ) -> None:
        self._nvml, self._device, self._now_ns = nvml, device, now_ns
        self._gpm_delivers, self._gpm_reads_zero = gpm_delivers, gpm_reads_zero
        self._processes = ProcessReadings(nvml, device, tenant_of, own_of)
        self._last_ns = now_ns()
        self._energy_ns, self._energy = self._read_energy()

    def take(self) -> list[Row]:
        """All of them, for the time since the last call."""
        start_ns, self._last_ns = self._last_ns, self._now_ns()
        rows = [self._energy_power()]
        readings = self._processes.take()
        if not self._gpm_delivers():
            readings["nvml_utilization_percent"] = self._utilization()
            rows += [self._pcie("nvml_pcie_tx_kb_per_s", 0), self._pcie("nvml_pcie_rx_kb_per_s", 1)]
        elif self._gpm_reads_zero():
            # Whether that can be is told by what else looks at the GPU.
            readings["nvml_utilization_percent"] = self._utilization()
        if self._device.tegra_load is not None:
            readings[TEGRA_LOAD] = read_load(self._device.tegra_load)
        rows += [Row(start_ns, self._last_ns, name, *reading) for name, reading in readings.items()]
        return rows

    def _read_energy(self) -> tuple[int, Reading]:
        reading = self._nvml.call("nvmlDeviceGetTotalEnergyConsumption", self._device.board)
        return self._now_ns(), reading

    def _energy_power(self) -> Row:
        """The energy counter's mean power: the power sensor itself looks at a part of the time only."""
        before_ns, before = self._energy_ns, self._energy
        self._energy_ns, self._energy = self._read_energy()
        reading = self._energy
        if reading.value is not None and before.value is not None:
            used_mj = reading.value - before.value
            length_ns = self._energy_ns - before_ns
            good = used_mj >= 0 and length_ns > 0
            reading = Reading(used_mj * 1e6 / length_ns, "ok") if good else Reading(None, "stale")
        elif reading.value is not None:
            reading = Reading(None, before.status)
        return Row(before_ns, self._energy_ns, "energy_power_w", *reading)

    def _utilization(self) -> Reading:
        if self._device.machine.wsl2:
            return NONE  # it reads 0 there, whatever runs
        rates, status = self._nvml.call("nvmlDeviceGetUtilizationRates", self._device.handle)
        plausible = rates is not None and rates.gpu <= 100
        return Reading(float(rates.gpu), "ok") if plausible else Reading(None, _failed(status))

    def _pcie(self, name: str, counter: int) -> Row:
        before_ns = self._now_ns()
        value, status = self._nvml.call("nvmlDeviceGetPcieThroughput", self._device.board, counter)
        return Row(before_ns, self._now_ns(), name, None if value is None else float(value), status)


def _share(before: Field, after: Field, length_ns: int) -> Reading:
    """A counter of ns -> its share of the time; over 1 where the driver counts up in larger steps."""
    if after.value is None:
        return Reading(None, after.status)
    if before.value is None:
        return Reading(None, before.status)
    grown_ns = after.value - before.value
    if grown_ns < 0 or length_ns <= 0:
        return Reading(None, "stale")  # the driver started anew
    return Reading(grown_ns / length_ns, "ok")


def _failed(status: Status) -> Status:
    """Of a reading that is none: some drivers answer an unsupported one with an impossible value."""
    return "unsupported" if status == "ok" else status


def _meminfo() -> str:
    try:
        return Path("/proc/meminfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
