"""Messages of talking heads on a WebSocket: the built-in one's, and others' by a mapping of the scenario."""

import base64
import binascii
import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cotenant.errors import ServiceError
from cotenant.units import NS_PER_MS, NS_PER_S
from cotenant.wire import frames
from cotenant.wire.frames import FrameHeader
from cotenant.wire.json_values import count, error_text, json_object, short

# Of one message, as of one picture in MJPEG: a head may claim any size, and only memory would hold it.
MESSAGE_LIMIT_BYTES: Final = 64 << 20
_BINARY: Final = "binary"
_LOOKED_AT: Final = 64  # characters of base64
# Past a day of any frame rate.
_INDEX_LIMIT: Final = 10**8
_DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The head said that all frames were sent."""


Event = FrameHeader | Done | None


class HeadCodec(Protocol):
    """`tells_end`: a message says that all frames were sent; `binary_audio`: 16 kHz s16le goes in as it is.

    Methods raise ServiceError; its `offset` is the byte of all payloads at which the message began.
    """

    tells_end: bool
    binary_audio: bool

    def start(self) -> str | None:
        """The client's first message, if there is one."""

    def audio(self, piece: bytes) -> str:
        """The message around a piece of audio, where it is not binary."""

    def end(self) -> str | None:
        """The message after the last audio, if there is one."""

    def message(self, data: bytes | str) -> Event:
        """A frame's header, the end, or None for what is neither."""


class _Place:
    """How many bytes of messages came before the one that is looked at."""

    def __init__(self) -> None:
        self._read_bytes = 0

    @contextlib.contextmanager
    def of(self, data: bytes | str) -> Iterator[None]:
        """Around the reading of one message: a ServiceError gets its offset."""
        start = self._read_bytes
        self._read_bytes += len(data if isinstance(data, bytes) else data.encode(errors="replace"))
        try:
            yield
        except ServiceError as error:
            error.offset = start
            raise


class OwnCodec:
    """The built-in head's. Frames come in any order, each index once, as many as its last message says."""

    tells_end = True
    binary_audio = True

    def __init__(self, fps: int) -> None:
        self._fps = fps
        self._came: set[int] = set()
        self._place = _Place()

    def start(self) -> str | None:
        return frames.config_message(self._fps)

    def audio(self, piece: bytes) -> str:
        raise ValueError("its audio is binary")

    def end(self) -> str | None:
        return frames.END_MESSAGE

    def message(self, data: bytes | str) -> Event:
        with self._place.of(data):
            return self._frame(data) if isinstance(data, bytes) else self._text(data)

    def _frame(self, data: bytes) -> FrameHeader:
        header = frames.parse_frame(data)
        if header.index in self._came:
            raise ServiceError("protocol", f"the frame with index {header.index} came twice")
        self._came.add(header.index)
        return header

    def _text(self, data: str) -> Done | None:
        told = frames.parse_text(data)
        if told is None:
            return None
        if told != len(self._came):
            came = len(self._came)
            raise ServiceError("protocol", f"it says that it has sent {told} frames, and {came} came")
        return Done()


class MappedCodec:
    """By a tenant's `frames` (its plain form, checked); `fps` is the load's."""

    def __init__(self, told: Mapping[str, Any], fps: int) -> None:
        self.tells_end = told.get("done") is not None
        self._told = told
        self._fps = told.get("fps") or fps
        self._audio: Mapping[str, Any] = told.get("audio") or {}
        self.binary_audio = self._audio.get("send", _BINARY) == _BINARY
        self._number = 0
        self._place = _Place()

    def start(self) -> str | None:
        return _message(self._told.get("start"))

    def audio(self, piece: bytes) -> str:
        text = base64.b64encode(piece).decode()
        return json.dumps(put(self._audio.get("fields") or {}, self._audio["path"], text))

    def end(self) -> str | None:
        return _message(self._told.get("end"))

    def message(self, data: bytes | str) -> Event:
        with self._place.of(data):
            if isinstance(data, str) or self._told["image"] != _BINARY:
                return self._object(json_object(data, "message of a talking head"))
            if not data:
                raise ServiceError("protocol", "a picture of no bytes")
            return self._frame({}, len(data))

    def _object(self, value: Mapping[str, Any]) -> Event:
        error = self._told.get("error")
        if error is not None and at(value, error):
            raise ServiceError("in_stream", error_text(at(value, error)))
        done = self._told.get("done")
        if done is not None and all(at(value, path) == wanted for path, wanted in done.items()):
            return Done()
        image = None if self._told["image"] == _BINARY else at(value, self._told["image"])
        return None if image is None else self._frame(value, picture_bytes(image))

    def _frame(self, value: Mapping[str, Any], payload_bytes: int) -> FrameHeader:
        index = self._number
        if (path := self._told.get("index")) is not None:
            index = count(at(value, path), f"the index at {path}")
            if index > _INDEX_LIMIT:
                raise ServiceError("protocol", f"the index at {path} is {index}, past a day of frames")
        media_time_ns = index * NS_PER_S // self._fps
        if (path := self._told.get("time_ms")) is not None:
            media_time_ns = _time_ns(at(value, path), path)
        self._number += 1
        return FrameHeader(index=index, media_time_ns=media_time_ns, payload_bytes=payload_bytes)


def _message(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value)


def at(value: Any, path: str) -> Any:
    """What stands at a path with dots, None where there is nothing; a number is a place in a list."""
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and len(name) < 9 and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def put(value: Mapping[str, Any], path: str, inner: Any) -> dict[str, Any]:
    """A copy of an object with `inner` at a path."""
    name, _, rest = path.partition(".")
    below = value.get(name)
    return {**value, name: put(below if isinstance(below, Mapping) else {}, rest, inner) if rest else inner}


def picture_bytes(image: Any) -> int:
    """The size of a base64 picture, a data URL too, without decoding all of it. Raises ServiceError."""
    if not isinstance(image, str):
        raise ServiceError("protocol", f"the image is {short(image)}, not base64")
    if image.startswith("data:"):
        image = image.partition(",")[2]
    text = image.rstrip("=")
    if not text:
        raise ServiceError("protocol", "a picture of no bytes")
    begin = text[:_LOOKED_AT]
    try:
        base64.b64decode(begin[: len(begin) // 4 * 4], validate=True)
    except (binascii.Error, ValueError):
        raise ServiceError("protocol", f"the image is no base64: {begin[:20]!r}") from None
    return len(text) * 3 // 4


def _time_ns(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ServiceError("protocol", f"the time at {path} is {short(value)}, no number of ms")
    if not math.isfinite(value) or not 0 <= value <= _DAY_MS:
        raise ServiceError("protocol", f"the time at {path} is {short(value)} ms")
    return round(value * NS_PER_MS)
