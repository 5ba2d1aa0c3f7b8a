"""The body of a speech response -> samples, one event a message; its Content-Type decides how it is read."""

import base64
import re
from dataclasses import dataclass
from typing import Any, Final

from cotenant.errors import ServiceError
from cotenant.wire.http1 import Body, Head, refuse_encoded
from cotenant.wire.json_values import error_text, json_object
from cotenant.wire.pcm import BYTES_PER_SAMPLE, is_rate
from cotenant.wire.samples import SampleDecoder, refuse_compressed_name, refuse_compressed_type
from cotenant.wire.sse import SseDecoder, SseEvent

WAV_TYPES: Final = ("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave")
_PCM_TYPES: Final = ("audio/pcm", "audio/x-pcm", "audio/raw")
_RAW_TYPES: Final = (*_PCM_TYPES, "application/octet-stream", "")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_RATE: Final = re.compile(r"([0-9]{1,9})(?:\.0+)?")
_RATE_HEADERS: Final = ("x-sample-rate", "x-audio-sample-rate", "x-custom-header-samplerate")
_DEPTH_HEADERS: Final = ("x-bit-depth", "x-bits-per-sample")
# Longer messages are handed on in parts: a transfer chunk may claim any size, and only memory would hold it.
MESSAGE_LIMIT_BYTES: Final = 16 << 20


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


class SpeechDecoder:
    """Events of one speech response, in order.

    `wav_called`: a content type that this server puts on its WAV though it means something else.
    `rate_hz` and `sample_format` are what the response tells, else the given ones; final once samples came.
    `assumed_hz` is for a response that tells no rate at all where none is given: one that tells a rate which
    is none is not played at another.
    Raises ServiceError("protocol") for a content type that cannot be played, and for a compressed answer.
    The ServiceErrors among the events carry the byte of the body at which it went wrong.
    """

    def __init__(
        self,
        head: Head,
        *,
        rate_hz: int | None,
        sample_format: str | None,
        wav_called: str | None = None,
        assumed_hz: int | None = None,
    ) -> None:
        refuse_encoded(head)
        content_type, parameters = parse_content_type(head.headers.get("content-type", ""))
        refuse_compressed_type(content_type)
        sample_format = sample_format or "s16"
        _refuse_layout(head, parameters, sample_format)
        self._sse = SseDecoder() if content_type == "text/event-stream" else None
        known = (*WAV_TYPES, *_RAW_TYPES)
        if self._sse is None and content_type not in known and content_type != wav_called:
            text = f"the answer is {content_type}; samples as pcm, wav or SSE are played"
            raise ServiceError("protocol", text, offset=0)
        wrong = wrong_rate(head)
        self._samples = SampleDecoder(
            rate_hz=told_rate_hz(head) or rate_hz or (assumed_hz if wrong is None else None),
            wrong_rate=wrong,
            sample_format=sample_format,
            raw_is_sure=content_type in _PCM_TYPES or self._sse is not None,
            wav_called=content_type in WAV_TYPES,
            wav_only=self._sse is None and content_type not in known,
        )
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._offset = 0
        self._dead = False

    @property
    def rate_hz(self) -> int | None:
        """Samples a second, None while it is not known."""
        return self._samples.rate_hz

    @property
    def sample_format(self) -> str:
        """`s16` or `f32`."""
        return self._samples.sample_format

    @property
    def is_wav(self) -> bool:
        """Whether what came is WAV."""
        return self._samples.is_wav

    def feed(self, body: Body) -> list[SpeechEvent]:
        """The events that are complete with this piece; after Finished or a ServiceError there are none."""
        events: list[SpeechEvent] = []
        if self._dead:
            return events
        try:
            if self._sse is not None:
                self._feed_sse(self._sse, body, events)
            else:
                self._hold(body.data)
                if body.closes or self._pending_bytes >= MESSAGE_LIMIT_BYTES:
                    events.append(self._message(body.after_bytes > 0))
        except ServiceError as error:
            events.append(self._fatal(error))
        self._offset += len(body.data)
        return events

    def close(self) -> list[SpeechEvent]:
        """What came of a message that was cut by the end of the connection."""
        if self._dead or not self._pending:
            return []
        try:
            return [self._message(False)]
        except ServiceError as error:
            return [self._fatal(error)]
        finally:
            self._dead = True

    def _feed_sse(self, sse: SseDecoder, body: Body, events: list[SpeechEvent]) -> None:
        for sse_event in sse.feed(body.data):
            try:
                event = self._delta(sse_event, body.after_bytes)
            except ServiceError as error:
                event = self._fatal(error, len(body.data) - sse_event.after_bytes)
            if event is not None:
                events.append(event)
            if self._dead:
                return

    def _fatal(self, error: ServiceError, within_bytes: int = 0) -> ServiceError:
        self._dead = True
        if error.offset is None:
            error.offset = self._offset + within_bytes
        return error

    def _hold(self, data: bytes) -> None:
        self._pending.append(data)
        self._pending_bytes += len(data)

    def _message(self, shared_read: bool, message_bytes: int | None = None) -> Audio:
        message = b"".join(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
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
            return self._fatal(ServiceError("in_stream", error_text(value)))
        if kind.endswith(".done"):
            self._dead = True
            return Finished()
        encoded = value.get("audio") or value.get("delta")
        if not kind.endswith("delta") or not encoded:
            return None
        refuse_compressed_name(str(value.get("response_format") or ""))
        self._hold(from_base64(encoded))
        return self._message(event.after_bytes + rest_bytes > 0, len(event.data))


def from_base64(encoded: Any) -> bytes:
    """Audio in a JSON value. Raises ServiceError("protocol")."""
    try:
        return base64.b64decode(encoded, validate=True)
    except (ValueError, TypeError) as error:
        raise ServiceError("protocol", f"no speech event: {error}") from None


def told_rate_hz(head: Head) -> int | None:
    """The sample rate that an answer's content type or headers tell; a whole number, 24000.0 too."""
    for told in _told_rates(head):
        if (found := _RATE.fullmatch(told)) and is_rate(int(found[1])):
            return int(found[1])
    return None


def wrong_rate(head: Head) -> str | None:
    """What an answer tells in the place of its sample rate though that is none."""
    return next(iter(_told_rates(head)), None) if told_rate_hz(head) is None else None


def _told_rates(head: Head) -> list[str]:
    _, parameters = parse_content_type(head.headers.get("content-type", ""))
    places = (parameters.get("rate"), *(head.headers.get(name) for name in _RATE_HEADERS))
    return [told.strip() for told in places if told and told.strip()]


def _refuse_layout(head: Head, parameters: dict[str, str], sample_format: str) -> None:
    channels = parameters.get("channels") or head.headers.get("x-channels", "1")
    if channels.strip() != "1":
        raise ServiceError("protocol", f"{channels[:40]} channels; only mono is played", offset=0)
    depth = next((head.headers[h] for h in _DEPTH_HEADERS if h in head.headers), "").strip()
    if _NUMBER.fullmatch(depth) and int(depth) != 8 * BYTES_PER_SAMPLE[sample_format]:
        raise ServiceError(
            "protocol",
            f"samples of {depth} bits, and {sample_format} was expected; 16-bit PCM is s16, 32-bit float "
            "f32: set the tenant's `sample_format` to the one it is",
            offset=0,
        )


def parse_content_type(value: str) -> tuple[str, dict[str, str]]:
    """`audio/pcm; rate=24000` -> type and parameters, names in lower case."""
    kind, *rest = value.split(";")
    pairs = (part.partition("=") for part in rest)
    return kind.strip().lower(), {name.strip().lower(): text.strip().strip('"') for name, _, text in pairs}
