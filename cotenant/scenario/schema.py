"""The scenario as pydantic models: YAML's keys outside, names with units inside, unknown keys refused.

What one field cannot know about another is in `checks`. A model may say `auto`; `auto.resolve` removes it.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PlainValidator, StrictBool, StrictStr, Tag

from cotenant.scenario.frames import Frames
from cotenant.scenario.observe import Observe
from cotenant.scenario.values import (
    Auto,
    Count,
    CountOrAuto,
    Device,
    DurationNs,
    DurationNsOrAuto,
    EnvName,
    Limit,
    LoadName,
    Name,
    PositiveNs,
    PositiveNsOrAuto,
    RatePerS,
    Seed,
    StageName,
    Text,
    Tokens,
    TokensOrAuto,
    Url,
    or_auto,
    whole,
)
from cotenant.scenario.vllm import Vllm

GATE_PROFILES: Final = ("voice", "voice-strict", "face", "llm")
DEFAULT_GATES: Final = ("voice", "face")
PROTOCOLS: Final[dict[str, tuple[str, ...]]] = {
    # The rows of `wire.speech_servers`.
    "speech": (
        "openai", "vllm-omni", "vllm-omni-sse", "vllm-omni-socket", "sglang-omni", "kokoro-fastapi", "xtts",
        "orpheus-fastapi", "pocket-tts", "piper", "cosyvoice", "cosyvoice-f32",
    ),
    "face": ("cotenant", "websocket", "mjpeg"),
    # `openai`: what the server has and takes, found out before anything is measured.
    "completions": ("openai", "completions", "chat"),
}  # fmt: skip
SHAPES: Final[dict[str, tuple[str, ...]]] = {
    "speech": ("tiny", "qwen3-tts-0.6b", "qwen3-tts-1.7b"),
    "face": ("tiny", "ditto"),
    "completions": ("tiny", "llm-8b", "llm-30b-a3b"),
}
# Tokens of prompt and output together that each built-in LLM holds.
CONTEXT_TOKENS: Final = {"tiny": 8_704, "llm-8b": 40_960, "llm-30b-a3b": 40_960}

# Utterances that one built-in speech server may batch.
MOST_VOICES: Final = 64


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Player(_Model):
    """How the simulated player buffers. `quantum_ns`: the sound card's period, 0 for none."""

    start: Literal["prefill", "delay"] = "prefill"
    after_underrun: Literal["resume", "refill", "drop"] = "resume"
    quantum_ns: DurationNs = Field(0, alias="quantum")


class Ready(_Model):
    """When a tenant counts as started: `path` answers 200 within `within_ns`.

    Without a `path` it is /health, and a server that has none is started as soon as it says so.
    """

    path: Annotated[StrictStr, Field(pattern=r"^/[!-~]*$")] | None = None
    within_ns: PositiveNs = Field(300_000_000_000, alias="within")


class Mps(_Model):
    """CUDA MPS limits of one tenant: a share of the SMs in per cent, a priority (1 is below 0)."""

    thread_percentage: Annotated[int, PlainValidator(whole(1, 100))] | None = None
    priority: Annotated[int, PlainValidator(whole(0, 1))] | None = None


class Packets(_Model):
    """Frames of 80 ms in each packet of the built-in speech server: the first, some ramp, then `steady`."""

    first: Count = 1
    steady: Count = 4
    ramp: list[Count] = Field(default_factory=list)


class Tenant(_Model):
    """One service under test. `rate` (Hz) and `sample_format` are for answers that do not tell.
    `ca_file`: whose certificates to trust besides the system's; `insecure`: any.

    From `packets` on for built-in servers. `voices`: utterances that step together, `context_frames`: frames
    that a speech server decodes again before each packet, `step_overhead_ns`: host time of each step besides
    its own, None or auto for the one fitted to the shape.
    """

    kind: Literal["speech", "face", "completions"]
    engine: Literal["builtin", "launch", "attach", "auto"] = "auto"
    shape: StrictStr = "auto"
    replicas: Annotated[int, PlainValidator(whole(1, 64))] = 1
    device: Device | None = None
    url: Url | None = None
    protocol: StrictStr = "auto"
    model: StrictStr | None = None
    voice: StrictStr | None = None
    api_key_env: EnvName | None = None
    ca_file: Annotated[StrictStr, Field(min_length=1)] | None = None
    insecure: StrictBool | None = None
    frames: Frames | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    rate: Annotated[int, PlainValidator(whole(4_000, 192_000))] | None = None
    sample_format: Literal["s16", "f32"] | None = None
    command: list[StrictStr] | None = None
    vllm: Vllm | None = None
    ready: Ready = Field(default_factory=lambda: Ready.model_validate({}))
    env: dict[EnvName, StrictStr] = Field(default_factory=dict)
    mps: Mps | None = None
    packets: Packets | None = None
    threads: Annotated[int, PlainValidator(whole(1, 1024))] | None = None
    mode: Literal["auto", "graphs", "eager"] | None = None
    voices: Annotated[int | Auto, or_auto(whole(1, MOST_VOICES))] | None = None
    step_overhead_ns: DurationNsOrAuto | None = Field(None, alias="step_overhead")
    context_frames: Annotated[int, PlainValidator(whole(0, 1_000))] | None = None


class Voices(_Model):
    """Listeners of a speech tenant. `text`: `builtin`, a file with a sentence a line, or the sentences."""

    tenant: Name
    kind: Literal["voices"]
    mode: Literal["turns", "open", "closed"] = "turns"
    listeners: CountOrAuto = "auto"
    every_ns: PositiveNsOrAuto = Field("auto", alias="every")
    pause_ns: DurationNs = Field(500_000_000, alias="pause")
    text: Text = "builtin"


class Faces(_Model):
    """Listeners with a face: face v is driven by the audio of voice v of the load it `follows`."""

    tenant: Name
    kind: Literal["faces"]
    follows: Name
    listeners: Count = 1
    fps: Annotated[int, PlainValidator(whole(1, 240))] = 25
    pace: Literal["as-arrives", "realtime"] = "as-arrives"
    face_buffer_ns: DurationNs = Field(200_000_000, alias="face_buffer")


class Completions(_Model):
    """LLM requests: `streams` always alive, or `rate_per_s` sent whatever happens. Sizes are in tokens."""

    tenant: Name
    kind: Literal["completions"]
    mode: Literal["alive", "rate"] = "alive"
    streams: CountOrAuto = "auto"
    rate_per_s: RatePerS | None = Field(None, alias="rate")
    prompt: TokensOrAuto = "auto"
    output: Tokens = 400


Load = Annotated[Voices | Faces | Completions, Field(discriminator="kind")]


class Stage(_Model):
    """One stage of the ladder: the loads that run in it."""

    name: StageName
    load: Annotated[list[Name], Field(min_length=1)]
    baseline: StrictBool = False


class Timing(_Model):
    """How long a stage's phases last and how the ladder is walked."""

    settle_ns: DurationNs = Field(3_000_000_000, alias="settle")
    settle_limit_ns: PositiveNs = Field(60_000_000_000, alias="settle_limit")
    measure_ns: PositiveNsOrAuto = Field("auto", alias="measure")
    extend_ns: DurationNsOrAuto = Field("auto", alias="extend")
    solo_ns: DurationNsOrAuto = Field("auto", alias="solo")
    stall_limit_ns: PositiveNs = Field(10_000_000_000, alias="stall_limit")
    request_limit_ns: PositiveNs = Field(600_000_000_000, alias="request_limit")
    rounds: Annotated[int, PlainValidator(whole(1, 100))] = 1
    order: Literal["ladder", "shuffled"] = "ladder"


class Gate(_Model):
    """A limit on one metric, a path inside a stage's entry of summary.json; without `stages`, of all."""

    metric: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_.-]+$")]
    op: Literal["<=", ">=", "<", ">"]
    limit: Limit
    stages: list[StageName] | None = None
    level: Literal["fail", "warn"] = "fail"


def _gate_tag(value: object) -> str:
    return "text" if isinstance(value, str) else "gate"


GateItem = Annotated[
    Annotated[StrictStr, Tag("text")] | Annotated[Gate, Tag("gate")],
    Discriminator(_gate_tag),
]


def _default_gates() -> list[str | Gate]:
    return list(DEFAULT_GATES)


class Scenario(_Model):
    """A whole scenario, as `load.load` or `load.parse` return it: both run the cross checks too."""

    name: Name
    about: StrictStr = ""
    device: Device = "auto"
    sharing: Literal["time-slice", "mps"] = "time-slice"
    # own: the load processes and observers have cores of their own, where there are enough.
    cores: Literal["own", "shared"] = "own"
    seed: Seed = 7
    lookahead_ns: DurationNs = Field(400_000_000, alias="lookahead")
    player: Player = Field(default_factory=lambda: Player.model_validate({}))
    tenants: Annotated[dict[Name, Tenant], Field(min_length=1)]
    load: Annotated[dict[LoadName, Load], Field(min_length=1)]
    stages: Annotated[list[Stage], Field(min_length=1)]
    timing: Timing = Field(default_factory=lambda: Timing.model_validate({}))
    observe: Observe = Field(default_factory=Observe)
    gate: list[GateItem] = Field(default_factory=_default_gates)
    decision: Literal["interval", "point", "auto"] = "auto"
