"""Which cores a run's own processes get: what stamps arrivals shall not wait behind anyone's busy thread.

Nor behind our own observers: on an H200 the driver calls of one NVML reading took 1 to 3 ms each, up to 90.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from cotenant.scenario.schema import Scenario

# Fewer are all needed by the tenants.
FEWEST_CORES: Final = 8
_MOST_OWN: Final = 4
_SHARE: Final = 4
_MOST_LOAD: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Numbers of cores: of the load processes, of what else is ours (observers, conductor), of tenants."""

    load: list[int]
    watch: list[int]
    tenants: list[int]


def split(available: Iterable[int]) -> Split:
    """A quarter of the cores is ours, at most four; half of these or more, at most two, the load processes'.

    Needs FEWEST_CORES.
    """
    cores = sorted(available)
    own = min(_MOST_OWN, len(cores) // _SHARE)
    load = min(_MOST_LOAD, own - 1)
    first = len(cores) - own
    return Split(load=cores[-load:], watch=cores[first:-load], tenants=cores[:first])


def facts(scenario: Scenario, available: Iterable[int]) -> dict[str, Any]:
    """What the manifest says: the cores' numbers by whose they are; None with a reason where all share."""
    cores = list(available)
    if why := _why_shared(scenario, len(cores)):
        rooms = ("load", "watch", "tenants")
        return {**dict.fromkeys(rooms), "why": dict.fromkeys(rooms, why)}
    found = split(cores)
    return {"load": found.load, "watch": found.watch, "tenants": found.tenants, "why": {}}


@contextmanager
def kept_to(cores: list[int] | None) -> Iterator[None]:
    """This thread and what it starts on some cores only, and on the old ones afterwards; None: no change."""
    before = os.sched_getaffinity(0)
    if cores is not None:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        if cores is not None:
            os.sched_setaffinity(0, before)


def _why_shared(scenario: Scenario, count: int) -> str | None:
    if scenario.cores == "shared":
        return "the scenario says cores: shared"
    attached = [name for name, tenant in scenario.tenants.items() if tenant.engine == "attach"]
    if attached:
        return f"{attached[0]} is not started by this run, and where it runs here it may use any core"
    if count < FEWEST_CORES:
        return f"only {count} cores; from {FEWEST_CORES} on our own processes get some of their own"
    return None
