"""The `frames` of a face tenant: where another head has its pictures, and how audio goes in. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, PlainValidator, StrictStr

from cotenant.scenario.model import Model, Unit
from cotenant.scenario.values import AUTO, Whole
from cotenant.scenario.yaml_text import Path

Found = tuple[Path, str]

BINARY: Final = "binary"
_PATH_RE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}")
_HEADER_RE: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_OF_WEBSOCKET: Final = ("image", "index", "time_ms", "start", "end", "done", "error")


def _path(value: str) -> str:
    if _PATH_RE.fullmatch(value) is None:
        raise ValueError(f"{value[:40]!r} is no path into a message; write names with dots, as in data.frame")
    return value


def _header(value: str) -> str:
    if _HEADER_RE.fullmatch(value) is None:
        raise ValueError(f"{value[:40]!r} is no name of a header; write it as in X-Timestamp")
    return value


def _fields(value: dict[str, Any]) -> dict[str, Any]:
    if not value or any(inner is None for inner in value.values()):
        raise ValueError("every message would be that; write a field and its value, as in {type: done}")
    return value


JsonPath = Annotated[StrictStr, AfterValidator(_path)]
HeaderName = Annotated[StrictStr, AfterValidator(_header)]


class FrameAudio(Model):
    """How 16 kHz s16 audio goes in: binary, as base64 under `path` beside `fields`, or not at all."""

    send: Literal["binary", "base64", "none"] = Field(
        "binary", description="How 16 kHz s16 audio goes in: as it is, as base64 in JSON, or not at all."
    )
    path: JsonPath | None = Field(None, description="Where the base64 stands in the message.")
    fields: dict[str, Any] = Field(default_factory=dict, description="What else the message has.")


class Frames(Model):
    """Paths into a head's JSON messages, and the messages that it wants.

    A frame's place in the audio is `time_ms` or `time_header`, else `index` or its number.
    """

    image: JsonPath | None = Field(
        None, description="Where a message has its base64 picture; binary: messages are pictures."
    )
    index: JsonPath | None = Field(None, description="Where a message has the frame's number.")
    time_ms: JsonPath | None = Field(None, description="Where it has the frame's place in the audio, in ms.")
    time_header: HeaderName | None = Field(
        None, description="The header of an MJPEG part that has the frame's time, in seconds."
    )
    fps: Annotated[int, PlainValidator(Whole(1, 240)), Unit("frames/s")] | None = Field(
        None, description="How far apart numbered frames are; without it the load's fps."
    )
    start: dict[str, Any] | None = Field(None, description="The message that is sent first.")
    end: dict[str, Any] | None = Field(None, description="The message that is sent after the audio.")
    done: Annotated[dict[JsonPath, Any], AfterValidator(_fields)] | None = Field(
        None, description="Fields of the message after the last frame; without it the clip ends at the close."
    )
    error: JsonPath | None = Field(None, description="Where a message has what went wrong.")
    audio: FrameAudio = Field(
        default_factory=lambda: FrameAudio.model_validate({}), description="How audio goes in."
    )


def frame_checks(tenant: Mapping[str, Any]) -> Iterator[Found]:
    """What disagrees in a tenant's protocol and `frames`, as (path in the tenant, message)."""
    kind, protocol, frames = tenant.get("kind"), tenant.get("protocol", AUTO), tenant.get("frames")
    if kind != "face":
        if frames is not None and kind in ("speech", "completions"):
            yield ("frames",), f"frames are for kind: face, and this is {kind}; remove it"
        return
    if tenant.get("engine") == "builtin" and protocol not in (AUTO, "cotenant"):
        yield ("protocol",), "the built-in head speaks its own protocol; remove protocol"
    if protocol in (AUTO, "cotenant") and frames is not None:
        yield (
            ("frames",),
            "frames say how another head's messages are read; add protocol: websocket or protocol: mjpeg",
        )
    if protocol == "websocket":
        yield from _websocket(frames if isinstance(frames, Mapping) else {})
    if protocol == "mjpeg" and isinstance(frames, Mapping):
        yield from _mjpeg(frames)


def _websocket(frames: Mapping[str, Any]) -> Iterator[Found]:
    if frames.get("image") is None:
        yield (
            ("frames",) if frames else (),
            "protocol: websocket needs where a message has its picture; add frames: {image: data.frame}, or "
            "{image: binary} where messages are pictures",
        )
    if frames.get("image") == BINARY:
        for key in ("index", "time_ms"):
            if frames.get(key) is not None:
                yield (
                    ("frames", key),
                    f"a message that is a picture has no {key}; remove it, or write where the JSON has image",
                )
    if frames.get("time_header") is not None:
        yield ("frames", "time_header"), "a message has no headers; use time_ms: data.t, or protocol: mjpeg"
    audio = frames.get("audio")
    if not isinstance(audio, Mapping):
        return
    send, path = audio.get("send", BINARY), audio.get("path")
    if send == "none":
        yield ("frames", "audio", "send"), "a head on a WebSocket gets audio; write binary or base64"
    if send == "base64" and path is None:
        yield ("frames", "audio"), "base64 needs where it stands in the message; add path: data.audio"
    if send == BINARY and (path is not None or audio.get("fields")):
        yield (
            ("frames", "audio"),
            "binary audio has no message around it; add send: base64, or remove the rest",
        )


def _mjpeg(frames: Mapping[str, Any]) -> Iterator[Found]:
    for key in _OF_WEBSOCKET:
        if frames.get(key) is not None:
            yield (
                ("frames", key),
                f"an MJPEG stream has no messages; remove {key}, or use protocol: websocket",
            )
    audio = frames.get("audio")
    if isinstance(audio, Mapping) and (audio.get("send") == "base64" or audio.get("path") is not None):
        yield (
            ("frames", "audio"),
            "audio goes to an MJPEG server as the request's body (send: binary) or not at all (send: none)",
        )
