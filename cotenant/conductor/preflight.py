"""What is looked at before anything starts: the device, memory, the folder to write to."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from cotenant.conductor.plan import used_tenants
from cotenant.errors import CouldNotRun, UserError
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
    note: str | None = None


def find_device(wanted: str) -> Device:
    """Resolves the scenario's `device`. Raises UserError where a GPU is asked for and none can be used."""
    cpu_count = len(os.sched_getaffinity(0))
    cpu = Device(kind="cpu", name=_cpu_name(), cpu_count=cpu_count)
    if wanted == "cpu":
        return cpu
    gpu_name = _gpu_name()
    if gpu_name is None:
        if wanted == "auto":
            return cpu
        raise UserError(
            f"device {wanted!r}: no NVIDIA GPU answers here; use --set device=cpu, or check nvidia-smi"
        )
    if not _torch_has_cuda():
        note = f"{gpu_name} is here, but the installed PyTorch has no CUDA"
        if wanted == "auto":
            return Device(kind="cpu", name=cpu.name, cpu_count=cpu_count, note=note + ": running on the CPU")
        raise UserError(
            f"device {wanted!r}: {note}; install a CUDA build of PyTorch, or use --set device=cpu"
        )
    return Device(kind="gpu", name=gpu_name, cpu_count=cpu_count)


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


def _gpu_name() -> str | None:
    import pynvml

    try:
        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001  NVML's library-mismatch error is a plain Exception
        return None
    try:
        if pynvml.nvmlDeviceGetCount() == 0:
            return None
        name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
        return name if isinstance(name, str) else name.decode(errors="replace")
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def _torch_has_cuda() -> bool:
    # In a child: the conductor never imports torch.
    check = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    try:
        return subprocess.run([sys.executable, "-c", check], check=False, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
