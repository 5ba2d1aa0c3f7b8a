"""A scenario made ready for this machine: read, resolved, its gates checked, before anything is started."""

import os
from collections.abc import Sequence

from cotenant.conductor.preflight import Device, check_keys, find_device, find_machine
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load
from cotenant.scenario.schema import Scenario
from cotenant.verdict.written_gates import check_gates


def prepare(name_or_path: str, overrides: Sequence[str], *, quick: bool) -> tuple[Scenario, Device]:
    """The resolved scenario and the device it is for. Raises UserError and CouldNotRun."""
    scenario = load(name_or_path, tuple(overrides))
    check_keys(scenario, os.environ)
    device = find_device(scenario.device)
    resolved = resolve(scenario, device.kind, quick=quick, machine=find_machine(device))
    check_gates(resolved, device.kind)
    return resolved, device
