"""What the facts about a machine beside its GPU mean for a run. Pure."""

from collections.abc import Iterator
from typing import Final

from cotenant.report.doctor.facts import HostFacts, SoundFacts
from cotenant.report.doctor.finding import Finding, Word, told
from cotenant.scenario.memory import gib_text
from cotenant.units import NS_PER_MS

_AUDIO_BYTES: Final = 500_000_000
_LEAST_DISK_BYTES: Final = 100_000_000
_GOOD_DISK_BYTES: Final = 2 * _AUDIO_BYTES
# Clients, observers and servers on fewer cores than these wait for one another.
_GOOD_CORES: Final = 4
_SLOW_CLOCKS: Final = ("hpet", "acpi_pm", "jiffies", "refined-jiffies")
_BUSY: Final = 0.5


def host(facts: HostFacts) -> Iterator[Finding]:
    """Cores, memory, priorities, clocks, disk."""
    yield from _cpu(facts)
    yield from _clock(facts)
    yield from _disk(facts)


def _cpu(host: HostFacts) -> Iterator[Finding]:
    few = host.cores < _GOOD_CORES
    text = f"{host.cores} cores ({host.cpu_name})"
    tail = f": fewer than {_GOOD_CORES}, so clients and servers wait for one another" if few else ""
    yield Finding(topic="CPU", word="note" if few else "ok", text=text + tail)
    if host.load_average is not None and host.load_average > _BUSY * host.cores:
        text = f"load average {host.load_average:.1f} on {host.cores} cores: others are at work"
        yield Finding(topic="CPU", word="note", text=text, advice="measure when they are done")
    if host.governors and set(host.governors) != {"performance"}:
        text = f"CPU governor {', '.join(host.governors)}: the clock follows the load, with a delay"
        advice = "sudo cpupower frequency-set -g performance"
        yield Finding(topic="CPU", word="note", text=text, advice=advice)
    elif host.governors:
        yield Finding(topic="CPU", word="ok", text="CPU governor performance")
    else:
        yield Finding(topic="CPU", word="ok", text="no CPU governor can be seen here (a virtual machine?)")
    if host.numa_nodes is not None and host.numa_nodes > 1:
        text = f"{host.numa_nodes} NUMA nodes"
        advice = "numactl --cpunodebind=N --membind=N cotenant run ..., N that of the GPU"
        yield Finding(topic="NUMA", word="note", text=text, advice=advice)
    if host.memory_trouble is not None:
        yield told("RAM", "missing", host.memory_trouble)
    elif host.available_bytes is not None:
        yield Finding(topic="RAM", word="ok", text=f"{gib_text(host.available_bytes)} available")
    if host.realtime:
        yield Finding(topic="realtime", word="ok", text="clients may have real-time priority (SCHED_FIFO)")
    else:
        yield Finding(
            topic="realtime",
            word="note",
            text="no real-time priority: on busy cores our own sends and reads can be late",
            advice="sudo prlimit --pid $$ --rtprio=1, or a container with --cap-add=SYS_NICE",
        )


def _clock(host: HostFacts) -> Iterator[Finding]:
    slow = host.clock_source in _SLOW_CLOCKS
    parts = [f"steps of {host.clock_step_ns} ns"] if host.clock_step_ns is not None else []
    parts += [f"read with the wall clock within {host.pair_bracket_ns} ns"] if host.pair_bracket_ns else []
    source = f" ({host.clock_source})" if host.clock_source else ""
    text = f"CLOCK_MONOTONIC{source}: {', '.join(parts) or 'works'}"
    yield Finding(
        topic="clock", word="note" if slow else "ok", text=text + (": slow to read" if slow else "")
    )
    if host.kernel_stamps:
        lag = (
            ""
            if host.stamp_lag_ns is None
            else f", here {host.stamp_lag_ns / NS_PER_MS:.3f} ms before the read"
        )
        yield Finding(topic="clock", word="ok", text=f"the kernel stamps what arrives{lag}")
    else:
        text = "the kernel does not stamp what arrives: arrivals are as late as our own reads"
        yield Finding(topic="clock", word="note", text=text)


def _disk(host: HostFacts) -> Iterator[Finding]:
    if host.disk_trouble is not None:
        yield told("disk", "missing", host.disk_trouble)
        return
    if host.free_disk_bytes is None:
        return
    word: Word = "ok"
    if host.free_disk_bytes < _GOOD_DISK_BYTES:
        word = "missing" if host.free_disk_bytes < _LEAST_DISK_BYTES else "note"
    text = f"{gib_text(host.free_disk_bytes)} free where runs are written; a run takes up to about 1 GiB"
    yield Finding(topic="disk", word=word, text=text, advice="" if word == "ok" else "--out DIR elsewhere")


def sound(facts: SoundFacts) -> Iterator[Finding]:
    """Whether `listen` can play, which no run does."""
    use = "`cotenant listen` plays runs; without it, --wav FILE writes them"
    word: Word = "note"
    text, advice = f"no sound device that plays: {use}", ""
    if not facts.importable:
        text = f"{facts.why or 'PortAudio is not here'}: {use}"
        advice = "sudo apt install libportaudio2"
    elif facts.devices:
        word, text = "ok", f"plays on {facts.devices[0]}"
    yield Finding(topic="sound", word=word, text=text, advice=advice, concerns=False)
