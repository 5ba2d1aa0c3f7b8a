"""Looks at the GPU that a run would use: the GPU observer itself for a second, and how several are linked."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from cotenant.conductor.preflight import Device
from cotenant.observers.nvml import Nvml
from cotenant.observers.nvml_open import NvmlTrouble, open_nvml
from cotenant.records import SCHEMA_VERSION
from cotenant.report.doctor.facts import GpuFacts, Trouble
from cotenant.run_dir import manifest
from cotenant.run_dir.reader import read
from cotenant.verdict.implausible import mark_implausible

OBSERVER = (sys.executable, "-m", "cotenant.observers.gpu")
# Long enough for two of its slow readings, one a second.
_OBSERVE_S: Final = 2.3
_READY_LIMIT_S: Final = 30.0
_END_LIMIT_S: Final = 10.0
# nvmlGpuTopologyLevel_t of nvml.h
_LEVELS: Final = {
    0: "on one board",
    10: "one PCIe switch between",
    20: "PCIe switches between",
    30: "a PCIe host bridge between",
    40: "on one NUMA node",
    50: "on different NUMA nodes",
}
_P2P_NVLINK: Final = 2  # NVML_P2P_CAPS_INDEX_NVLINK
_P2P_OK: Final = 0


def look(device: Device) -> GpuFacts:
    """All of it, of the GPU that preflight found."""
    ready, readings, trouble = _observe(device.gpu or "cuda:0")
    count, numa_node, others, links = _machine(device.gpu)
    return GpuFacts(
        name=device.name,
        uuid=device.gpu,
        driver=ready.get("driver"),
        total_bytes=device.gpu_total_bytes,
        free_bytes=device.gpu_free_bytes,
        count=count or device.gpu_count,
        numa_node=numa_node,
        gpm=bool(ready.get("gpm")),
        readings=readings,
        observer_trouble=trouble,
        notes=tuple(Trouble(text=note.text, advice=note.advice) for note in device.notes),
        others=others,
        links=links,
    )


def _observe(gpu: str) -> tuple[dict[str, Any], dict[str, str], Trouble | None]:
    """The observer's ready line, metric -> status, and why there are none."""
    with tempfile.TemporaryDirectory(prefix="cotenant-doctor-") as folder:
        command = [*OBSERVER, "--run-dir", folder, "--gpu", gpu, "--run-pid", str(os.getpid())]
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as error:
            return {}, {}, Trouble(text=f"the GPU observer does not start ({error.strerror})")
        try:
            assert process.stdout is not None
            ready = _ready_line(process)
            if not ready.get("ready"):
                text = f"the GPU observer does not start: {ready.get('message', 'it says nothing')}"
                return {}, {}, Trouble(text=text, advice=str(ready.get("advice", "")))
            time.sleep(_OBSERVE_S)
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_END_LIMIT_S)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()
        return ready, _statuses(Path(folder)), None


def _ready_line(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """What it printed first; empty where it ended or said nothing in time."""
    timer = threading.Timer(_READY_LIMIT_S, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        line = json.loads(process.stdout.readline() or b"{}")
        return line if isinstance(line, dict) else {}
    except ValueError:
        return {}
    finally:
        timer.cancel()


def _statuses(run_dir: Path) -> dict[str, str]:
    """Metric -> `ok` where any of its rows has a value, else the status of the last one."""
    statuses: dict[str, str] = {}
    manifest.write(run_dir, {"schema": SCHEMA_VERSION, "tool": manifest.TOOL})
    table = mark_implausible(read(run_dir)).tables["gpu"]
    for name, status in zip(table["metric"].to_pylist(), table["status"].to_pylist(), strict=True):
        if statuses.get(name) != "ok":
            statuses[name] = status
    return statuses


def _machine(uuid: str | None) -> tuple[int, int | None, tuple[str, ...], tuple[str, ...]]:
    """How many GPUs, the NUMA node of this one, what they are, how each two are linked."""
    nvml = open_nvml()
    if isinstance(nvml, NvmlTrouble):
        return 0, None, (), ()
    try:
        count = nvml.call("nvmlDeviceGetCount").value or 0
        boards = [nvml.call("nvmlDeviceGetHandleByIndex", index).value for index in range(count)]
        names = [nvml.text("nvmlDeviceGetUUID", board) or "" for board in boards]
        mine = next((board for board, name in zip(boards, names, strict=True) if name == uuid), None)
        shown = tuple(f"{index} {_describe(nvml, board)}" for index, board in enumerate(boards))
        return count, _numa_node(nvml, mine or (boards[0] if boards else None)), shown, _links(nvml, boards)
    finally:
        nvml.close()


def _describe(nvml: Nvml, board: Any) -> str:
    memory = nvml.memory(board).value
    free = "" if memory is None else f", {(memory.total - memory.used) / 2**30:.0f} GiB free"
    return f"{nvml.text('nvmlDeviceGetName', board) or 'a GPU'}{free}"


def _numa_node(nvml: Nvml, board: Any) -> int | None:
    """As the kernel has it for the PCIe device; None where it knows none (-1)."""
    address = None if board is None else nvml.call("nvmlDeviceGetPciInfo", board).value
    if address is None:
        return None
    bus = address.busId
    name = (bus.decode() if isinstance(bus, bytes) else str(bus)).lower()
    # NVML writes eight digits of the domain, the kernel four.
    path = Path("/sys/bus/pci/devices") / name[-12:] / "numa_node"
    try:
        node = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _links(nvml: Nvml, boards: list[Any]) -> tuple[str, ...]:
    links = []
    for first in range(len(boards)):
        for second in range(first + 1, len(boards)):
            pair = (boards[first], boards[second])
            level = nvml.call("nvmlDeviceGetTopologyCommonAncestor", *pair).value
            nvlink = nvml.call("nvmlDeviceGetP2PStatus", *pair, _P2P_NVLINK).value
            how = "NVLink" if nvlink == _P2P_OK and nvlink is not None else _LEVELS.get(level, "not known")
            links.append(f"{first}-{second} {how}")
    return tuple(links)
