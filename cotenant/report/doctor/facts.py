"""What `cotenant doctor` found out about a machine: facts, before anybody says what they mean.

None stands for what could not be found out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cotenant.scenario.memory import Fit
from cotenant.secret_forms import by_form


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that would end a run, or that its user has to know; `advice` is what mends it."""

    text: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """Of the GPU that a run would use. `readings`: metric -> its status (`ok`, `unsupported`, ...) as the GPU
    observer got it; `ready` False with `trouble` where the observer did not start."""

    name: str
    uuid: str | None
    driver: str | None
    total_bytes: int | None
    free_bytes: int | None
    count: int
    numa_node: int | None = None
    gpm: bool = False
    readings: Mapping[str, str] = field(default_factory=dict)
    observer_trouble: Trouble | None = None
    notes: tuple[Trouble, ...] = ()
    others: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Of the machine beside its GPU. `realtime`: whether SCHED_FIFO was had; `governors` of all cores;
    `pair_bracket_ns`: how closely wall and monotonic clock can be read together; `kernel_stamps`: whether
    reads on loopback were stamped by the kernel; `stamp_lag_ns`: how long before the read."""

    cores: int
    cpu_name: str
    load_average: float | None = None
    governors: tuple[str, ...] = ()
    numa_nodes: int | None = None
    realtime: bool = False
    clock_source: str | None = None
    clock_step_ns: int | None = None
    pair_bracket_ns: int | None = None
    kernel_stamps: bool | None = None
    stamp_lag_ns: int | None = None
    free_disk_bytes: int | None = None
    disk_trouble: Trouble | None = None
    memory_trouble: Trouble | None = None
    available_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Something installed or not; `use` says what it gives, `get` is the command that gets it. `needed`: the
    scenario does not run without it; `concerns`: a run of it would use it; `lacking`: what is said where it
    was not found."""

    name: str
    found: str | None
    use: str
    get: str
    needed: bool = False
    concerns: bool = False
    lacking: str = "not here"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundFacts:
    """`importable` False: the library is missing, `why` says which; `devices` that play."""

    importable: bool
    devices: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    """Of one tenant: how it would be started, and what stands in its way. `to_try`: it runs already, so that
    a request to it is the proof."""

    name: str
    what: str
    to_try: bool = False
    trouble: Trouble | None = None
    key_trouble: Trouble | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Why a service did not answer as it should; `kind` is one of `records.ERROR_KINDS`."""

    kind: str
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Smallest, median and largest of something."""

    least: float
    median: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One service after one request. `told` are sentences of what was found out, `notes` what its user has to
    know, `missing` what a run would fail by all the same; `measured` numbers by name (units in names; None:
    not known), `settings` what belongs into a scenario's tenant. `context_tokens` of an LLM. `beside`: the
    tenants that were tried at the same time.
    """

    tenant: str
    kind: str
    url: str
    failed: Failed | None = None
    told: tuple[str, ...] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    context_tokens: int | None = None
    notes: tuple[Trouble, ...] = ()
    missing: tuple[Trouble, ...] = ()
    beside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # A server's own words are in it.
        object.__setattr__(self, "told", tuple(by_form(text) for text in self.told))


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Everything. `device_kind`: what a run would use; `gpu_missing`: why there is no GPU; `tried`: those of
    the attached services that were sent a request."""

    scenario: str
    device_kind: str
    device_trouble: Trouble | None
    gpu_missing: Trouble | None
    gpu: GpuFacts | None
    fit: Fit | None
    host: HostFacts
    sound: SoundFacts
    programs: tuple[Program, ...]
    services: tuple[ServiceFacts, ...]
    sharing: str
    tried: tuple[Tried, ...] = ()
    sharing_trouble: Trouble | None = None
    sharing_notes: tuple[Trouble, ...] = ()
    versions: Mapping[str, Any] = field(default_factory=dict)
