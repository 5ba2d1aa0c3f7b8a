"""How a run's processes share the GPU: checked before anything starts, recorded, and seen to be so."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import psutil

from cotenant.conductor.context import MPS, OBSERVER, Run
from cotenant.conductor.plan import used_tenants
from cotenant.conductor.preflight import COMPUTE_EXCLUSIVE, COMPUTE_PROHIBITED, Device
from cotenant.errors import CouldNotRun, UserError
from cotenant.observers.gpu_device import Note
from cotenant.scenario.schema import Scenario, Tenant
from cotenant.scenario.sharing import warnings
from cotenant.tenants import mps
from cotenant.tenants.mps_other import Other, find_other
from cotenant.tenants.reaper_client import Reaper

_CANARY: Final = OBSERVER + "gpu-canary"
_GREEN_CONTEXTS: Final = "no interface shows the green contexts of another process"
_MPS_KINDS: Final = "set sharing: time-slice"
# The canary loads PyTorch first, and is not waited for elsewhere.
_CLIENTS_LIMIT_S: Final = 15.0
_POLL_S: Final = 0.25
# What the GPU observer, where there is one, says only when everything has started.
_EARLY: Final = ("mig-on", "mig-board", "cuda-numbering")
_MIG_COVERAGE: Final = Note(
    "mig-coverage",
    "of a MIG slice NVML tells neither utilization nor what each process uses; SM, tensor and DRAM use come "
    "by GPM, where the driver has it for slices",
    "read `coverage` in the summary before blaming the GPU",
)


def device_notes(scenario: Scenario, device: Device) -> list[dict[str, str]]:
    """What has to be known of the GPU itself before anything starts."""
    told = [note for note in device.notes if note.kind in _EARLY or not scenario.observe.gpu]
    return [note._asdict() for note in (*told, *([_MIG_COVERAGE] if _slice(device) else []))]


def check(scenario: Scenario, device: Device, environ: Mapping[str, str]) -> list[dict[str, str]]:
    """What the user has to know of the mode: kind, text and advice of each.

    Raises UserError and CouldNotRun for a mode that would not start, or would be another one in truth.
    """
    if device.kind == "cpu":
        if scenario.sharing == "mps":
            raise UserError(
                "sharing: mps is a way to share an NVIDIA GPU, and this run is on the CPU; remove it, or use "
                "--set sharing=time-slice"
            )
        return []
    ours = _on_gpu(scenario)
    if device.compute_mode == COMPUTE_PROHIBITED:
        raise CouldNotRun(
            f"{device.name} is in the compute mode `prohibited`: no program may use it; set it back "
            "(sudo nvidia-smi -c DEFAULT)"
        )
    if scenario.sharing == "mps":
        return [*_check_mps(ours, device, find_other(environ)), *warnings(scenario)]
    return list(_check_time_slice(scenario, ours, device, find_other(environ)))


def facts(scenario: Scenario, device: Device) -> dict[str, Any]:
    """The manifest's `sharing`, before a daemon runs."""
    limits = {name: tenant.mps.model_dump(exclude_none=True)
              for name, tenant in _on_gpu(scenario).items() if tenant.mps is not None}  # fmt: skip
    on_gpu = device.kind == "gpu"
    return {
        "mode": scenario.sharing if on_gpu else None,
        "daemon": None,
        "limits": limits if on_gpu else {},
        "mig": {"on": device.mig, "slice": _slice(device)} if on_gpu else None,
        "green_contexts": None,
        "why": {"green_contexts": _GREEN_CONTEXTS} if on_gpu else {"mode": "no NVIDIA GPU"},
    }


async def start(run: Run, reaper: Reaper) -> mps.Daemon | None:
    """The run's own MPS daemon, where it asks for one. Raises CouldNotRun."""
    if run.scenario.sharing != "mps" or run.device.kind != "gpu":
        return None
    run.mark_now("tenant", MPS)
    tenants = _on_gpu(run.scenario).values()
    visible, pin = visible_devices(run.scenario.device, {_device(tenant) for tenant in tenants}, run.device)
    daemon = await mps.start(reaper, log_dir=run.own_logs(), visible=visible, pin=pin)
    told = {"pid": daemon.pid, "visible_devices": visible, "log": "logs/own/mps.log"}
    run.note("sharing", {**run.manifest["sharing"], "daemon": told})
    return daemon


def visible_devices(first: str, wanted: Iterable[str], device: Device) -> tuple[str | None, bool]:
    """CUDA_VISIBLE_DEVICES of the daemon, and whether its clients get the same.

    A client's numbers count from the first of the daemon's. One GPU for all is named by its UUID on both
    sides; with several the daemon gets all of the machine in their order, so that every number keeps its
    meaning.
    """
    if device.gpu is not None and all(_same(one, first, device.gpu) for one in wanted):
        return device.gpu, True
    return (",".join(map(str, range(device.gpu_count))) or None), False


async def verify(run: Run, reaper: Reaper, daemon: mps.Daemon | None) -> None:
    """Raises CouldNotRun where a tenant that should be a client of the daemon is none.

    CUDA says nothing about it: such a process just takes time slices. Call it when all have used the GPU.
    """
    if daemon is None:
        return
    clients, found = await _clients(run, reaper, daemon)
    sharing = dict(run.manifest["sharing"])
    if clients is None:
        sharing["why"] = {**sharing["why"], "clients": "the MPS daemon did not list them"}
    run.note("sharing", {**sharing, "clients": found or None})
    strangers = [name for name, count in found.items() if not count and name != _CANARY]
    if strangers:
        tenant = strangers[0].partition("@")[0]
        raise CouldNotRun(
            f"{', '.join(strangers)} did not become a client of this run's MPS daemon, so sharing: mps would "
            f"not be what is measured; see {run.own_logs() / 'mps.log'}. If {tenant} does not use the GPU, "
            f"set tenants.{tenant}.device: cpu"
        )


async def _clients(
    run: Run, reaper: Reaper, daemon: mps.Daemon
) -> tuple[frozenset[int] | None, dict[str, int]]:
    """All clients by pid, and how many of each child's processes are among them, once each has one."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + _CLIENTS_LIMIT_S
    while True:
        clients = await mps.clients(daemon)
        users = {name: pid for name, pid in reaper.pids().items() if _is_user(run, name)}
        found = {name: len(_family(pid) & (clients or frozenset())) for name, pid in users.items()}
        if clients is None or all(found.values()) or loop.time() >= end_s:
            return clients, {} if clients is None else found
        await asyncio.sleep(_POLL_S)


async def stop(run: Run, reaper: Reaper, daemon: mps.Daemon | None) -> None:
    """Ends the daemon's clients, then the daemon."""
    if daemon is not None:
        await mps.stop(reaper, daemon, [name for name in reaper.pids() if _is_user(run, name)])


def _check_mps(ours: Mapping[str, Tenant], device: Device, other: Other | None) -> Iterator[dict[str, str]]:
    if not ours:
        raise UserError(
            f"sharing: mps needs a tenant that is started here on the GPU; add one, or {_MPS_KINDS}"
        )
    if device.wsl2:
        raise CouldNotRun(f"there is no MPS under WSL2; {_MPS_KINDS}, or run on Linux itself")
    if device.mig:
        raise CouldNotRun(
            f"MIG is on for {device.name}, and a daemon of this run's own for one slice is not supported; "
            f"{_MPS_KINDS}, or turn MIG off (sudo nvidia-smi -mig 0)"
        )
    mps.find_control()
    if other is not None:
        yield {
            "kind": "other-mps-daemon",
            "text": f"{other}: this run uses one of its own; the GPU switches between the clients of the two",
            "advice": f"end it, if nobody needs it: {other.how_to_end}",
        }
    if device.compute_mode == COMPUTE_EXCLUSIVE:
        yield {
            "kind": "exclusive-process",
            "text": "the GPU is in exclusive-process mode: nothing but clients of this run's MPS daemon can "
            "use it, and the daemon cannot where another process does",
            "advice": "sudo nvidia-smi -c DEFAULT, if that is not wanted",
        }


def _check_time_slice(
    scenario: Scenario, ours: Mapping[str, Tenant], device: Device, other: Other | None
) -> Iterator[dict[str, str]]:
    # A tenant that names a daemon itself is meant to be its client.
    unaware = [name for name, tenant in ours.items() if mps.PIPES not in tenant.env]
    if other is not None and unaware:
        raise CouldNotRun(
            f"{other}: {', '.join(unaware)} would become its clients, and sharing: time-slice would not be "
            f"what is measured. End it ({other.how_to_end}), or set {mps.PIPES} to an empty folder for this "
            "run, or set sharing: mps"
        )
    if other is not None:
        yield {
            "kind": "other-mps-daemon",
            "text": f"{other}: services that were started by others may be its clients, which the mode "
            "recorded for this run does not say",
            "advice": f"end it to measure time slices: {other.how_to_end}",
        }
    if device.compute_mode == COMPUTE_EXCLUSIVE and ours:
        raise CouldNotRun(
            f"{device.name} is in exclusive-process mode: only one process can use it at a time; set it back "
            "(sudo nvidia-smi -c DEFAULT), or set sharing: mps"
        )


def _slice(device: Device) -> str | None:
    return device.gpu if device.gpu is not None and device.gpu.startswith("MIG-") else None


def _on_gpu(scenario: Scenario) -> dict[str, Tenant]:
    """The tenants that are started here and not on the CPU, of a scenario resolved for a GPU."""
    used = {name: scenario.tenants[name] for name in used_tenants(scenario)}
    return {name: one for name, one in used.items() if one.engine != "attach" and one.device != "cpu"}


def _device(tenant: Tenant) -> str:
    return tenant.device or "cuda:0"


def _same(one: str, first: str, uuid: str) -> bool:
    """Whether a tenant's device is the run's GPU, whatever CUDA_VISIBLE_DEVICES says."""
    if one.startswith(("GPU-", "MIG-")):
        return uuid.startswith(one)
    return one in ("auto", "gpu", "cuda:0") and first in ("auto", "gpu", "cuda:0")


def _is_user(run: Run, identifier: str) -> bool:
    return identifier == _CANARY or identifier.partition("@")[0] in _on_gpu(run.scenario)


def _family(pid: int) -> set[int]:
    try:
        process = psutil.Process(pid)
        return {pid, *(child.pid for child in process.children(recursive=True))}
    except psutil.Error:
        return {pid}
