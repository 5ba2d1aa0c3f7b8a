"""Which GPU is meant, and what kind of machine it sits in: CUDA's numbering, MIG, WSL2, unified memory.

NVML numbers GPUs by PCI bus and knows nothing of CUDA_VISIBLE_DEVICES; an index of CUDA is therefore resolved
by UUID first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from cotenant.observers.nvml import Nvml
from cotenant.observers.nvml_open import NvmlTrouble
from cotenant.observers.tegra import find_load

# include/linux/proc_ns.h: the inode of the first PID namespace; in any other one, host PIDs mean nothing.
_FIRST_PID_NAMESPACE: Final = "pid:[4026531836]"
_BYTES_PER_KIB: Final = 1024
# Of NVIDIA's DCGM, as /proc/<pid>/comm has them.
_DCGM: Final = ("nv-hostengine", "dcgm-exporter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What of the host bears on NVML; `read_machine` reads it.

    `tegra_load`: a Jetson's file of that; `counter_readers`: programs that read the GPU's counters too.
    """

    wsl2: bool
    nested_pids: bool
    tegra_load: Path | None = None
    counter_readers: tuple[str, ...] = ()


class Note(NamedTuple):
    """Something that cannot be trusted or had here, and what would mend it ("" where nothing would)."""

    kind: str
    text: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevice:
    """A GPU or a MIG slice of one.

    `handle` is for memory and processes (the slice's own), `board` for what the whole card has (clocks,
    power); `gpu_instance` is set for a slice. `tegra_load`: where the load of a Jetson's own GPU is read.
    """

    handle: Any
    board: Any
    uuid: str
    index: int | None
    name: str
    driver: str
    gpu_instance: int | None
    mig_slices: tuple[str, ...]
    memory_total_bytes: int | None
    unified_memory: bool
    gpm: bool
    tegra_load: Path | None
    machine: Machine
    notes: tuple[Note, ...]


def read_machine(sysfs: Path = Path("/sys"), proc: Path = Path("/proc")) -> Machine:
    """Of this host and this process's PID namespace."""
    release = _read_text(proc / "sys/kernel/osrelease").lower()
    try:
        namespace = str((proc / "self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return Machine(
        wsl2="microsoft" in release,
        nested_pids=namespace != _FIRST_PID_NAMESPACE,
        tegra_load=find_load(sysfs),
        counter_readers=tuple(
            sorted({name for path in proc.glob("[0-9]*/comm") if (name := _read_text(path).strip()) in _DCGM})
        ),
    )


def unified_memory_used_bytes(meminfo: str) -> int | None:
    """Of a GPU that shares the system's memory: MemTotal - MemAvailable of /proc/meminfo (proc(5))."""
    kib = {}
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdecimal():
            kib[name] = int(words[0])
    if "MemTotal" not in kib or "MemAvailable" not in kib:
        return None
    return (kib["MemTotal"] - kib["MemAvailable"]) * _BYTES_PER_KIB


def find_device(
    nvml: Nvml, wanted: str, environ: Mapping[str, str], machine: Machine
) -> GpuDevice | NvmlTrouble:
    """`wanted`: a UUID (or its unique beginning) of a GPU or MIG slice, an NVML index, or `cuda:N`."""
    notes: list[Note] = []
    if wanted.startswith("cuda"):
        resolved = _cuda_entry(nvml, wanted, environ, notes)
        if isinstance(resolved, NvmlTrouble):
            return resolved
        wanted = resolved
    if wanted.isdecimal():
        handle, status = nvml.call("nvmlDeviceGetHandleByIndex", int(wanted))
        if handle is None:
            return _no_device(f"there is no GPU of index {wanted} ({status})", nvml)
    else:
        handle = _by_uuid(nvml, wanted)
        if handle is None:
            return _no_device(f"there is no GPU or MIG slice {wanted}", nvml)
    return _describe(nvml, handle, machine, notes)


def gpu_uuids(nvml: Nvml) -> list[str]:
    """The UUIDs of whole GPUs, by NVML index; "" where one does not tell."""
    count = nvml.call("nvmlDeviceGetCount").value or 0
    handles = [nvml.call("nvmlDeviceGetHandleByIndex", index).value for index in range(count)]
    return [nvml.text("nvmlDeviceGetUUID", handle) or "" if handle is not None else "" for handle in handles]


def _cuda_entry(nvml: Nvml, wanted: str, environ: Mapping[str, str], notes: list[Note]) -> str | NvmlTrouble:
    """CUDA's device N -> a UUID, or the NVML index where nothing renumbers."""
    number = wanted.partition(":")[2] or "0"
    if not number.isdecimal():
        return NvmlTrouble(kind="no_device", message=f"{wanted} names no device", advice="write cuda:0")
    uuids = gpu_uuids(nvml)
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    entries = [str(index) for index in range(len(uuids))] if visible is None else []
    for entry in (visible or "").split(","):
        entry = entry.strip()
        valid = int(entry) < len(uuids) if entry.isdecimal() else entry.startswith(("GPU-", "MIG-"))
        if not valid:
            break  # CUDA hides everything from the first entry that is none
        entries.append(entry)
    if int(number) >= len(entries):
        shown = "" if visible is None else f" of CUDA_VISIBLE_DEVICES={visible}"
        return _no_device(f"there is no {wanted} among {len(entries)} device(s){shown}", nvml)
    entry = entries[int(number)]
    if not entry.isdecimal():
        return entry
    if len(uuids) > 1 and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        notes.append(
            Note(
                "cuda-numbering",
                "CUDA may number these GPUs otherwise than NVML (CUDA_DEVICE_ORDER is not PCI_BUS_ID)",
                "name the GPU by its UUID to be sure",
            )
        )
    return uuids[int(entry)] or entry


def _by_uuid(nvml: Nvml, wanted: str) -> Any:
    handle = nvml.call("nvmlDeviceGetHandleByUUID", wanted).value
    if handle is not None:
        return handle
    # CUDA takes the beginning of a UUID; NVML wants all of it.
    found = []
    for index, uuid in enumerate(gpu_uuids(nvml)):
        board = nvml.call("nvmlDeviceGetHandleByIndex", index).value
        handles = {uuid: board} if board is not None else {}
        handles |= _slices(nvml, board) if board is not None else {}
        found += [each for name, each in handles.items() if wanted and name.startswith(wanted)]
    return found[0] if len(found) == 1 else None


def _slices(nvml: Nvml, board: Any) -> dict[str, Any]:
    """UUID -> handle of each MIG slice; empty where MIG is off or unknown here."""
    modes, _ = nvml.call("nvmlDeviceGetMigMode", board)
    if not modes or modes[0] != 1:
        return {}
    slices = {}
    for index in range(nvml.call("nvmlDeviceGetMaxMigDeviceCount", board).value or 0):
        handle = nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", board, index).value
        if handle is not None and (uuid := nvml.text("nvmlDeviceGetUUID", handle)):
            slices[uuid] = handle
    return slices


def _describe(nvml: Nvml, handle: Any, machine: Machine, notes: list[Note]) -> GpuDevice:
    uuid = nvml.text("nvmlDeviceGetUUID", handle) or "GPU-unknown"
    board, gpu_instance = handle, None
    if uuid.startswith("MIG-"):
        board = nvml.call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle).value or handle
        gpu_instance = nvml.call("nvmlDeviceGetGpuInstanceId", handle).value
        notes.append(
            Note("mig-board", "clocks, power and throttling are the whole card's, not this MIG slice's", "")
        )
    slices = tuple(_slices(nvml, board))
    if slices and gpu_instance is None:
        text = f"MIG is on ({', '.join(slices)}): CUDA uses one slice only, the readings are of all"
        notes.append(Note("mig-on", text, "name the slice's UUID as the device"))
    memory, status = nvml.memory(handle)
    total_bytes = int(memory.total) if memory is not None and memory.total else None
    unified = total_bytes is None and status in ("ok", "unsupported")
    if unified:
        text = "this GPU shares the system's memory: memory is /proc/meminfo's, of the whole machine"
        notes.append(Note("unified-memory", text, ""))
    if machine.wsl2:
        text = "under WSL2 neither utilization nor the processes on the GPU can be had"
        notes.append(Note("wsl2", text, "run on Linux itself for both"))
    if machine.nested_pids:
        text = "in a container the driver's process ids are the host's: memory by process may be missing"
        notes.append(Note("container-pids", text, "start the container with --pid=host"))
    support, _ = nvml.call("nvmlGpmQueryDeviceSupport", board)
    gpm = support is not None and bool(support.isSupportedDevice)
    if not gpm:
        text = "no GPM on this GPU or driver: SM, tensor and DRAM use cannot be had"
        notes.append(Note("no-gpm", text, ""))
    elif machine.counter_readers:
        text = f"{' and '.join(machine.counter_readers)} may read this GPU's counters too, and disturb GPM's"
        notes.append(Note("counter-readers", text, "stop it while a run lasts, where SM or DRAM use matters"))
    name = nvml.text("nvmlDeviceGetName", board) or "NVIDIA GPU (name unreadable)"
    # A Jetson may hold a graphics card beside its own GPU: the file is of the latter.
    tegra_load = machine.tegra_load if not gpm and (unified or "nvgpu" in name) else None
    if tegra_load is not None:
        text = "NVML tells next to nothing of a Jetson's GPU: its load is the kernel's, and no SM use"
        notes.append(Note("jetson", text, ""))
    return GpuDevice(
        handle=handle,
        board=board,
        uuid=uuid,
        index=nvml.call("nvmlDeviceGetIndex", board).value,
        name=name,
        driver=nvml.text("nvmlSystemGetDriverVersion") or "unknown",
        gpu_instance=gpu_instance,
        mig_slices=slices,
        memory_total_bytes=total_bytes,
        unified_memory=unified,
        gpm=gpm,
        tegra_load=tegra_load,
        machine=machine,
        notes=tuple(notes),
    )


def _no_device(message: str, nvml: Nvml) -> NvmlTrouble:
    there = ", ".join(uuid for uuid in gpu_uuids(nvml) if uuid) or "none"
    return NvmlTrouble(kind="no_device", message=message, advice=f"GPUs here: {there}")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
