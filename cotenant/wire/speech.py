"""The body of a speech response -> samples, one event a message; its Content-Type decides how it is read."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant.errors import ServiceError
from cotenant.wire.http1 import Body, Head, refuse_encoded
from cotenant.wire.json_values import error_text, json_object
from cotenant.wire.pcm import BYTES_PER_SAMPLE, PcmDecoder, is_rate
from cotenant.wire.sse import SseDecoder, SseEvent
from cotenant.wire.wav import WavDecoder

_WAV_TYPES: Final = ("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave")
_RAW_TYPES: Final = ("audio/pcm", "audio/x-pcm", "audio/raw", "application/octet-stream", "")
_RATE: Final = re.compile(r"[0-9]{1,9}")
_RATE_HEADERS: Final = ("x-sample-rate", "x-audio-sample-rate", "x-custom-header-samplerate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """One message: the whole samples complete with it (none for a header); did its read go on after it?"""

    data: bytes
    samples: int
    message_bytes: int
    shared_read: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The server said that the audio is complete."""


SpeechEvent = Audio | Finished | ServiceError


def speech_request(
    *, model: str | None, voice: str | None, text: str, response_format: str, extra: Mapping[str, Any]
) -> bytes:
    """The JSON body of `POST /v1/audio/speech`; `extra` adds fields and wins."""
    body: dict[str, Any] = {"input": text, "response_format": response_format, "stream": True}
    if model is not None:
        body["model"] = model
    if voice is not None:
        body["voice"] = voice
    return json.dumps({**body, **extra}).encode()


class SpeechDecoder:
    """Events of one speech response, in order.

    `rate_hz` and `sample_format` are what the response tells, else the given ones; final once samples came.
    Raises ServiceError("protocol") for a content type that cannot be played, and for a compressed answer.
    """

    def __init__(self, head: Head, *, rate_hz: int | None, sample_format: str | None) -> None:
        refuse_encoded(head)
        content_type, parameters = parse_content_type(head.headers.get("content-type", ""))
        told = parameters.get("rate") or next(
            (head.headers[h] for h in _RATE_HEADERS if h in head.headers), ""
        )
        self.rate_hz = int(told) if _RATE.fullmatch(told) and is_rate(int(told)) else rate_hz
        self.sample_format = sample_format or "s16"
        channels = parameters.get("channels") or head.headers.get("x-channels", "1")
        if channels.strip() != "1":
            raise ServiceError("protocol", f"{channels} channels; only mono is played")
        self._sse = SseDecoder() if content_type == "text/event-stream" else None
        if self._sse is None and content_type not in (*_WAV_TYPES, *_RAW_TYPES):
            raise ServiceError(
                "protocol", f"the answer is {content_type}; samples as pcm, wav or SSE are played"
            )
        self._samples = _SampleDecoder(self)
        self._pending: list[bytes] = []
        self._dead = False

    def feed(self, body: Body) -> list[SpeechEvent]:
        """The events that are complete with this piece; after Finished or a ServiceError there are none."""
        events: list[SpeechEvent] = []
        if self._dead:
            return events
        try:
            if self._sse is not None:
                for sse_event in self._sse.feed(body.data):
                    event = self._delta(sse_event, body.after_bytes)
                    if event is not None:
                        events.append(event)
                    if self._dead:
                        break
            else:
                self._pending.append(body.data)
                if body.closes:
                    events.append(self._message(body.after_bytes > 0))
        except ServiceError as error:
            self._dead = True
            events.append(error)
        return events

    def close(self) -> list[SpeechEvent]:
        """What came of a message that was cut by the end of the connection."""
        if self._dead or not self._pending:
            return []
        try:
            return [self._message(False)]
        except ServiceError as error:
            return [error]
        finally:
            self._dead = True

    def _message(self, shared_read: bool, message_bytes: int | None = None) -> Audio:
        message = b"".join(self._pending)
        self._pending.clear()
        data = self._samples.feed(message)
        return Audio(
            data=data,
            samples=len(data) // BYTES_PER_SAMPLE[self.sample_format],
            message_bytes=len(message) if message_bytes is None else message_bytes,
            shared_read=shared_read,
        )

    def _delta(self, event: SseEvent, rest_bytes: int) -> SpeechEvent | None:
        if event.data.strip() == b"[DONE]":
            self._dead = True
            return Finished()
        value = json_object(event.data, "speech event")
        kind = value.get("type") or event.name
        if not isinstance(kind, str):
            raise ServiceError("protocol", "no speech event: its type is no text")
        if value.get("error") or kind.endswith("error"):
            raise ServiceError("in_stream", error_text(value))
        if kind.endswith(".done"):
            self._dead = True
            return Finished()
        encoded = value.get("audio") or value.get("delta")
        if not kind.endswith("delta") or not encoded:
            return None
        try:
            self._pending.append(base64.b64decode(encoded, validate=True))
        except (ValueError, TypeError) as error:
            raise ServiceError("protocol", f"no speech event: {error}") from None
        return self._message(event.after_bytes + rest_bytes > 0, len(event.data))


class _SampleDecoder:
    """WAV if the first bytes say so, whatever the content type says (both lies are common), else raw."""

    def __init__(self, owner: SpeechDecoder) -> None:
        self._owner = owner
        self._head = b""
        self._wav: WavDecoder | None = None
        self._pcm: PcmDecoder | None = None

    def feed(self, data: bytes) -> bytes:
        if self._wav is None and self._pcm is None:
            data = self._head + data
            self._head = b""
            if data[:4] == b"RIFF":
                self._wav = WavDecoder()
            elif b"RIFF".startswith(data[:4]):
                self._head = data
                return b""
            else:
                self._pcm = self._raw()
        if self._wav is not None:
            data = self._wav.feed(data)
            if self._wav.format is None or (not data and self._pcm is None):
                return b""
            if self._pcm is None:
                self._owner.rate_hz = self._wav.format.rate_hz
                self._owner.sample_format = self._wav.format.sample_format
                self._pcm = self._raw()
        assert self._pcm is not None
        return self._pcm.feed(data)

    def _raw(self) -> PcmDecoder:
        if self._owner.rate_hz is None:
            raise ServiceError(
                "protocol", "the answer does not tell its sample rate; set the tenant's `rate`"
            )
        return PcmDecoder(BYTES_PER_SAMPLE[self._owner.sample_format])


def parse_content_type(value: str) -> tuple[str, dict[str, str]]:
    """`audio/pcm; rate=24000` -> type and parameters, names in lower case."""
    kind, *rest = value.split(";")
    pairs = (part.partition("=") for part in rest)
    return kind.strip().lower(), {name.strip().lower(): text.strip().strip('"') for name, _, text in pairs}
