"""What real servers do to clients: the right samples, and the right first one, however the answer is cut."""

import struct
import time
from collections.abc import Sequence
from typing import Final

import pytest

from cotenant.errors import ServiceError
from cotenant.load.voice import Turn, speak
from cotenant.resources import data_dir
from cotenant.testing.truth_server import Script, Served, truth_server
from cotenant.units import NS_PER_MS
from cotenant.verdict.summary import JudgeOptions, judge
from cotenant.wire.http1 import Body, End, Head, Http1Client
from cotenant.wire.speech import Audio, Finished, SpeechDecoder
from cotenant.wire.speech_servers import SERVERS
from tests.load.rig import PCM_HEADERS, KeptRows, desk_for, new_stage, run, settings, tenant, voices
from tests.verdict.recordings import S, good_run
from tests.wire.make_quirks import QUIRKS, Quirk

CAPTURED: Final = data_dir("fixtures") / "wire/speech/captured"
RAMP: Final = struct.pack("<3600h", *(i % 997 for i in range(3600)))
FLOAT_RAMP: Final = struct.pack("<3600f", *((i % 997 + 0.5) / 32768 for i in range(3600)))


class Heard:
    """What a client of one protocol makes of an answer that it reads in pieces."""

    def __init__(self, protocol: str, rate_hz: int | None) -> None:
        self.server = SERVERS[protocol]
        self.rate_hz = rate_hz or self.server.rate_hz
        self.samples = b""
        self.first_at: int | None = None
        self.failure: ServiceError | None = None
        self.done = False
        self.decoder: SpeechDecoder | None = None
        self._http = Http1Client()
        self._http.request("POST", "x", "/", {}, b"")
        self._read = 0

    def feed(self, data: bytes) -> None:
        self._read += len(data)
        for event in self._http.feed(data):
            if self.failure is not None or self.done:
                return
            try:
                if isinstance(event, Head):
                    server = self.server
                    self.decoder = SpeechDecoder(
                        event, rate_hz=self.rate_hz, sample_format=server.sample_format,
                        wav_called=server.wav_called,
                    )  # fmt: skip
                elif isinstance(event, Body):
                    self._take(event)
                elif isinstance(event, End):
                    self.done = True
                else:
                    raise event
            except ServiceError as error:
                self.failure = error

    def _take(self, body: Body) -> None:
        assert self.decoder is not None
        for event in self.decoder.feed(body):
            if isinstance(event, ServiceError):
                self.failure = event
            elif isinstance(event, Finished):
                self.done = True
            elif isinstance(event, Audio) and event.samples:
                assert event.samples * (4 if self.decoder.sample_format == "f32" else 2) == len(event.data)
                self.samples += event.data
                self.first_at = self._read if self.first_at is None else self.first_at


def heard(protocol: str, pieces: Sequence[bytes], rate_hz: int | None = None) -> Heard:
    client = Heard(protocol, rate_hz)
    for piece in pieces:
        client.feed(piece)
    return client


def cuts(data: bytes) -> list[Sequence[bytes]]:
    """Whole, byte by byte, by sevens, and with bytes behind its end."""
    return [
        [data],
        [data[i : i + 1] for i in range(len(data))],
        [data[i : i + 7] for i in range(0, len(data), 7)],
        [data + b"HTTP/1.1 200 OK\r\n\r\n" + bytes(40)],
    ]


@pytest.mark.parametrize("name", QUIRKS)
def test_a_quirk(name: str) -> None:
    quirk = QUIRKS[name]
    answer = (data_dir("fixtures") / f"wire/speech/quirks/{name}.http").read_bytes()
    assert answer == quirk.response
    for pieces in cuts(answer):
        _check(quirk, heard(quirk.protocol, pieces, 24_000), one_by_one=len(pieces) == len(answer))


def _check(quirk: Quirk, client: Heard, *, one_by_one: bool) -> None:
    assert client.samples == quirk.samples
    if quirk.refused is None:
        assert client.failure is None
        assert client.decoder is not None
        assert (client.decoder.rate_hz, client.decoder.sample_format) == (quirk.rate_hz, quirk.sample_format)
        assert client.done
    else:
        assert client.failure is not None
        assert client.failure.kind == quirk.refused
    if quirk.first is None:
        assert client.first_at is None
    elif one_by_one:
        # The end of its message, one more or less where that is a line end of two bytes.
        assert client.first_at is not None
        assert quirk.first_at - 1 <= client.first_at <= quirk.first_at + 2


@pytest.mark.parametrize("name", ["mp3", "mp3-called-wav", "opus", "flac-in-events"])
def test_what_to_ask_for_instead(name: str) -> None:
    failure = heard("openai", [QUIRKS[name].response]).failure
    assert "compressed" in str(failure)
    assert "response_format: pcm" in str(failure)


CAPTURES: Final = {
    # name: protocol, samples, rate, format, whether the first read is only a header
    "kokoro-fastapi": ("kokoro-fastapi", RAMP, 24_000, "s16"),
    "kokoro-wav": ("kokoro-fastapi", RAMP, 24_000, "s16"),
    "xtts": ("xtts", RAMP, 24_000, "s16"),
    "xtts-no-header": ("xtts", RAMP, 24_000, "s16"),
    "orpheus-fastapi": ("orpheus-fastapi", RAMP, 24_000, "s16"),
    "pocket-tts": ("pocket-tts", RAMP + bytes(9600), 24_000, "s16"),
    "cosyvoice-rate": ("cosyvoice", RAMP, 24_000, "s16"),
    "cosyvoice-f32": ("cosyvoice-f32", FLOAT_RAMP, 24_000, "f32"),
}


@pytest.mark.parametrize("name", CAPTURES)
def test_bytes_captured_from_a_server(name: str) -> None:
    protocol, samples, rate_hz, sample_format = CAPTURES[name]
    answer = (CAPTURED / f"{name}.http").read_bytes()
    for pieces in cuts(answer):
        client = heard(protocol, pieces)
        assert client.failure is None
        assert client.samples == samples
        assert client.decoder is not None
        assert (client.decoder.rate_hz, client.decoder.sample_format) == (rate_hz, sample_format)
        assert client.done


def test_a_header_that_is_sent_first_is_not_the_first_sample() -> None:
    answer = (CAPTURED / "pocket-tts.http").read_bytes()
    client = heard("pocket-tts", [answer[i : i + 1] for i in range(len(answer))])
    data_at = answer.index(b"960\r\n") + 5
    assert client.first_at is not None
    assert data_at + 0x960 <= client.first_at <= data_at + 0x962


def test_raw_samples_whose_rate_nobody_tells() -> None:
    client = heard("cosyvoice", [(CAPTURED / "cosyvoice.http").read_bytes()])
    assert "`rate`" in str(client.failure)


def test_a_real_mp3_is_refused() -> None:
    client = heard("kokoro-fastapi", [(CAPTURED / "kokoro-mp3.http").read_bytes()])
    assert "audio/mpeg (mp3), which is compressed" in str(client.failure)


def test_silence_in_place_of_a_late_voice_is_heard_as_silence() -> None:
    """It counts as samples and ends the wait for the first one; the voice is audible behind it."""
    quirk = QUIRKS["silence-frames-between-chunks"]
    pieces = [(number * 50 * NS_PER_MS, piece) for number, piece in enumerate(quirk.chunks)]

    async def work() -> tuple[KeptRows, int, Served]:
        script = Script(headers=PCM_HEADERS, pieces=pieces)
        async with truth_server(lambda _: script) as server:
            load = voices()
            async with desk_for(settings([tenant(server.url)], [load])) as (desk, rows):
                due_ns = time.monotonic_ns()
                turn = Turn(listener=0, due_ns=due_ns, delayed_ns=0, line=lambda: (0, "Hello."), tap=None)
                await speak(desk, new_stage(), load, turn)
                return rows, due_ns, server.served[0]

    rows, due_ns, served = run(work())
    row, chunks = rows.stream(), rows.rows["chunks"]
    assert row["end"] == "eos"
    assert bytes(rows.audio) == quirk.samples
    assert sum(chunk["media"] for chunk in chunks) == (4 * 20 + 10 + 15) * NS_PER_MS
    # The first sample came before anything of the voice was sent.
    assert chunks[0]["arrival"] < served.sent_ns[2][0]
    arrivals = [(chunk["arrival"] - due_ns) / NS_PER_MS for chunk in chunks]
    builder = good_run()
    builder.rows["streams"].clear()
    builder.rows["chunks"].clear()
    builder.voice("alone", 20 * S, arrivals, [chunk["media"] / NS_PER_MS for chunk in chunks])
    builder.rows["streams"][-1]["leading_silence"] = row["leading_silence"]
    speech = judge(builder.build(), JudgeOptions(decision="point"))["stages"][0]["speech"]
    assert speech["ttfa_ms"]["p50"] == pytest.approx(arrivals[0], abs=0.1)
    assert row["leading_silence"] == 40 * NS_PER_MS
    assert speech["audible_ttfa_ms"]["p50"] == pytest.approx(arrivals[2], abs=0.1)
