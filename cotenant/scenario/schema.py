"""The scenario as pydantic models: YAML's keys outside, names with units inside, unknown keys refused.

What one field cannot know about another is in `checks`. A model may say `auto`; `auto.resolve` removes it.
"""

from typing import Annotated, Final, Literal

from pydantic import Discriminator, Field, PlainValidator, StrictBool, StrictStr, Tag

from cotenant.scenario.loads import Completions, Faces, Load, Voices
from cotenant.scenario.model import Model
from cotenant.scenario.observe import Observe
from cotenant.scenario.tenant import MOST_VOICES, Mps, Packets, Ready, Tenant
from cotenant.scenario.values import (
    Device,
    DurationNs,
    DurationNsOrAuto,
    Limit,
    LoadName,
    Name,
    PositiveNs,
    PositiveNsOrAuto,
    Seed,
    StageName,
    Whole,
)

__all__ = [
    "CONTEXT_TOKENS", "DEFAULT_GATES", "GATE_PROFILES", "MOST_VOICES", "PROTOCOLS", "SHAPES",
    "Completions", "Faces", "Gate", "GateItem", "Load", "Mps", "Packets", "Player", "Ready", "Scenario",
    "Stage", "Tenant", "Timing", "Voices",
]  # fmt: skip

GATE_PROFILES: Final = ("voice", "voice-strict", "face", "llm")
DEFAULT_GATES: Final = ("voice", "face")
PROTOCOLS: Final[dict[str, tuple[str, ...]]] = {
    # The rows of `wire.speech_servers`.
    "speech": (
        "openai", "vllm-omni", "vllm-omni-sse", "vllm-omni-socket", "sglang-omni", "sglang-omni-socket",
        "kokoro-fastapi", "xtts", "orpheus-fastapi", "pocket-tts", "piper", "cosyvoice", "cosyvoice-f32",
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


class Player(Model):
    """How the simulated player buffers. `quantum_ns`: the sound card's period, 0 for none."""

    start: Literal["prefill", "delay"] = Field(
        "prefill",
        description="Playback starts when the lookahead is full, or that long after its first sound.",
    )
    after_underrun: Literal["resume", "refill", "drop"] = Field(
        "resume", description="After running dry: go on, refill first, or drop what came too late."
    )
    quantum_ns: DurationNs = Field(0, alias="quantum", description="The sound card's period, 0 for none.")


class Stage(Model):
    """One stage of the ladder: the loads that run in it."""

    name: StageName = Field(description="What it is called in tables and gates.")
    load: Annotated[list[Name], Field(min_length=1)] = Field(description="The loads that run in it.")
    baseline: StrictBool = Field(False, description="Whether the other stages are compared with it.")


class Timing(Model):
    """How long a stage's phases last and how the ladder is walked."""

    settle_ns: DurationNs = Field(
        3_000_000_000, alias="settle", description="How long each stage runs at least before it is measured."
    )
    settle_limit_ns: PositiveNs = Field(
        60_000_000_000, alias="settle_limit", description="A stage that has not settled by then is INVALID."
    )
    measure_ns: PositiveNsOrAuto = Field(
        "auto", alias="measure", description="How long each stage is measured."
    )
    extend_ns: DurationNsOrAuto = Field(
        "auto", alias="extend", description="How much longer it may be measured while a gate is undecided."
    )
    solo_ns: DurationNsOrAuto = Field(
        "auto",
        alias="solo",
        description="How long each load but the voices is measured by itself; 0s: not.",
    )
    stall_limit_ns: PositiveNs = Field(
        10_000_000_000,
        alias="stall_limit",
        description="A voice or face without a byte for so long is given up.",
    )
    request_limit_ns: PositiveNs = Field(
        600_000_000_000, alias="request_limit", description="An LLM request is given up after that."
    )
    rounds: Annotated[int, PlainValidator(Whole(1, 100))] = Field(
        1, description="How often the stages are walked through."
    )
    order: Literal["ladder", "shuffled"] = Field(
        "ladder", description="Whether they come as listed, or in an order of the seed's."
    )


class Gate(Model):
    """A limit on one metric, a path inside a stage's entry of summary.json; without `stages`, of all."""

    metric: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_.-]+$")] = Field(
        description="Its path in a stage's entry of summary.json, as in speech.ttfa_ms.p95."
    )
    op: Literal["<=", ">=", "<", ">"] = Field(description="How the metric must be to the limit.")
    limit: Limit = Field(description="The limit, as in 0.95, 95 % or 500ms.")
    stages: list[StageName] | None = Field(None, description="The stages it is for; without it all.")
    level: Literal["fail", "warn"] = Field("fail", description="Whether missing it fails the run.")


def _gate_tag(value: object) -> str:
    return "text" if isinstance(value, str) else "gate"


GateItem = Annotated[
    Annotated[StrictStr, Tag("text")] | Annotated[Gate, Tag("gate")],
    Discriminator(_gate_tag),
]


def _default_gates() -> list[str | Gate]:
    return list(DEFAULT_GATES)


class Scenario(Model):
    """A whole scenario, as `load.load` or `load.parse` return it: both run the cross checks too."""

    name: Name = Field(description="What it is called; without it the file's name.")
    about: StrictStr = Field("", description="What it is for, in a sentence.")
    device: Device = Field("auto", description="Where the tenants run; auto: the first GPU, else the CPU.")
    sharing: Literal["time-slice", "mps"] = Field(
        "time-slice", description="How they share a GPU: in turns, or at once through CUDA MPS."
    )
    cores: Literal["own", "shared"] = Field(
        "own", description="Whether our own processes have cores of their own, where there are enough."
    )
    seed: Seed = Field(7, description="What all that is random follows from.")
    lookahead_ns: DurationNs = Field(
        400_000_000, alias="lookahead", description="How much sound the player buffers before it starts."
    )
    player: Player = Field(
        default_factory=lambda: Player.model_validate({}), description="How the simulated player buffers."
    )
    tenants: Annotated[dict[Name, Tenant], Field(min_length=1)] = Field(
        description="The services under test, by a name of yours; null removes an inherited one."
    )
    load: Annotated[dict[LoadName, Load], Field(min_length=1)] = Field(
        description="What is asked of them, by a name of yours."
    )
    stages: Annotated[list[Stage], Field(min_length=1)] = Field(
        description="The ladder: which loads run together, one stage after another."
    )
    timing: Timing = Field(
        default_factory=lambda: Timing.model_validate({}), description="How long the phases last."
    )
    observe: Observe = Field(
        default_factory=lambda: Observe.model_validate({}), description="What is watched beside the load."
    )
    gate: list[GateItem] = Field(
        default_factory=_default_gates,
        description="What must hold: profiles, limits as in 'speech.ttfa_ms.p95 <= 500ms', or mappings.",
    )
    decision: Literal["interval", "point", "auto"] = Field(
        "auto", description="Whether a gate looks at the interval or at the value; auto: by the device."
    )
