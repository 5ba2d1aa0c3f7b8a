"""Messages of the built-in talking head: a frame's binary header, its JSON messages."""

import json
import struct
from dataclasses import dataclass
from typing import Final

from cotenant.errors import ServiceError
from cotenant.units import NS_PER_S
from cotenant.wire.json_values import count, error_text, json_object, short

MAGIC: Final = b"CTF1"
AUDIO_RATE_HZ: Final = 16_000
_HEADER: Final = struct.Struct("<4sIq")
HEADER_BYTES: Final = _HEADER.size
# No audio is as long: such a time is garbage, and sums of times must stay within 64 bits.
_MEDIA_LIMIT_NS: Final = 24 * 3600 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameHeader:
    """`media_time_ns` is the place in the audio that the frame belongs to."""

    index: int
    media_time_ns: int
    payload_bytes: int


def pack_frame(index: int, media_time_ns: int, payload: bytes) -> bytes:
    """One binary message: header and picture."""
    return _HEADER.pack(MAGIC, index, media_time_ns) + payload


def parse_frame(message: bytes) -> FrameHeader:
    """The header of one binary message. Raises ServiceError("protocol")."""
    if len(message) < HEADER_BYTES or message[:4] != MAGIC:
        raise ServiceError("protocol", f"not a frame: {message[:16]!r}")
    _, index, media_time_ns = _HEADER.unpack_from(message)
    if not 0 <= media_time_ns <= _MEDIA_LIMIT_NS:
        raise ServiceError("protocol", f"a frame at {media_time_ns} ns of the audio")
    return FrameHeader(index=index, media_time_ns=media_time_ns, payload_bytes=len(message) - HEADER_BYTES)


def config_message(fps: int) -> str:
    """The first message of a client."""
    return json.dumps({"type": "config", "sample_rate": AUDIO_RATE_HZ, "fps": fps, "format": "jpeg"})


END_MESSAGE: Final = json.dumps({"type": "end"})


def parse_text(message: str) -> int | None:
    """The number of frames of `done`, None for a text message of another kind.

    Raises ServiceError: `in_stream` for an `error` message, `protocol` for what is no message.
    """
    value = json_object(message, "message of a talking head")
    kind = value.get("type")
    if kind == "done":
        return count(value.get("frames"), "frames")
    if kind == "error":
        raise ServiceError("in_stream", error_text(value.get("message")))
    if not isinstance(kind, str):
        raise ServiceError("protocol", f"no message of a talking head: its type is {short(kind)}")
    return None
