"""What the facts about a machine mean for a run: findings, each `ok`, `note` or `missing`. Pure."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from cotenant.report.doctor.facts import GpuFacts, MachineFacts, Program
from cotenant.report.doctor.finding import Finding, Word, told
from cotenant.report.doctor.host import host, sound
from cotenant.report.doctor.tried import service_findings
from cotenant.scenario.memory import Fit, Need, gib_text


def findings(facts: MachineFacts) -> list[Finding]:
    """All of them, in the order in which they matter."""
    return [
        *_device(facts),
        *_memory(facts.fit),
        *_sharing(facts),
        *_services(facts),
        *_programs(facts.programs),
        *host(facts.host),
        *sound(facts.sound),
    ]


def can_run(found: list[Finding]) -> bool:
    """Whether nothing that the scenario needs is missing."""
    return all(one.word != "missing" for one in found)


def to_json(facts: MachineFacts, found: list[Finding]) -> dict[str, Any]:
    """The object that `doctor --json` prints."""
    return {
        "schema": 1,
        "scenario": facts.scenario,
        "device_kind": facts.device_kind,
        "can_run": can_run(found),
        "findings": [asdict(one) for one in found],
        "facts": asdict(facts),
    }


def _device(facts: MachineFacts) -> Iterator[Finding]:
    gpu = facts.gpu
    if facts.device_trouble is not None:
        yield told("device", "missing", facts.device_trouble)
    elif facts.device_kind == "cpu":
        why = "" if facts.gpu_missing is None else f" ({facts.gpu_missing.text})"
        text = f"no GPU is used{why}: the scenario runs on the CPU, which tells nothing about a GPU"
        yield Finding(
            topic="device",
            word="note",
            text=text,
            advice=facts.gpu_missing.advice if facts.gpu_missing else "",
        )
    if gpu is not None:
        yield from _gpu(gpu)


def _gpu(gpu: GpuFacts) -> Iterator[Finding]:
    where = f", {gpu.uuid}" if gpu.uuid else ""
    yield Finding(topic="device", word="ok", text=f"{gpu.name}{where}")
    if gpu.driver is not None:
        yield Finding(topic="driver", word="ok", text=f"NVIDIA driver {gpu.driver}")
    if gpu.observer_trouble is not None:
        yield told("NVML", "note", gpu.observer_trouble)
    elif gpu.readings:
        yield from _coverage(gpu)
    for note in gpu.notes:
        yield told("GPU", "note", note)
    if gpu.numa_node is not None:
        yield Finding(topic="NUMA", word="ok", text=f"the GPU hangs on NUMA node {gpu.numa_node}")
    if gpu.count > 1:
        text = f"{gpu.count} GPUs: " + "; ".join(gpu.others)
        yield Finding(topic="GPUs", word="ok", text=text)
        if gpu.links:
            yield Finding(topic="links", word="ok", text="; ".join(gpu.links))


def _coverage(gpu: GpuFacts) -> Iterator[Finding]:
    """What the observer read in a second or so, GPM's metrics apart."""
    gpm = {name: status for name, status in gpu.readings.items() if name in GPM_METRICS}
    for topic, readings in (("NVML", _without(gpu.readings, gpm)), ("GPM", gpm)):
        lacking = [f"{name} ({status})" for name, status in sorted(readings.items()) if status != "ok"]
        count = f"{len(readings) - len(lacking)} of {len(readings)} readings come"
        if readings and not lacking:
            yield Finding(topic=topic, word="ok", text=count)
        elif topic == "GPM" and not gpu.gpm:
            continue  # the observer's own note says it
        elif readings:
            text = f"{count}; not: {', '.join(lacking)}"
            yield Finding(topic=topic, word="note", text=text)


GPM_METRICS: Final = (
    "sm_percent", "sm_occupancy_percent", "tensor_percent", "dram_percent", "pcie_tx_mib_per_s",
    "pcie_rx_mib_per_s",
)  # fmt: skip


def _without(readings: Any, others: Any) -> dict[str, str]:
    return {name: status for name, status in readings.items() if name not in others}


def _memory(fit: Fit | None) -> Iterator[Finding]:
    if fit is None or not fit.needs:
        return
    for need in fit.needs:
        amount = gib_text(need.need_bytes)
        word: Word = "note" if need.need_bytes is None else "ok"
        yield Finding(topic="memory", word=word, text=f"{need.tenant} takes {amount} ({need.text})")
        yield from _share(need)
    have = f"{gib_text(fit.free_bytes)} of {gib_text(fit.total_bytes)} are free now"
    if fit.fits:
        text = f"all together {gib_text(fit.need_bytes)}: fits, {have}"
        yield Finding(topic="memory", word="ok", text=text)
    elif fit.fits is None:
        yield Finding(topic="memory", word="note", text=f"whether all fits is not known; {have}")
    else:
        known = sum(need.need_bytes or 0 for need in fit.needs)
        yield Finding(
            topic="memory",
            word="missing",
            text=f"all together {gib_text(known)}: does not fit, {have}",
            advice="end what holds memory (nvidia-smi shows it), lower gpu_memory_utilization, or take a "
            "smaller model",
        )


def _share(need: Need) -> Iterator[Finding]:
    """What is right and what is wrong with the share of a vLLM."""
    claim, least, largest = need.claim_share, need.least_share, need.largest_share
    if claim is None or largest is None:
        return
    head = f"{need.tenant}: gpu_memory_utilization {claim:g}"
    field = f"tenants.{need.tenant}.vllm.gpu_memory_utilization"
    if claim > largest:
        enough = (
            "" if least is None else f", {least:g} would do" if least <= largest else f", {least:g} needed"
        )
        yield Finding(
            topic="memory",
            word="missing",
            text=f"{head} is too much: {largest:g} is the largest that fits beside the others{enough}",
            advice=f"--set {field}={largest:g}" if least is None or least <= largest else "a smaller model",
        )
    elif least is not None and claim < least:
        fits = (
            f"--set {field}={least:g}" if least <= largest else "a smaller model, or fewer or shorter prompts"
        )
        yield Finding(
            topic="memory", word="missing", text=f"{head} is too little: {least:g} is needed", advice=fits
        )
    else:
        needed = "" if least is None else f", {least:g} is needed"
        text = f"{head} fits: up to {largest:g} does{needed}"
        yield Finding(topic="memory", word="ok", text=text)


def _sharing(facts: MachineFacts) -> Iterator[Finding]:
    if facts.sharing_trouble is not None:
        yield told("sharing", "missing", facts.sharing_trouble)
    elif facts.device_kind == "gpu":
        yield Finding(topic="sharing", word="ok", text=facts.sharing)
    for note in facts.sharing_notes:
        yield told("sharing", "note", note)


def _services(facts: MachineFacts) -> Iterator[Finding]:
    tried = {one.tenant: one for one in facts.tried}
    for one in facts.services:
        if one.trouble is not None:
            yield told(one.name, "missing", one.trouble)
        else:
            yield Finding(topic=one.name, word="ok", text=one.what)
        if one.key_trouble is not None:
            yield told(one.name, "missing", one.key_trouble)
        if one.name in tried:
            yield from service_findings(tried[one.name])
        elif one.to_try:
            text = "no request was sent: that it does what the scenario asks for is not known"
            yield Finding(topic=one.name, word="note", text=text)


def _programs(programs: tuple[Program, ...]) -> Iterator[Finding]:
    for one in programs:
        concerns = one.needed or one.concerns
        if one.found is not None:
            yield Finding(topic=one.name, word="ok", text=f"{one.found}: {one.use}", concerns=concerns)
        elif one.needed:
            yield Finding(topic=one.name, word="missing", text=f"{one.lacking}: {one.use}", advice=one.get)
        else:
            text = f"{one.lacking}, and not needed by this scenario: {one.use}"
            yield Finding(topic=one.name, word="note", text=text, advice=one.get, concerns=concerns)
