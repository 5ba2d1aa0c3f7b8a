"""One utterance: the request, its audio as it arrives, and when a listener has heard it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cotenant.load.desk import Desk, StreamRows
from cotenant.load.request import Outcome, Request
from cotenant.load.settings import VoicesLoad
from cotenant.load.stage import Stage
from cotenant.load.transport import sleep_until
from cotenant.playback.player import play
from cotenant.wire.http1 import Body, Head
from cotenant.wire.pcm import media_ns
from cotenant.wire.speech import Audio, Finished, SpeechDecoder, SpeechEvent, speech_request

SPEECH_PATH = "/v1/audio/speech"


class Tap(Protocol):
    """Who else hears the voice while it arrives: a face."""

    def feed(self, data: bytes, rate_hz: int, sample_format: str) -> None:
        """Whole samples that have just arrived."""

    def end(self) -> None:
        """No more will come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One utterance to be: `line` tells number and text, asked when it is due; `tap` hears it too."""

    listener: int
    due_ns: int
    delayed_ns: int
    line: Callable[[], tuple[int, str]]
    tap: Tap | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """When the utterance is over for its listener, when its last byte came, and whether it failed."""

    end_ns: int
    done_ns: int
    failed: bool


class _VoiceConsumer:
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
        self._decoder: SpeechDecoder | None = None
        self._seq = 0
        self._kept: list[tuple[dict[str, object], bytes]] = []
        self._refused = False
        self._tap = tap

    def sent(self) -> None:
        self._rows.write()

    def head(self, head: Head) -> None:
        self._decoder = SpeechDecoder(
            head, rate_hz=self._tenant.rate_hz, sample_format=self._tenant.sample_format
        )

    def body(self, body: Body, arrival_ns: int) -> bool:
        assert self._decoder is not None
        return self._take(self._decoder.feed(body), arrival_ns)

    def cut(self, arrival_ns: int) -> None:
        if self._decoder is not None:
            self._take(self._decoder.close(), arrival_ns)

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

    def keep_stalled(self) -> None:
        """The limit had been reached, but this one stalled: its audio and its rows once more."""
        late = self._desk.late_audio
        if late is None or not self._refused:
            return
        for row, data in self._kept:
            late.append("chunks", **row, audio_offset=late.append_audio(data) if data else None)


async def speak(desk: Desk, stage: Stage, load: VoicesLoad, turn: Turn) -> Heard:
    """One utterance from its connection to its end. When cancelled it leaves a row that says so."""
    tenant = desk.settings.tenants[load.tenant]
    limits = desk.limits(stage, stall=True)
    outcome = Outcome(due_ns=turn.due_ns, secrets=tenant.secrets)
    rows = StreamRows(
        desk, stage, outcome, tenant=load.tenant, load=load.name, kind="voices", listener=turn.listener,
        delayed=turn.delayed_ns,
    )  # fmt: skip
    consumer = _VoiceConsumer(desk, load, rows, turn.tap, lambda: stage.output(load.name, turn.listener))
    url = tenant.url(turn.listener, SPEECH_PATH)
    opened = await desk.transport.ahead(url, turn.due_ns, limits)
    try:
        await sleep_until(turn.due_ns)
    except asyncio.CancelledError:
        if not isinstance(opened, Exception):
            opened.close()
        raise
    utterance, text = turn.line()
    rows.set(utterance=utterance)
    body = speech_request(
        model=tenant.model, voice=tenant.voice, text=text, response_format="pcm", extra=tenant.extra
    )
    request = Request(url=url, headers=desk.headers(tenant, rows.stream), body=body)
    try:
        await desk.transport.exchange(opened, request, outcome, limits, consumer)
    except asyncio.CancelledError:
        rows.stopped()
        raise
    finally:
        if turn.tap is not None:
            turn.tap.end()
    return _conclude(desk, stage, outcome, rows, consumer)


def _conclude(
    desk: Desk, stage: Stage, outcome: Outcome, rows: StreamRows, consumer: _VoiceConsumer
) -> Heard:
    rows.ended()
    done_ns, whole = outcome.done_ns, outcome.end == "eos"
    assert done_ns is not None
    end_ns = done_ns
    if consumer.media_ns:
        playback = play(
            consumer.arrival_ns,
            consumer.media_ns,
            desk.settings.player,
            done_ns=done_ns if whole else None,
            give_up_ns=None if whole else done_ns,
        )
        # A turn is over when it was heard and when nothing of it can come any more.
        end_ns = max(done_ns, playback.end_ns or done_ns)
        if stage.measured(outcome.due_ns):
            stage.counts.underruns += playback.underruns or 0
        if not whole or playback.stall_total_ns:
            consumer.keep_stalled()
        if whole:
            desk.pace = _pace(consumer.arrival_ns, consumer.media_ns)
    return Heard(end_ns=end_ns, done_ns=done_ns, failed=not whole)


def _pace(arrival_ns: list[int], durations_ns: list[int]) -> list[tuple[int, int]]:
    return [(at - arrival_ns[0], media) for at, media in zip(arrival_ns, durations_ns, strict=True)]
