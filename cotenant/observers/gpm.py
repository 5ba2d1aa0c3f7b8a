"""GPM windows: SM, tensor, DRAM and PCIe use between two samples of the GPU's own counters.

Two buffers take turns, so that a window begins where the last one ended. A lost sample makes both windows
that it borders missing. NVIDIA: windows of 100 ms and less are invalid (nvml.h, nvmlGpmMetricsGet).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from cotenant.observers.gpu_device import GpuDevice
from cotenant.observers.nvml import Nvml, Reading, Status
from cotenant.units import NS_PER_MS

MIN_WINDOW_NS: Final = 110 * NS_PER_MS
# nvmlGpmMetricId_t -> the metric's name here; shares are of 100, PCIe is as the GPU sees it.
METRICS: Final = {
    2: "sm_percent",
    3: "sm_occupancy_percent",
    5: "tensor_percent",
    10: "dram_percent",
    20: "pcie_tx_mib_per_s",
    21: "pcie_rx_mib_per_s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What one stretch of time showed, by metric name."""

    start_ns: int
    end_ns: int
    readings: dict[str, Reading]


class Gpm:
    """Call `close_window` on each tick. Where GPM is missing it gives windows that say so."""

    def __init__(self, nvml: Nvml, device: GpuDevice, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._nvml, self._device, self._now_ns = nvml, device, now_ns
        self._request = nvml.gpm_request(list(METRICS)) if device.gpm else None
        self._refused: Status = "unsupported"
        self._buffers: list[Any] = []
        if self._request is not None:
            for _ in range(2):
                buffer, status = nvml.call("nvmlGpmSampleAlloc")
                if buffer is None:
                    self._refused = status
                else:
                    self._buffers.append(buffer)
        self._base: Status = "unsupported"
        self._worked: set[str] = set()
        # Whether the last window had no SM at work at all: an idle GPU, or one that does not count them.
        self.reads_zero = False
        self.available = len(self._buffers) == 2
        self._edge_ns = now_ns()
        if self.available:
            self._base, self._edge_ns = self._sample(self._buffers[0])

    def close_window(self) -> Window | None:
        """The window since the last one; None where it would be too short (it then goes on)."""
        if self._now_ns() - self._edge_ns < MIN_WINDOW_NS:
            return None
        start_ns = self._edge_ns
        if not self.available:
            self._edge_ns = self._now_ns()
            return self._window(start_ns, dict.fromkeys(METRICS.values(), Reading(None, self._refused)))
        older, newer = self._buffers
        base, (self._base, self._edge_ns) = self._base, self._sample(newer)
        if self._base != "ok" or base != "ok":
            missing = base if self._base == "ok" else self._base
            readings = dict.fromkeys(METRICS.values(), Reading(None, missing))
        else:
            by_id = self._nvml.gpm_metrics(self._request, older, newer)
            readings = {METRICS[number]: reading for number, reading in by_id.items()}
        self._buffers = [newer, older]
        return self._window(start_ns, readings)

    @property
    def delivers(self) -> bool:
        """Whether a window begun now can be had."""
        return self.available and self._base == "ok"

    def close(self) -> None:
        """Frees the buffers."""
        for buffer in self._buffers:
            self._nvml.call("nvmlGpmSampleFree", buffer)
        self._buffers, self.available = [], False

    def _window(self, start_ns: int, readings: dict[str, Reading]) -> Window:
        told = {}
        for name, reading in readings.items():
            # What worked before and is refused now (GPM has been seen to end so in containers) was lost.
            if reading.status in ("unsupported", "no_permission") and name in self._worked:
                reading = Reading(None, "lost")
            if reading.status == "ok":
                self._worked.add(name)
            told[name] = reading
        self.reads_zero = told["sm_percent"] == (0.0, "ok")
        return Window(start_ns=start_ns, end_ns=self._edge_ns, readings=told)

    def _sample(self, buffer: Any) -> tuple[Status, int]:
        """Fill a buffer; its time is the middle of the call."""
        before_ns = self._now_ns()
        device = self._device
        if device.gpu_instance is None:
            _, status = self._nvml.call("nvmlGpmSampleGet", device.board, buffer)
        else:
            _, status = self._nvml.call("nvmlGpmMigSampleGet", device.board, device.gpu_instance, buffer)
        return status, (before_ns + self._now_ns()) // 2
