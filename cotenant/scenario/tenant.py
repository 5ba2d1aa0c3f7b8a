"""A tenant: one service under test, who starts it, how it is spoken to, what a built-in one is like."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainValidator, StrictBool, StrictStr

from cotenant.scenario.frames import Frames
from cotenant.scenario.model import Model, Unit
from cotenant.scenario.values import (
    Count,
    Device,
    DurationNsOrAuto,
    EnvName,
    OrAuto,
    PositiveNs,
    Url,
    Whole,
)
from cotenant.scenario.vllm import Vllm

# Utterances that one built-in speech server may batch.
MOST_VOICES: Final = 64

_OwnVoices = Annotated[int | Literal["auto"], PlainValidator(OrAuto(Whole(1, MOST_VOICES)))]
_Frames80 = Annotated[Count, Unit("frames of 80 ms")]


class Ready(Model):
    """When a tenant counts as started: its `path` answers 200.

    Without a `path` it is /health, and a server that has none is started as soon as it says so.
    """

    path: Annotated[StrictStr, Field(pattern=r"^/[!-~]*$")] | None = Field(
        None, description="What answers 200 once it is started; without it /health, where the server has one."
    )
    within_ns: PositiveNs = Field(
        300_000_000_000, alias="within", description="How long the start may take, weights included."
    )


class Mps(Model):
    """CUDA MPS limits of one tenant: a share of the SMs in per cent, a priority (1 is below 0)."""

    thread_percentage: Annotated[int, PlainValidator(Whole(1, 100)), Unit("%")] | None = Field(
        None, description="The most of the GPU's threads that it may use."
    )
    priority: Annotated[int, PlainValidator(Whole(0, 1))] | None = Field(
        None, description="0 for normal, 1 for below the others."
    )


class Packets(Model):
    """Frames of 80 ms in each packet of the built-in speech server: the first, some ramp, then `steady`."""

    first: _Frames80 = Field(1, description="In the first packet.")
    steady: _Frames80 = Field(4, description="In each packet after the ramp.")
    ramp: list[_Frames80] = Field(
        default_factory=list, description="In the packets between the first and the steady ones."
    )


class Tenant(Model):
    """One service under test. The fields from `packets` on are those of built-in servers."""

    kind: Literal["speech", "face", "completions"] = Field(
        description="What it is: a TTS, a talking head or an LLM."
    )
    engine: Literal["builtin", "launch", "attach", "auto"] = Field(
        "auto",
        description="Who starts the server: cotenant its own, the run by a command, or somebody else; "
        "auto: a vLLM found on PATH beside a GPU, else built in.",
    )
    shape: StrictStr = Field(
        "auto", description="The model that a built-in server is as large as; `cotenant list` has them."
    )
    replicas: Annotated[int, PlainValidator(Whole(1, 64))] = Field(
        1, description="How many built-in servers it is; listener v uses number v mod that."
    )
    device: Device | None = Field(None, description="Where it runs, if not on the scenario's device.")
    url: Url | None = Field(None, description="The server's address, for engine attach and launch.")
    protocol: StrictStr = Field(
        "auto", description="How it is spoken to; auto asks the server. `cotenant list` has them."
    )
    model: StrictStr | None = Field(None, description="The model's name, as the server calls it.")
    voice: StrictStr | None = Field(None, description="The voice's name, as the speech server calls it.")
    api_key_env: EnvName | None = Field(None, description="The environment variable that holds its key.")
    ca_file: Annotated[StrictStr, Field(min_length=1)] | None = Field(
        None, description="Whose certificates are trusted besides the system's."
    )
    insecure: StrictBool | None = Field(None, description="Whether any certificate is taken, unchecked.")
    frames: Frames | None = Field(
        None, description="Where another talking head's messages have their pictures, and what it is sent."
    )
    extra: dict[str, Any] = Field(
        default_factory=dict, description="Fields that are added to each request as they are."
    )
    rate: Annotated[int, PlainValidator(Whole(4_000, 192_000)), Unit("Hz")] | None = Field(
        None, description="The sample rate of answers that do not tell it."
    )
    sample_format: Literal["s16", "f32"] | None = Field(
        None, description="The samples of answers that do not tell it."
    )
    command: list[StrictStr] | None = Field(
        None, description="The program that starts the server, and its arguments (engine: launch)."
    )
    vllm: Vllm | None = Field(None, description="A vLLM to start, in place of a command.")
    ready: Ready = Field(
        default_factory=lambda: Ready.model_validate({}), description="When it counts as started."
    )
    env: dict[EnvName, StrictStr] = Field(
        default_factory=dict, description="Environment variables of what is started."
    )
    mps: Mps | None = Field(None, description="Its limits under CUDA MPS (sharing: mps).")
    packets: Packets | None = Field(None, description="How much sound a built-in TTS sends at once.")
    threads: Annotated[int, PlainValidator(Whole(1, 1024))] | None = Field(
        None, description="CPU threads of a built-in server; without it those of its shape."
    )
    mode: Literal["auto", "graphs", "eager"] | None = Field(
        None, description="Whether a built-in server on a GPU replays CUDA graphs."
    )
    voices: _OwnVoices | None = Field(
        None, description="How many utterances a built-in TTS batches into one step."
    )
    step_overhead_ns: DurationNsOrAuto | None = Field(
        None,
        alias="step_overhead",
        description="Host time of each step besides its own; else what is fitted to the shape.",
    )
    context_frames: Annotated[int, PlainValidator(Whole(0, 1_000)), Unit("frames of 80 ms")] | None = Field(
        None, description="What a built-in TTS decodes again before each packet."
    )
