"""Speech over a WebSocket, as vLLM-Omni and SGLang-Omni speak it: text goes in by pieces, audio comes out.

A session's settings, pieces of text, the mark that they are all; then per sentence a start, binary audio (or
JSON with base64) and an end, and after the last sentence the end of it all.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from cotenant.errors import ServiceError
from cotenant.wire.json_values import error_text, json_object, short
from cotenant.wire.pcm import BYTES_PER_SAMPLE, is_rate
from cotenant.wire.samples import SampleDecoder, refuse_compressed_name
from cotenant.wire.speech import Audio, Finished, SpeechEvent, from_base64

_PIECE: Final = re.compile(r"\s*\S+\s*$|\s*\S+")
# SGLang-Omni hangs up on a client that has more than 16 messages waiting while it speaks a sentence.
_MOST_PIECES: Final = 12


def text_pieces(text: str) -> list[str]:
    """The text in at most 12 pieces of whole words, blanks kept, as a language model would hand it on."""
    words = _PIECE.findall(text) or [text]
    step = -(-len(words) // _MOST_PIECES)
    return ["".join(words[at : at + step]) for at in range(0, len(words), step)]


def session_messages(text: str, fields: Mapping[str, Any]) -> list[str]:
    """All that a client says for one utterance."""
    values = [
        {"type": "session.config", **fields},
        *({"type": "input.text", "text": piece} for piece in text_pieces(text)),
        {"type": "input.done"},
    ]
    return [json.dumps(value) for value in values]


class SpeechSocketDecoder:
    """Messages of one session -> events, in order. Nothing is raised: a ServiceError is the last event.

    Its `offset` is the byte of all payloads at which the message began. `nominal`: the rate in a start is the
    same whatever the model's is, so that a known one stays.
    """

    def __init__(self, *, rate_hz: int | None, sample_format: str | None, nominal: bool = False) -> None:
        self._nominal = nominal
        self._given_format = sample_format or "s16"
        self._samples = self._decoder(rate_hz)
        self._heard = False
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

    def feed(self, message: bytes | str) -> list[SpeechEvent]:
        """The events of one message; text is JSON, bytes are audio."""
        if self._dead:
            return []
        size_bytes = len(message) if isinstance(message, bytes) else len(message.encode(errors="replace"))
        try:
            if isinstance(message, bytes):
                event: SpeechEvent | None = self._audio(message, size_bytes)
            else:
                event = self._text(json_object(message, "speech message"), size_bytes)
        except ServiceError as error:
            event = error
        if isinstance(event, ServiceError):
            event.offset = self._offset
        self._dead = event is not None and not isinstance(event, Audio)
        self._offset += size_bytes
        return [] if event is None else [event]

    def _text(self, value: dict[str, Any], size_bytes: int) -> SpeechEvent | None:
        kind = value.get("type")
        if not isinstance(kind, str):
            raise ServiceError("protocol", f"no speech message: its type is {short(kind)}")
        if kind == "error" or kind.endswith(".error"):
            return ServiceError("in_stream", error_text(value))
        if kind == "audio.start":
            self._start(value)
        elif kind == "audio.chunk" and value.get("audio_b64"):
            self._set_rate(value.get("sample_rate"))
            return self._audio(from_base64(value["audio_b64"]), size_bytes)
        elif kind == "audio.done" and value.get("error"):
            return ServiceError("in_stream", "the server could not speak a sentence, and does not say why")
        elif kind == "session.done":
            return Finished()
        return None

    def _start(self, value: dict[str, Any]) -> None:
        refuse_compressed_name(str(value.get("format") or ""))
        channels = value.get("channels")
        if channels not in (None, 1):
            raise ServiceError("protocol", f"{short(channels)} channels; only mono is played")
        if not self._nominal or self._samples.rate_hz is None:
            self._set_rate(value.get("sample_rate"))
        self._samples.new_part()

    def _set_rate(self, told: Any) -> None:
        rate_hz = told if type(told) is int and is_rate(told) else None
        if rate_hz is None or rate_hz == self._samples.rate_hz:
            return
        if self._heard:
            raise ServiceError(
                "protocol", f"the rate changes from {self._samples.rate_hz} to {rate_hz} Hz within one answer"
            )
        self._samples = self._decoder(rate_hz)

    def _decoder(self, rate_hz: int | None) -> SampleDecoder:
        return SampleDecoder(rate_hz=rate_hz, sample_format=self._given_format, raw_is_sure=True)

    def _audio(self, message: bytes, message_bytes: int) -> Audio:
        self._heard = True
        data = self._samples.feed(message)
        return Audio(
            data=data,
            samples=len(data) // BYTES_PER_SAMPLE[self.sample_format],
            message_bytes=message_bytes,
            shared_read=False,
        )
