"""What is looked at before anything starts: the device, memory, the folder to write to."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from cotenant.conductor.plan import used_tenants
from cotenant.errors import CouldNotRun, UserError
from cotenant.observers.gpu_device import find_device as find_gpu
from cotenant.observers.gpu_device import read_machine
from cotenant.observers.nvml_open import NvmlTrouble, open_nvml
from cotenant.scenario.auto import Machine
from cotenant.scenario.schema import Scenario

# A tiny-shape server on a CPU was seen at about 350 MiB resident, most of it PyTorch itself.
_BUILTIN_BYTES = 400 * 2**20
_OWN_BYTES = 500 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What the tenants run on. `note` is a sentence for the user where the choice needs one."""

    kind: Literal["cpu", "gpu"]
    name: str
    cpu_count: int
    gpu_total_bytes: int | None = None
    gpu_free_bytes: int | None = None
    note: str | None = None


def find_device(wanted: str) -> Device:
    """Resolves the scenario's `device`. Raises UserError where a GPU is asked for and none can be used."""
    cpu_count = len(os.sched_getaffinity(0))
    cpu = Device(kind="cpu", name=_cpu_name(), cpu_count=cpu_count)
    if wanted == "cpu":
        return cpu
    gpu = _gpu()
    if isinstance(gpu, NvmlTrouble):
        if wanted == "auto":
            return cpu
        raise UserError(f"device {wanted!r}: {gpu.message}; {gpu.advice}, or use --set device=cpu")
    if not _torch_has_cuda():
        note = f"{gpu.name} is here, but the installed PyTorch has no CUDA"
        if wanted == "auto":
            return Device(kind="cpu", name=cpu.name, cpu_count=cpu_count, note=note + ": running on the CPU")
        raise UserError(
            f"device {wanted!r}: {note}; install a CUDA build of PyTorch, or use --set device=cpu"
        )
    return Device(
        kind="gpu",
        name=gpu.name,
        cpu_count=cpu_count,
        gpu_total_bytes=gpu.total_bytes,
        gpu_free_bytes=gpu.free_bytes,
    )


def find_machine(device: Device) -> Machine:
    """What `auto` asks about the machine beside its device."""
    return Machine(
        vllm=shutil.which("vllm"),
        gpu_total_bytes=device.gpu_total_bytes,
        gpu_free_bytes=device.gpu_free_bytes,
    )


def check_memory(scenario: Scenario, *, available_bytes: int) -> None:
    """Raises CouldNotRun where the built-in servers of a CPU run would not fit."""
    tenants = [scenario.tenants[name] for name in used_tenants(scenario)]
    servers = sum(tenant.replicas for tenant in tenants if tenant.engine == "builtin")
    need_bytes = _OWN_BYTES + servers * _BUILTIN_BYTES
    if servers and available_bytes < need_bytes:
        raise CouldNotRun(
            f"{servers} built-in servers need about {need_bytes / 2**30:.1f} GiB of memory and "
            f"{available_bytes / 2**30:.1f} GiB are free; free some, or use fewer replicas or stages"
        )


def available_memory_bytes() -> int:
    return int(psutil.virtual_memory().available)


def make_run_dir(out: Path, run_id: str) -> Path:
    """A new, empty folder for the run. Raises UserError where it cannot be made."""
    for attempt in range(100):
        path = out / (run_id if attempt == 0 else f"{run_id}-{attempt + 1}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if not out.is_dir():
                raise UserError(
                    f"--out {out}: that is not a folder; give one that can be written to"
                ) from None
            continue
        except OSError as error:
            raise UserError(f"--out {out}: cannot make the run directory there ({error.strerror})") from None
        return path
    raise UserError(f"--out {out}: {run_id} and a hundred more of that name are there already")


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "CPU"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "CPU")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gpu:
    name: str
    total_bytes: int | None
    free_bytes: int | None


def _gpu() -> _Gpu | NvmlTrouble:
    """The GPU that CUDA calls number 0, or why there is none."""
    nvml = open_nvml()
    if isinstance(nvml, NvmlTrouble):
        return nvml
    try:
        device = find_gpu(nvml, "cuda:0", os.environ, read_machine())
        if isinstance(device, NvmlTrouble):
            return device
        total_bytes, used = device.memory_total_bytes, nvml.memory(device.handle).value
        free_bytes = None if total_bytes is None or used is None else total_bytes - int(used.used)
        return _Gpu(name=device.name, total_bytes=total_bytes, free_bytes=free_bytes)
    finally:
        nvml.close()


def _torch_has_cuda() -> bool:
    # In a child: the conductor never imports torch.
    check = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    try:
        return subprocess.run([sys.executable, "-c", check], check=False, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
