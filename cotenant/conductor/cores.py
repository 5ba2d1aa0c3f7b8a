"""Which cores a run's own processes get: a wake-up shall not wait behind a tenant's busy thread."""

from collections.abc import Iterable
from typing import Any, Final

from cotenant.scenario.schema import Scenario

# Fewer are all needed by the tenants.
FEWEST_CORES: Final = 8
_MOST_OWN: Final = 4
_SHARE: Final = 4


def split(available: Iterable[int]) -> tuple[list[int], list[int]]:
    """The cores of our own processes and those of the tenants: a quarter at most, and at most four."""
    cores = sorted(available)
    own = min(_MOST_OWN, len(cores) // _SHARE)
    return cores[len(cores) - own :], cores[: len(cores) - own]


def facts(scenario: Scenario, available: Iterable[int]) -> dict[str, Any]:
    """What the manifest says: the cores' numbers by whose they are; None with a reason where all share."""
    cores = list(available)
    if why := _why_shared(scenario, len(cores)):
        return {"own": None, "tenants": None, "why": {"own": why, "tenants": why}}
    own, tenants = split(cores)
    return {"own": own, "tenants": tenants, "why": {}}


def _why_shared(scenario: Scenario, count: int) -> str | None:
    if scenario.cores == "shared":
        return "the scenario says cores: shared"
    attached = [name for name, tenant in scenario.tenants.items() if tenant.engine == "attach"]
    if attached:
        return f"{attached[0]} was not started by this run, so it may use any core"
    if count < FEWEST_CORES:
        return f"only {count} cores; from {FEWEST_CORES} on our own processes get some of their own"
    return None
