"""Whose processes are on the GPU, and how much of its memory each tenant and the others hold."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from cotenant.observers.gpu_device import GpuDevice
from cotenant.observers.nvml import NONE, Nvml, Reading, Status, valid_processes


class ProcessReadings:
    """`processes` counts all on this GPU; `foreign_processes` those that are none of the run's own, with
    their `foreign_memory_bytes` and, as `foreign_changes`, how many came or went since the reading before.
    """

    def __init__(
        self,
        nvml: Nvml,
        device: GpuDevice,
        tenant_of: Callable[[], Mapping[int, str]],
        own_of: Callable[[Collection[int]], Collection[int]] | None,
    ) -> None:
        self._nvml, self._device, self._tenant_of = nvml, device, tenant_of
        # Without it only the tenants' processes are known to be the run's own.
        self._own_of = own_of if own_of is not None else lambda pids: self._tenant_of().keys() & set(pids)
        self._foreign: frozenset[int] | None = None
        self._seen: set[str] = set()

    def take(self) -> dict[str, Reading]:
        """Memory by tenant, how many processes there are, and what is known of others."""
        tenant_of = self._tenant_of()
        names = sorted(set(tenant_of.values()))
        listed, status = self._processes()
        if status == "ok" and self._are_host_pids(listed):
            status = "unsupported"
        used: dict[str, Reading] = {}
        for name in names if status == "ok" else ():
            sizes = [size for pid, size in listed.items() if tenant_of.get(pid) == name]
            if sizes:
                known = [size for size in sizes if size is not None]
                used[name] = Reading(float(sum(known)), "ok") if len(known) == len(sizes) else NONE
                self._seen.add(name)
        # A tenant never seen on this GPU has no row; one that left it, or cannot be seen, one without value.
        gone = names if status != "ok" else [name for name in names if name in self._seen - used.keys()]
        missing = Reading(None, status if status != "ok" else "lost")
        used |= dict.fromkeys(gone, missing)
        told = {f"process_memory_bytes/{name}": reading for name, reading in used.items()}
        return told | self._others(listed, missing if status != "ok" else None)

    def _others(self, listed: Mapping[int, int | None], missing: Reading | None) -> dict[str, Reading]:
        """Who else is on this GPU; `missing`: why that is not known."""
        names = ("processes", "foreign_processes", "foreign_memory_bytes", "foreign_changes")
        if missing is not None:
            self._foreign = None
            return dict.fromkeys(names, missing)
        before, self._foreign = self._foreign, frozenset(listed.keys() - set(self._own_of(listed)))
        sizes = [listed[pid] for pid in self._foreign]
        known = [size for size in sizes if size is not None]
        used = Reading(float(sum(known)), "ok") if len(known) == len(sizes) else NONE
        changes = 0 if before is None else len(before ^ self._foreign)
        readings = (
            Reading(float(len(listed)), "ok"), Reading(float(len(sizes)), "ok"), used,
            Reading(float(changes), "ok"),
        )  # fmt: skip
        return dict(zip(names, readings, strict=True))

    def _processes(self) -> tuple[dict[int, int | None], Status]:
        """pid -> bytes. MPS lists its clients apart."""
        found: dict[int, int | None] = {}
        statuses = []
        for kind in ("Compute", "MPSCompute"):
            listed, status = self._nvml.call(f"nvmlDeviceGet{kind}RunningProcesses", self._device.handle)
            if status == "unsupported":  # a driver without the binding's newest form
                listed, status = self._nvml.call(
                    f"nvmlDeviceGet{kind}RunningProcesses_v2", self._device.handle
                )
            found |= dict(valid_processes(listed or (), self._device.memory_total_bytes))
            statuses.append(status)
        return found, statuses[0] if statuses[0] != "ok" else "ok"

    def _are_host_pids(self, listed: Mapping[int, int | None]) -> bool:
        """Whether the pids cannot be this namespace's: an empty list tells nothing in a container or WSL2."""
        machine = self._device.machine
        if not listed:
            return machine.nested_pids or machine.wsl2
        return machine.nested_pids and not all(Path(f"/proc/{pid}").exists() for pid in listed)
