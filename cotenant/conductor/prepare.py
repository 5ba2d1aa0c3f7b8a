"""A scenario made ready for this machine: read, resolved, its gates checked, before anything is started."""

import os
from collections.abc import Callable, Sequence

from cotenant.conductor.preflight import Device, check_keys, find_device, find_machine
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load
from cotenant.scenario.schema import Scenario
from cotenant.verdict.written_gates import check_gates


def prepare(
    name_or_path: str,
    overrides: Sequence[str],
    *,
    quick: bool,
    tell: Callable[[str], None] = lambda _note: None,
) -> tuple[Scenario, Device]:
    """The resolved scenario and the device it is for. `tell`: of what went with a tenant that was removed.

    Raises UserError and CouldNotRun.
    """
    scenario = load(name_or_path, tuple(overrides), tell=tell)
    check_keys(scenario, os.environ)
    device = find_device(scenario.device)
    resolved = resolve(scenario, device.kind, quick=quick, machine=find_machine(device))
    check_gates(resolved, device.kind)
    return resolved, device
