"""Which processes are the run's own, and which tenant each belongs to: looked up now and then in /proc."""

import time
from collections.abc import Collection, Mapping
from typing import Final

from cotenant.observers.host import Process, read_processes, tenant_of_root, trees
from cotenant.units import NS_PER_S

_SCAN_NS: Final = 5 * NS_PER_S
_RUN: Final = ""


class Kin:
    """The processes below some roots: `tenants` by id (a replica's is `tenant@number`), and `run`,
    which all processes of the run descend from; None where that is not known.

    All of /proc is read every few seconds, and at once where a pid is met that was never seen before.
    """

    def __init__(self, tenants: Mapping[str, int], run: int | None = None) -> None:
        self._tenants, self._run = tenants, run
        self._tenant_of: dict[int, str] = {}
        # A process that has ended may still be on the driver's list: once our own, always our own.
        self._own: set[int] = set()
        self._strangers: set[int] = set()
        self._scan_ns = 0

    def tenants(self) -> Mapping[int, str]:
        """pid -> tenant."""
        if self._tenants and time.monotonic_ns() >= self._scan_ns:
            self._scan()
        return self._tenant_of

    def own(self, pids: Collection[int]) -> set[int]:
        """Those of `pids` that are processes of this run."""
        met = set(pids)
        if met - self._own - self._strangers:
            self._scan()
        self._strangers = met - self._own
        return met & self._own

    def _scan(self) -> None:
        self._scan_ns = time.monotonic_ns() + _SCAN_NS
        processes: list[Process] = read_processes()
        found = trees(self._tenants, processes)
        self._tenant_of = {
            process.pid: tenant_of_root(name) for name, tree in found.items() for process in tree
        }
        self._own |= self._tenant_of.keys()
        if self._run is not None:
            self._own |= {process.pid for process in trees({_RUN: self._run}, processes)[_RUN]}
