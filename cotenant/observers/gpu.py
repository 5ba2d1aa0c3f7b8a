"""The GPU observer: NVML's and GPM's readings of one GPU, into the table `gpu`, until SIGTERM or SIGINT.

Run as `python -m cotenant.observers.gpu --run-dir DIR --gpu UUID|index|cuda:N --pids name=pid,...`; several
GPUs are several such processes. It prints one line of JSON: `{"ready": true, "gpu": ..., "notes": [...]}`, or
`{"ready": false, "kind": ..., "message": ..., "advice": ...}` and ends with 5. Names and units of the
metrics: `cotenant.observers.gpm`, `cotenant.observers.gpu_readings` and `cotenant.observers.tegra`. How long
the slowest NVML call of each kind took in a second goes to the table `host` (source `gpu-observer`, metrics
`<call>_ns`), as does `tick_lag_ns`.
"""

import argparse
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from cotenant.observers.gpm import MIN_WINDOW_NS, Gpm
from cotenant.observers.gpu_device import GpuDevice, find_device, read_machine
from cotenant.observers.gpu_readings import QuickReadings, Row, SlowReadings
from cotenant.observers.grid import ticks
from cotenant.observers.host import pids_by_name
from cotenant.observers.kin import Kin
from cotenant.observers.nvml import Nvml
from cotenant.observers.nvml_open import NvmlTrouble, open_nvml
from cotenant.observers.stopping import stop_on_signals
from cotenant.run_dir.writer import RunWriter
from cotenant.units import NS_PER_MS, NS_PER_S

SOURCE: Final = "gpu-observer"
_COULD_NOT_RUN: Final = 5
_FLUSH_S: Final = 0.5
_SLOW_PERIOD_NS: Final = NS_PER_S
_JOIN_S: Final = 2.0


class Sampler:
    """Two threads that read one GPU and queue rows; `stop` is set to end them, or by the first that fails."""

    def __init__(
        self, nvml: Nvml, device: GpuDevice, kin: Kin, period_ns: int, stop: threading.Event
    ) -> None:
        self._nvml, self._device, self._kin = nvml, device, kin
        self._period_ns, self._stop = period_ns, stop
        self.rows: queue.SimpleQueue[list[Row]] = queue.SimpleQueue()
        self.lag_ns = 0
        self.failure: BaseException | None = None
        self._gpm = Gpm(nvml, device)
        self._threads = [
            threading.Thread(target=self._guard, args=(job,), name=name, daemon=True)
            for name, job in (("quick", self._quick), ("slow", self._slow))
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Waits for both, but not for ever: a call to a GPU that fell off the bus may never come back."""
        for thread in self._threads:
            thread.join(timeout=_JOIN_S)
        if not any(thread.is_alive() for thread in self._threads):
            self._gpm.close()

    def _quick(self) -> None:
        readings = QuickReadings(self._nvml, self._device)
        for due_ns in ticks(self._period_ns, self._stop.wait):
            self.lag_ns = max(self.lag_ns, time.monotonic_ns() - due_ns)
            rows = []
            if (window := self._gpm.close_window()) is not None:
                rows = [
                    Row(window.start_ns, window.end_ns, name, *reading)
                    for name, reading in window.readings.items()
                ]
            self.rows.put(rows + readings.take())

    def _slow(self) -> None:
        kin = self._kin
        gpm = self._gpm
        readings = SlowReadings(
            self._nvml,
            self._device,
            lambda: gpm.delivers,
            kin.tenants,
            own_of=kin.own,
            gpm_reads_zero=lambda: gpm.reads_zero,
        )
        for _ in ticks(_SLOW_PERIOD_NS, self._stop.wait):
            self.rows.put(readings.take())

    def _guard(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001  shown by the thread that can end the process
            self.failure = error
            self._stop.set()


def observe(
    nvml: Nvml,
    device: GpuDevice,
    writer: RunWriter,
    kin: Kin,
    period_ns: int,
    stop: threading.Event,
) -> None:
    """Sample until `stop` is set; the caller closes `nvml` and `writer`. Raises OSError (a full disk)."""
    sampler = Sampler(nvml, device, kin, period_ns, stop)
    told_ns = time.monotonic_ns()
    try:
        while not stop.wait(_FLUSH_S):
            _write(writer, device, sampler)
            if time.monotonic_ns() - told_ns >= NS_PER_S:
                told_ns = time.monotonic_ns()
                _write_latencies(writer, nvml, sampler, told_ns)
            writer.flush()
    finally:
        stop.set()
        sampler.join()
    _write(writer, device, sampler)
    _write_latencies(writer, nvml, sampler, time.monotonic_ns())
    if sampler.failure is not None:
        raise sampler.failure


def _write(writer: RunWriter, device: GpuDevice, sampler: Sampler) -> None:
    while True:
        try:
            rows = sampler.rows.get_nowait()
        except queue.Empty:
            return
        for row in rows:
            writer.append(
                "gpu", t0=row.t0_ns, t1=row.t1_ns, gpu=device.uuid, metric=row.metric, value=row.value,
                status=row.status,
            )  # fmt: skip


def _write_latencies(writer: RunWriter, nvml: Nvml, sampler: Sampler, now_ns: int) -> None:
    lag_ns, sampler.lag_ns = sampler.lag_ns, 0
    slowest = {f"{name}_ns": ns for name, ns in nvml.take_latencies().items()} | {"tick_lag_ns": lag_ns}
    for metric, ns in slowest.items():
        writer.append("host", t=now_ns, source=SOURCE, metric=metric, value=float(ns))


def _ready_line(device: GpuDevice) -> dict[str, object]:
    return {
        "ready": True, "gpu": device.uuid, "index": device.index, "name": device.name,
        "driver": device.driver, "gpm": device.gpm, "mig_slices": list(device.mig_slices),
        "unified_memory": device.unified_memory, "memory_total_bytes": device.memory_total_bytes,
        "notes": [note._asdict() for note in device.notes],
    }  # fmt: skip


def _refuse(trouble: NvmlTrouble) -> int:
    _say({"ready": False, "kind": trouble.kind, "message": trouble.message, "advice": trouble.advice})
    return _COULD_NOT_RUN


def _say(line: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _period_ns(text: str) -> int:
    period_ns = round(float(text) * NS_PER_MS)
    if period_ns < MIN_WINDOW_NS:
        raise argparse.ArgumentTypeError(f"at least {MIN_WINDOW_NS // NS_PER_MS} ms: GPM is invalid below")
    return period_ns


def main(arguments: Sequence[str] | None = None) -> int:
    """The process's entry."""
    parser = argparse.ArgumentParser(prog="cotenant.observers.gpu", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--gpu", default="cuda:0", help="UUID, NVML index or cuda:N")
    parser.add_argument("--pids", type=pids_by_name, default={}, help="tenant=pid,tenant@1=pid")
    parser.add_argument("--run-pid", type=int, help="all processes of the run descend from it")
    parser.add_argument("--period-ms", type=_period_ns, default=200 * NS_PER_MS, dest="period_ns")
    options = parser.parse_args(arguments)
    nvml = open_nvml()
    if isinstance(nvml, NvmlTrouble):
        return _refuse(nvml)
    device = find_device(nvml, options.gpu, os.environ, read_machine())
    if isinstance(device, NvmlTrouble):
        nvml.close()
        return _refuse(device)
    writer = RunWriter(options.run_dir, device.uuid.replace("/", "-"), audio_limit_bytes=None)
    stop = stop_on_signals()
    _say(_ready_line(device))
    try:
        try:
            observe(nvml, device, writer, Kin(options.pids, options.run_pid), options.period_ns, stop)
        finally:
            writer.close()
    except OSError as error:
        sys.stderr.write(f"the GPU observer cannot write to {options.run_dir}: {error}\n")
        return _COULD_NOT_RUN
    finally:
        nvml.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
