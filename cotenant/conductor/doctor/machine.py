"""`cotenant doctor` without its words: everything about the machine that a scenario's run depends on."""

import os
import platform
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path

from cotenant import __version__
from cotenant.conductor import sharing
from cotenant.conductor.doctor import gpu_probe, host_probe, service_probe
from cotenant.conductor.doctor.trial import Tell
from cotenant.conductor.doctor.try_attached import try_attached
from cotenant.conductor.plan import used_tenants
from cotenant.conductor.preflight import Device, find_device, find_machine
from cotenant.errors import CotenantError, UserError
from cotenant.observers.gpu_device import find_device as find_gpu
from cotenant.observers.gpu_device import read_machine
from cotenant.observers.nvml_open import NvmlTrouble, open_nvml
from cotenant.report.doctor.facts import MachineFacts, ServiceFacts, Trouble
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load
from cotenant.scenario.memory import fit
from cotenant.scenario.parse import secrets_of
from cotenant.scenario.schema import Scenario
from cotenant.verdict.written_gates import check_gates


def look(
    name_or_path: str,
    overrides: Sequence[str],
    out: Path,
    *,
    limit_ns: int | None = None,
    tell: Tell = lambda _text: None,
) -> MachineFacts:
    """Looks at the machine for a scenario; nothing of it is started.

    `limit_ns`: how long each service that runs already may take to answer one request; None: none is sent.
    `tell`: who is told what is waited for. Raises UserError for a bad scenario, Stopped by a signal.
    """
    scenario = load(name_or_path, tuple(overrides), tell=tell)
    device, device_trouble = _device(scenario)
    gpu_missing = None if device.kind == "gpu" else _why_no_gpu(device)
    resolved, misfit = _resolve(scenario, device)
    check_gates(resolved, device.kind)
    used = {name: resolved.tenants[name] for name in used_tenants(resolved)}
    sharing_trouble, sharing_notes = _sharing(resolved, device)
    memory = None
    if device.kind == "gpu":
        memory = fit(
            resolved,
            used,
            service_probe.models(used),
            total_bytes=device.gpu_total_bytes,
            free_bytes=device.gpu_free_bytes,
        )
    services = service_probe.look(used, secrets_of(resolved, os.environ))
    to_try = [one.name for one in services if one.to_try]
    facts = MachineFacts(
        scenario=resolved.name,
        device_kind=device.kind,
        device_trouble=device_trouble or misfit,
        gpu_missing=gpu_missing,
        gpu=gpu_probe.look(device) if device.kind == "gpu" else None,
        fit=memory,
        host=host_probe.look(out, resolved if device.kind == "cpu" else None),
        sound=host_probe.sound(),
        programs=service_probe.programs(resolved, used, device.kind, llm_auto=_llm_auto(scenario, used)),
        services=(*services, *_unused(resolved, used)),
        sharing=resolved.sharing,
        sharing_trouble=sharing_trouble,
        sharing_notes=sharing_notes,
        versions={
            "cotenant": __version__,
            "python": platform.python_version(),
            "kernel": f"{platform.system()} {platform.release()}",
        },
    )
    if limit_ns is None or not to_try:
        return facts
    # When nothing else of this is at work.
    return replace(facts, tried=try_attached(resolved, scenario, to_try, limit_ns=limit_ns, tell=tell))


def _llm_auto(scenario: Scenario, used: Container[str]) -> bool:
    """Whether the scenario, not resolved, leaves the engine of an LLM to what is found."""
    return any(
        tenant.kind == "completions" and tenant.engine == "auto" and name in used
        for name, tenant in scenario.tenants.items()
    )


def _unused(scenario: Scenario, used: Container[str]) -> tuple[ServiceFacts, ...]:
    what = "attached, but no stage uses it: a run leaves it alone, and so does this"
    return tuple(
        ServiceFacts(name=name, what=what)
        for name, tenant in scenario.tenants.items()
        if tenant.engine == "attach" and name not in used
    )


def _device(scenario: Scenario) -> tuple[Device, Trouble | None]:
    """The device of a run, or the CPU and why the one that the scenario names cannot be had."""
    try:
        return find_device(scenario.device), None
    except CotenantError as error:
        return find_device("cpu"), Trouble(text=str(error))


def _resolve(scenario: Scenario, device: Device) -> tuple[Scenario, Trouble | None]:
    """For this device, or, where it asks for what only a GPU has, for one that is not here, and why.

    Raises UserError.
    """
    try:
        return resolve(scenario, device.kind, machine=find_machine(device)), None
    except UserError as error:
        if device.kind == "gpu":
            raise
        return resolve(scenario, "gpu"), Trouble(text=str(error))


def _why_no_gpu(device: Device) -> Trouble | None:
    """Why NVML shows none; of one that is there, why it is not used."""
    nvml = open_nvml()
    if isinstance(nvml, NvmlTrouble):
        return Trouble(text=nvml.message, advice=nvml.advice)
    try:
        found = find_gpu(nvml, "cuda:0", os.environ, read_machine())
    finally:
        nvml.close()
    if isinstance(found, NvmlTrouble):
        return Trouble(text=found.message, advice=found.advice)
    if device.note is not None:
        return Trouble(
            text=device.note, advice="install a CUDA build: https://pytorch.org/get-started/locally"
        )
    return Trouble(text=f"{found.name} is here, and the scenario asks for the CPU")


def _sharing(scenario: Scenario, device: Device) -> tuple[Trouble | None, tuple[Trouble, ...]]:
    try:
        notes = sharing.check(scenario, device, os.environ)
    except CotenantError as error:
        return Trouble(text=str(error)), ()
    told = [*sharing.device_notes(scenario, device), *notes] if device.kind == "gpu" else notes
    return None, tuple(Trouble(text=note["text"], advice=note["advice"]) for note in told)
