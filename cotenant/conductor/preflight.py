"""What is looked at before anything starts: the device, memory, the folder to write to."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import psutil

from cotenant.conductor.plan import used_tenants
from cotenant.errors import CouldNotRun, UserError
from cotenant.observers.gpu_device import Note, gpu_uuids, read_machine
from cotenant.observers.gpu_device import find_device as find_gpu
from cotenant.observers.nvml_open import NvmlTrouble, open_nvml
from cotenant.plain import one_line
from cotenant.scenario.auto import Machine
from cotenant.scenario.schema import Scenario
from cotenant.tenants.mps import PIPES

# A tiny-shape server on a CPU was seen at about 350 MiB resident, most of it PyTorch itself.
_BUILTIN_BYTES = 400 * 2**20
_OWN_BYTES = 500 * 2**20
# nvmlComputeMode_t of nvml.h
COMPUTE_PROHIBITED: Final = 2
COMPUTE_EXCLUSIVE: Final = 3
_NO_GPU: Final = ("no_binding", "no_library", "no_driver", "no_device")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What the tenants run on. `note` is a sentence for the user where the choice needs one.

    Of a GPU: `gpu` its UUID (MIG-... for a slice), `gpu_count` how many the driver shows, `compute_mode` as
    NVML has it, `mig` whether it is cut into slices, `notes` what cannot be trusted or had of it. None: NVML
    does not tell.
    """

    kind: Literal["cpu", "gpu"]
    name: str
    cpu_count: int
    gpu_total_bytes: int | None = None
    gpu_free_bytes: int | None = None
    note: str | None = None
    gpu: str | None = None
    gpu_count: int = 0
    compute_mode: int | None = None
    mig: bool = False
    wsl2: bool = False
    notes: tuple[Note, ...] = ()


def find_device(wanted: str) -> Device:
    """Resolves the scenario's `device`.

    Raises UserError where there is no such GPU, CouldNotRun where its driver does not work.
    """
    cpu_count = len(os.sched_getaffinity(0))
    cpu = Device(kind="cpu", name=_cpu_name(), cpu_count=cpu_count)
    if wanted == "cpu":
        return cpu
    gpu = _gpu("cuda:0" if wanted in ("auto", "gpu") else wanted, cpu_count)
    if isinstance(gpu, NvmlTrouble):
        if wanted == "auto":
            # Without a driver there is no GPU; one that is there and broken is another matter.
            broken = gpu.kind not in _NO_GPU
            return replace(cpu, note=f"running on the CPU: {gpu}") if broken else cpu
        fault = UserError if gpu.kind == "no_device" else CouldNotRun
        raise fault(f"device {wanted!r}: {gpu.message}; {gpu.advice}, or use --set device=cpu")
    if not _torch_has_cuda():
        note = f"{gpu.name} is here, but the installed PyTorch has no CUDA"
        if wanted == "auto":
            return Device(kind="cpu", name=cpu.name, cpu_count=cpu_count, note=note + ": running on the CPU")
        raise UserError(
            f"device {wanted!r}: {note}; install a CUDA build of PyTorch, or use --set device=cpu"
        )
    return gpu


def find_machine(device: Device) -> Machine:
    """What `auto` asks about the machine beside its device."""
    return Machine(
        vllm=shutil.which("vllm"),
        gpu_total_bytes=device.gpu_total_bytes,
        gpu_free_bytes=device.gpu_free_bytes,
    )


def check_keys(scenario: Scenario, environ: Mapping[str, str]) -> None:
    """Raises UserError where a tenant's key is in a variable that has none: it would be asked without one."""
    wanting: dict[str, list[str]] = {}
    for name in used_tenants(scenario):
        variable = scenario.tenants[name].api_key_env
        if variable is not None and not environ.get(variable, "").strip():
            wanting.setdefault(variable, []).append(name)
    lines = [
        f"{variable} is {'empty' if variable in environ else 'not set'}; export it with the key for "
        f"{' and '.join(names)} (tenants.{names[0]}.api_key_env names it)"
        for variable, names in wanting.items()
    ]
    if lines:
        raise UserError("\n".join(lines))


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
                    f"--out {one_line(out)}: that is not a folder; give one that can be written to"
                ) from None
            continue
        except OSError as error:
            raise UserError(
                f"--out {one_line(out)}: cannot make the run directory there ({error.strerror})"
            ) from None
        return path
    raise UserError(f"--out {one_line(out)}: {run_id} and a hundred more of that name are there already")


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "CPU"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "CPU")


def _gpu(wanted: str, cpu_count: int) -> Device | NvmlTrouble:
    """The GPU that is meant, or why there is none."""
    nvml = open_nvml()
    if isinstance(nvml, NvmlTrouble):
        return nvml
    try:
        found = find_gpu(nvml, wanted, os.environ, read_machine())
        if isinstance(found, NvmlTrouble):
            return found
        total_bytes, used = found.memory_total_bytes, nvml.memory(found.handle).value
        modes = nvml.call("nvmlDeviceGetMigMode", found.board).value
        return Device(
            kind="gpu",
            name=found.name,
            cpu_count=cpu_count,
            gpu_total_bytes=total_bytes,
            gpu_free_bytes=None if total_bytes is None or used is None else total_bytes - int(used.used),
            gpu=None if found.uuid == "GPU-unknown" else found.uuid,
            gpu_count=len(gpu_uuids(nvml)),
            compute_mode=nvml.call("nvmlDeviceGetComputeMode", found.board).value,
            mig=found.gpu_instance is not None or (modes is not None and modes[0] == 1),
            wsl2=found.machine.wsl2,
            notes=found.notes,
        )
    finally:
        nvml.close()


def _torch_has_cuda() -> bool:
    # In a child: the conductor never imports torch.
    check = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    # Nor a client of an MPS daemon, which would start a server for it.
    env = {**os.environ, PIPES: "/nonexistent"}
    try:
        return (
            subprocess.run([sys.executable, "-c", check], check=False, timeout=120, env=env).returncode == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
