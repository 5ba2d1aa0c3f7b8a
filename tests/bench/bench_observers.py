"""What the observers see and cost, as JSON lines: `python -m tests.bench.bench_observers`, under 60 s.

On a machine with an NVIDIA GPU: each metric's status and a value, what GPM's windows hold by their length
(idle and beside a process that multiplies matrices), how long NVML's calls take, the canary's latencies by
its way of waiting, and the CPU time of the observers' processes. Elsewhere the same over a fake NVML and on
the CPU, which is said.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cotenant.observers import gpu_canary
from cotenant.observers.engine_series import EngineSeries
from cotenant.observers.gpm import METRICS
from cotenant.observers.gpu import Sampler
from cotenant.observers.gpu_device import GpuDevice, find_device, read_machine
from cotenant.observers.gpu_readings import SlowReadings
from cotenant.observers.grid import ticks
from cotenant.observers.host import parse_stat
from cotenant.observers.kin import Kin
from cotenant.observers.nvml import Nvml
from cotenant.observers.nvml_open import NvmlTrouble, open_nvml
from cotenant.resources import data_dir
from cotenant.run_dir import manifest
from cotenant.testing.fake_gpu import FakeGpu
from cotenant.testing.fake_nvml import install
from cotenant.testing.fake_nvml_library import FakeLibrary
from cotenant.units import NS_PER_MS, NS_PER_S
from cotenant.wire.prometheus import PrometheusDecoder

WINDOWS_MS = (20, 60, 110, 200, 400)
BUSY = """
import torch
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
a @ a
torch.cuda.synchronize()
print("busy", flush=True)
while True:
    for _ in range(50):
        a @ a
    torch.cuda.synchronize()
"""


def say(what: str, **more: Any) -> None:
    print(json.dumps({"what": what, **more}), flush=True)


def show_readings(nvml: Nvml, device: GpuDevice) -> None:
    """Three seconds of the sampler, then the fallbacks that GPM makes needless."""
    stop = threading.Event()
    sampler = Sampler(nvml, device, Kin({"self": os.getpid()}), 200 * NS_PER_MS, stop)
    time.sleep(3.3)
    stop.set()
    sampler.join()
    rows = []
    while not sampler.rows.empty():
        rows += sampler.rows.get()
    rows += SlowReadings(nvml, device, lambda: False, lambda: {os.getpid(): "self"}).take()
    for metric in sorted({row.metric for row in rows}):
        mine = [row for row in rows if row.metric == metric]
        statuses = {
            status: sum(row.status == status for row in mine) for status in {row.status for row in mine}
        }
        lengths_ms = [round((row.t1_ns - row.t0_ns) / NS_PER_MS, 1) for row in mine]
        say("metric", metric=metric, statuses=statuses, value=mine[-1].value, window_ms=max(lengths_ms))
    say("sampler", worst_tick_lag_ms=round(sampler.lag_ns / NS_PER_MS, 3))


def show_windows(nvml: Nvml, device: GpuDevice, beside: str) -> None:
    """What GPM gives for windows of several lengths, its least one included on purpose."""
    request = nvml.gpm_request(list(METRICS))
    buffers = [nvml.call("nvmlGpmSampleAlloc").value for _ in range(2)]
    if request is None or None in buffers or not device.gpm:
        say("gpm window", beside=beside, missing="no GPM")
        return
    for length_ms in WINDOWS_MS:
        seen: dict[str, list[Any]] = {name: [] for name in METRICS.values()}
        for _ in range(4):
            for position, buffer in enumerate(buffers):
                sample(nvml, device, buffer)
                if position == 0:
                    time.sleep(length_ms / 1000)
            for number, reading in nvml.gpm_metrics(request, *buffers).items():
                told = reading.status if reading.value is None else round(reading.value, 2)
                seen[METRICS[number]].append(told)
        say("gpm window", beside=beside, length_ms=length_ms, **seen)
    for buffer in buffers:
        nvml.call("nvmlGpmSampleFree", buffer)


def sample(nvml: Nvml, device: GpuDevice, buffer: Any) -> None:
    if device.gpu_instance is None:
        nvml.call("nvmlGpmSampleGet", device.board, buffer)
    else:
        nvml.call("nvmlGpmMigSampleGet", device.board, device.gpu_instance, buffer)


def show_latencies(nvml: Nvml, device: GpuDevice) -> None:
    """Each call twenty times."""
    buffer = nvml.call("nvmlGpmSampleAlloc").value
    board, handle = device.board, device.handle
    calls: dict[str, Callable[[], Any]] = {
        "GpmSampleGet": lambda: sample(nvml, device, buffer),
        "FieldValues": lambda: nvml.fields(board, (186, 74, 76, 269, 270, 271)),
        "ClockInfo": lambda: nvml.call("nvmlDeviceGetClockInfo", board, 1),
        "ClocksEventReasons": lambda: nvml.call("nvmlDeviceGetCurrentClocksEventReasons", board),
        "MemoryInfo": lambda: nvml.memory(handle),
        "ComputeRunningProcesses": lambda: nvml.call("nvmlDeviceGetComputeRunningProcesses", handle),
        "TotalEnergyConsumption": lambda: nvml.call("nvmlDeviceGetTotalEnergyConsumption", board),
        "UtilizationRates": lambda: nvml.call("nvmlDeviceGetUtilizationRates", handle),
        "PcieThroughput": lambda: nvml.call("nvmlDeviceGetPcieThroughput", board, 0),
    }
    if buffer is None:
        del calls["GpmSampleGet"]
    for name, call in calls.items():
        took_ms = []
        for _ in range(20):
            before_ns = time.monotonic_ns()
            call()
            took_ms.append((time.monotonic_ns() - before_ns) / NS_PER_MS)
        say("call", name=name, p50_ms=round(float(np.median(took_ms)), 3), max_ms=round(max(took_ms), 3))
    if buffer is not None:
        nvml.call("nvmlGpmSampleFree", buffer)
    fields = nvml.fields(board, (186, 74, 76, 269, 270, 271))
    say(
        "fields",
        raw={str(number): [field.value, field.status, field.stamp_us] for number, field in fields.items()},
    )


def show_canary(device: str, wait: str, beside: str, seconds: float) -> None:
    """Latencies and CPU time of one way of waiting, in this process."""
    run = gpu_canary.probe(device, wait)
    for _ in range(50):
        run()
    stop, latencies_ms = threading.Event(), []
    end_ns = time.monotonic_ns() + round(seconds * NS_PER_S)
    cpu_s, start_s = time.process_time(), time.monotonic()
    for _ in ticks(5 * NS_PER_MS, stop.wait):
        before_ns = time.monotonic_ns()
        run()
        after_ns = time.monotonic_ns()
        latencies_ms.append((after_ns - before_ns) / NS_PER_MS)
        if after_ns >= end_ns:
            stop.set()
    cpu_share = (time.process_time() - cpu_s) / (time.monotonic() - start_s)
    quantiles = {f"p{q}_ms": round(float(np.percentile(latencies_ms, q)), 4) for q in (0, 50, 95, 99, 100)}
    say("canary", device=device, wait=wait, beside=beside, n=len(latencies_ms), **quantiles,
        cpu_share=round(cpu_share, 4))  # fmt: skip


@contextmanager
def busy() -> Iterator[None]:
    """A process of its own that multiplies matrices."""
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()


def show_cost(fake: bool, device: str, seconds: float) -> None:
    """CPU share and memory of the observers as the processes that they are, between ready and end."""
    gpu = ["cotenant.observers.gpu", "--gpu", "0" if fake else "cuda:0"]
    commands = {
        "gpu": ["cotenant.testing.fake_nvml", "{}", *gpu] if fake else gpu,
        "canary": ["cotenant.observers.gpu_canary", "--device", device],
    }
    with tempfile.TemporaryDirectory() as folder:
        manifest.write(Path(folder), {"schema": 1, "tool": "cotenant"})
        running = {}
        for name, command in commands.items():
            whole = [sys.executable, "-m", *command, "--run-dir", folder]
            running[name] = subprocess.Popen(whole, stdout=subprocess.PIPE, text=True)
        for name, process in running.items():
            assert process.stdout is not None
            say("ready", process=name, line=json.loads(process.stdout.readline() or "null"))
        time.sleep(3)  # the first batches load what writes them
        before = {name: parse_stat(stat(process.pid)) for name, process in running.items()}
        time.sleep(seconds)
        for name, process in running.items():
            after = parse_stat(stat(process.pid))
            share = (after.cpu_s - before[name].cpu_s) / seconds
            say("cost", process=name, cpu_share=round(share, 4), rss_mib=after.rss_bytes >> 20)
        for name, process in running.items():
            process.terminate()
            say("ended", process=name, code=process.wait(timeout=10))


def stat(pid: int) -> bytes:
    return Path(f"/proc/{pid}/stat").read_bytes()


def show_scrape() -> None:
    """What one page of an LLM server's metrics costs to read."""
    page = (data_dir("fixtures") / "wire" / "vllm_metrics.prom").read_bytes() * 10
    series, count = EngineSeries(), 50
    before_s = time.process_time()
    for _ in range(count):
        decoder = PrometheusDecoder()
        series.values(decoder.feed(page) + decoder.close())
    ms = (time.process_time() - before_s) / count * 1000
    say("scrape", lines=page.count(b"\n"), cpu_ms=round(ms, 2))


def main() -> None:
    start_s = time.monotonic()
    has_cuda = torch.cuda.is_available()
    with install(None) if not has_cuda else nullcontext():
        trouble = open_nvml()
    fake = isinstance(trouble, NvmlTrouble)
    if isinstance(trouble, Nvml):
        trouble.close()
    say("machine", cuda=has_cuda, fake_nvml=fake, trouble=str(trouble) if fake else None)
    with install(FakeLibrary(FakeGpu())) if fake else nullcontext():
        nvml = open_nvml()
        assert isinstance(nvml, Nvml)
        found = find_device(nvml, "0" if fake else "cuda:0", os.environ, read_machine())
        assert isinstance(found, GpuDevice), found
        say("device", uuid=found.uuid, name=found.name, driver=found.driver, gpm=found.gpm,
            unified_memory=found.unified_memory, machine=str(found.machine), notes=found.notes)  # fmt: skip
        show_readings(nvml, found)
        show_windows(nvml, found, "idle")
        show_latencies(nvml, found)
        device = "cuda:0" if has_cuda else "cpu"
        for wait in gpu_canary.WAITS if has_cuda else ("block",):
            show_canary(device, wait, "idle", 3)
        if has_cuda:
            with busy():
                show_windows(nvml, found, "busy")
                for wait in ("block", "poll"):
                    show_canary(device, wait, "busy", 2.5)
        nvml.close()
    show_cost(fake, device, 5)
    show_scrape()
    say("took", seconds=round(time.monotonic() - start_s, 1))


if __name__ == "__main__":
    main()
