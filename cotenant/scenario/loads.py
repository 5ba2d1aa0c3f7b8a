"""The loads: listeners of voices, listeners with a face, requests to an LLM."""

from typing import Annotated, Literal

from pydantic import Field, PlainValidator

from cotenant.scenario.model import Model, Unit
from cotenant.scenario.values import (
    Count,
    CountOrAuto,
    DurationNs,
    Name,
    PositiveNsOrAuto,
    RatePerS,
    Text,
    Tokens,
    TokensOrAuto,
    Whole,
)


class Voices(Model):
    """Listeners of a speech tenant."""

    tenant: Name = Field(description="Who speaks: a tenant of kind speech.")
    kind: Literal["voices"] = Field(description="That these are listeners of voices.")
    mode: Literal["turns", "open", "closed"] = Field(
        "turns",
        description="When the next utterance is due: at its time and after the one before was heard; at its "
        "time; at once after the last byte.",
    )
    listeners: CountOrAuto = Field("auto", description="How many listen at once.")
    every_ns: PositiveNsOrAuto = Field(
        "auto", alias="every", description="How often each listener is due an utterance, +-30 %."
    )
    pause_ns: DurationNs = Field(
        500_000_000, alias="pause", description="From the end of one utterance to the next, in mode turns."
    )
    text: Text = Field("builtin", description="What is spoken.")


class Faces(Model):
    """Listeners with a face: face v is driven by the audio of voice v of the load it `follows`."""

    tenant: Name = Field(description="Whose face: a tenant of kind face.")
    kind: Literal["faces"] = Field(description="That these are faces of voices.")
    follows: Name = Field(description="The load whose voices drive them.")
    listeners: Count = Field(1, description="How many of the voices have a face.")
    fps: Annotated[int, PlainValidator(Whole(1, 240)), Unit("frames/s")] = Field(
        25, description="Frames of video that are asked for."
    )
    pace: Literal["as-arrives", "realtime"] = Field(
        "as-arrives", description="How the head is handed the voice: as it comes, or 40 ms each 40 ms."
    )
    face_buffer_ns: DurationNs = Field(
        200_000_000, alias="face_buffer", description="How long voice and face wait after the first frame."
    )


class Completions(Model):
    """LLM requests: `streams` always alive, or `rate` sent whatever happens. Sizes are in tokens."""

    tenant: Name = Field(description="Who answers: a tenant of kind completions.")
    kind: Literal["completions"] = Field(description="That these are requests to an LLM.")
    mode: Literal["alive", "rate"] = Field(
        "alive", description="As many as `streams` always under way, or `rate` sent whatever happens."
    )
    streams: CountOrAuto = Field("auto", description="How many are under way at once, in mode alive.")
    rate_per_s: RatePerS | None = Field(None, alias="rate", description="How many are sent, in mode rate.")
    prompt: TokensOrAuto = Field("auto", description="How long each prompt is.")
    output: Tokens = Field(400, description="How long each answer is.")


Load = Annotated[Voices | Faces | Completions, Field(discriminator="kind")]
