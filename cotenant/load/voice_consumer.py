"""What reads a voice's answer: a row a message, the samples kept until it is known whether they stalled."""

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np

from cotenant.load.desk import Desk, StreamRows
from cotenant.load.settings import VoicesLoad
from cotenant.playback.energy import leading_silence_ns
from cotenant.wire.http1 import Body, Head
from cotenant.wire.pcm import media_ns
from cotenant.wire.speech import Audio, Finished, SpeechDecoder, SpeechEvent
from cotenant.wire.speech_servers import SERVERS
from cotenant.wire.speech_socket import SpeechSocketDecoder

# About two seconds of a usual voice.
_HEAD_BYTES: Final = 96_000
_PEAK: Final = 32_767


class Tap(Protocol):
    """Who else hears the voice while it arrives: a face."""

    def feed(self, data: bytes, rate_hz: int, sample_format: str) -> None:
        """Whole samples that have just arrived."""

    def end(self) -> None:
        """No more will come."""


class VoiceConsumer:
    """Writes a row a message, keeps the samples until it is known whether they stalled."""

    def __init__(
        self, desk: Desk, load: VoicesLoad, rows: StreamRows, tap: Tap | None, on_output: Callable[[], None]
    ) -> None:
        self.outputs = 0
        self.arrival_ns: list[int] = []
        self.media_ns: list[int] = []
        self._desk = desk
        self._tenant = desk.settings.tenants[load.tenant]
        self._rows = rows
        self._on_output = on_output
        self._server = SERVERS[self._tenant.protocol]
        self._decoder: SpeechDecoder | SpeechSocketDecoder | None = None
        self._seq = 0
        self._kept: list[tuple[dict[str, object], bytes]] = []
        self._refused = False
        # The beginning, for how long it is silent.
        self._head = bytearray()
        self._tap = tap

    def sent(self) -> None:
        self._rows.write()

    def head(self, head: Head) -> None:
        self._decoder = SpeechDecoder(
            head,
            rate_hz=self._tenant.rate_hz,
            assumed_hz=self._server.rate_hz,
            sample_format=self._sample_format,
            wav_called=self._server.wav_called,
        )

    def body(self, body: Body, arrival_ns: int) -> bool:
        assert isinstance(self._decoder, SpeechDecoder)
        return self._take(self._decoder.feed(body), arrival_ns)

    def cut(self, arrival_ns: int) -> None:
        if isinstance(self._decoder, SpeechDecoder):
            self._take(self._decoder.close(), arrival_ns)

    def message(self, data: bytes | str, arrival_ns: int) -> bool:
        """One WebSocket message; True once the stream says that it is complete. Raises ServiceError."""
        if self._decoder is None:
            self._decoder = SpeechSocketDecoder(
                rate_hz=self._rate_hz,
                sample_format=self._sample_format,
                nominal=self._server.rate_from is not None,
            )
        assert isinstance(self._decoder, SpeechSocketDecoder)
        return self._take(self._decoder.feed(data), arrival_ns)

    @property
    def _rate_hz(self) -> int | None:
        return self._tenant.rate_hz or self._server.rate_hz

    @property
    def _sample_format(self) -> str:
        return self._tenant.sample_format or self._server.sample_format

    def _take(self, events: list[SpeechEvent], arrival_ns: int) -> bool:
        for event in events:
            if isinstance(event, Finished):
                return True
            if not isinstance(event, Audio):
                raise event
            self._message(event, arrival_ns)
        return False

    def _message(self, message: Audio, arrival_ns: int) -> None:
        assert self._decoder is not None
        media = 0
        if message.samples:
            rate_hz = self._decoder.rate_hz
            assert rate_hz is not None
            if not self.outputs:
                self._rows.set(rate_hz=rate_hz, sample_format=self._decoder.sample_format)
                self._on_output()
            media = media_ns(self.outputs, message.samples, rate_hz)
            self.outputs += message.samples
            self.arrival_ns.append(arrival_ns)
            self.media_ns.append(media)
            if len(self._head) < _HEAD_BYTES:
                self._head += message.data
            if self._tap is not None:
                self._tap.feed(message.data, rate_hz, self._decoder.sample_format)
        row: dict[str, object] = {
            "stream": self._rows.stream,
            "seq": self._seq,
            "arrival": arrival_ns,
            "media": media,
            "bytes": message.message_bytes,
            "shared_read": message.shared_read,
        }
        self._seq += 1
        offset = self._desk.writer.append_audio(message.data) if message.data else None
        self._refused = self._refused or (bool(message.data) and offset is None)
        self._desk.writer.append("chunks", **row, audio_offset=offset)
        if self._desk.late_audio is not None:
            self._kept.append((row, message.data))

    def leading_silence_ns(self) -> int | None:
        """How long the voice is silent at its beginning; None where its first seconds are no sound."""
        decoder = self._decoder
        if decoder is None or decoder.rate_hz is None or not self.outputs:
            return None
        if decoder.sample_format == "f32":
            pcm = np.frombuffer(self._head, dtype="<f4")
            pcm = (np.clip(np.nan_to_num(pcm), -1, 1) * _PEAK).astype(np.int16)
        else:
            pcm = np.frombuffer(self._head, dtype="<i2")
        return leading_silence_ns(pcm, decoder.rate_hz)

    def keep_stalled(self) -> None:
        """The limit had been reached, but this one stalled: its audio and its rows once more."""
        late = self._desk.late_audio
        if late is None or not self._refused:
            return
        for row, data in self._kept:
            late.append("chunks", **row, audio_offset=late.append_audio(data) if data else None)
