"""Mutated streams by the hundred thousand: events, nothing yet, or one fault with its offset; never more."""

import random
import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from cotenant.errors import ServiceError
from cotenant.records import ERROR_KINDS
from cotenant.wire import sse
from cotenant.wire.completions import CompletionDecoder
from cotenant.wire.http1 import Body, Head, Http1Client
from cotenant.wire.pcm import BYTES_PER_SAMPLE
from cotenant.wire.speech import Audio, SpeechDecoder
from cotenant.wire.speech_socket import SpeechSocketDecoder
from cotenant.wire.sse import SseDecoder
from cotenant.wire.wav import WavDecoder
from tests.wire.make_quirks import DONE, chunk, delta, wav

AUDIO: Final = bytes(range(64))
LIST: Final = chunk(b"LIST", b"INFOx")
MB: Final = 1 << 20

# What stands in many places of the streams: sizes, names and signs that matter to one decoder or another.
TOKENS: Final = (
    b"RIFF", b"WAVE", b"data", b"fmt ", b"LIST", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\xf0\xff\x7f",
    b"\x01\0\0\0", b"\xfe\xff", b"data: ", b"\n\n", b"\r\n", b"\r", b":", b"[DONE]", b'{"', b"}", b"[[[[",
    b"null", b"-1", b"1e999", b"NaN", b"\\ud800", b"\xff\xfe", b"\0", b"=", b"audio.done", b"error",
    b"7fffffff", b"OggS", b"ID3",
)  # fmt: skip


def mutated(rng: random.Random, data: bytes) -> bytes:
    """One to three changes."""
    for _ in range(1 + rng.getrandbits(8) % 3):
        at = int(rng.random() * (len(data) + 1))
        size = 1 << (rng.getrandbits(8) % 5)
        change = rng.getrandbits(3)
        if change < 2:
            data = data[:at] + rng.getrandbits(8).to_bytes(1, "little") + data[at + 1 :]
        elif change == 2:
            data = data[:at] + data[at + size :]
        elif change == 3:
            data = data[:at] + data[max(0, at - size) :]
        elif change == 4:
            data = data[:at]
        else:
            token = TOKENS[rng.getrandbits(8) % len(TOKENS)]
            data = data[:at] + token + data[at + (len(token) if change == 5 else 0) :]
    return data


def cut(rng: random.Random, data: bytes) -> list[bytes]:
    at = int(rng.random() * (len(data) + 1))
    return [data[:at], data[at:]]


FAULTS: Final[Counter[str]] = Counter()


def check(error: ServiceError, length: int) -> None:
    FAULTS[error.kind] += 1
    assert error.kind in ERROR_KINDS
    assert error.offset is not None
    assert 0 <= error.offset <= length


def speech(rng: random.Random, content_type: str, good: bytes) -> None:
    head = Head(status=200, headers={"content-type": content_type}, chunked=True)
    decoder = SpeechDecoder(head, rate_hz=24_000, sample_format=None)
    stream = mutated(rng, good)
    samples_bytes = 0
    over = False
    for piece in cut(rng, stream):
        for event in decoder.feed(Body(data=piece, closes=rng.getrandbits(1) > 0, after_bytes=0)):
            assert not over
            over = not isinstance(event, Audio)
            if isinstance(event, ServiceError):
                check(event, len(stream))
            elif isinstance(event, Audio):
                samples_bytes += event.samples * BYTES_PER_SAMPLE[decoder.sample_format]
    for event in decoder.close():
        if isinstance(event, ServiceError):
            check(event, len(stream))
    assert samples_bytes <= len(stream)


def wav_alone(rng: random.Random) -> None:
    stream = mutated(rng, WAVS[rng.getrandbits(8) % len(WAVS)])
    decoder = WavDecoder()
    taken = 0
    try:
        for piece in cut(rng, stream):
            taken += len(decoder.feed(piece))
    except ServiceError as error:
        check(error, len(stream))
    assert taken <= len(stream)


def events_alone(rng: random.Random) -> None:
    stream = mutated(rng, EVENTS)
    decoder = SseDecoder()
    found = [event for piece in cut(rng, stream) for event in decoder.feed(piece)]
    assert sum(len(event.data) for event in found) <= len(stream)


def socket(rng: random.Random) -> None:
    decoder = SpeechSocketDecoder(rate_hz=rng.choice((None, 24_000)), sample_format=None)
    length, over = 0, False
    for good in rng.choice(SESSIONS):
        bad = good if rng.random() < 0.5 else mutated(rng, good)
        binary = good[:1] != b"{"
        message = bad if binary else bad.decode(errors="replace")
        length += len(message if isinstance(message, bytes) else message.encode())
        for event in decoder.feed(message):
            assert not over
            over = not isinstance(event, Audio)
            if isinstance(event, ServiceError):
                check(event, length)
            elif isinstance(event, Audio) and event.samples:
                assert decoder.rate_hz is not None


def http(rng: random.Random) -> None:
    client = Http1Client()
    client.request("POST", "x", "/", {}, b"")
    stream = mutated(rng, HTTP)
    for piece in [*cut(rng, stream), b""]:
        for event in client.feed(piece):
            if isinstance(event, ServiceError):
                check(event, len(stream))


def completions(rng: random.Random) -> None:
    decoder = CompletionDecoder(Head(status=200, headers={"content-type": "text/event-stream"}, chunked=True))
    for piece in cut(rng, mutated(rng, COMPLETIONS)):
        for event in decoder.feed(Body(data=piece, closes=True, after_bytes=0)):
            if isinstance(event, ServiceError):
                assert event.kind in ERROR_KINDS


WAVS: Final = (
    wav(0xFFFFFFFF) + AUDIO,
    wav(64, before=LIST) + AUDIO + LIST,
    wav(64) + AUDIO + wav(64) + AUDIO,
    wav(0, fmt=struct.pack("<HHIIHH", 3, 1, 24_000, 96_000, 4, 32)) + AUDIO,
)
EVENTS: Final = b": x\r\n" + delta(AUDIO[:31]) + b"data: a\rdata: b\n\n" + delta(AUDIO[31:]) + DONE
HTTP: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nTransfer-Encoding: chunked\r\n\r\n10;a=b\r\n"
    + AUDIO[:16] + b"\r\n0\r\n\r\n"
)  # fmt: skip
_CHUNK: Final = b'{"type":"audio.chunk","sample_rate":24000,"audio_b64":"AAECAwQF","timestamps":null}'
_START: Final = b'{"type":"audio.start","format":"pcm","sample_rate":24000,"channels":1}'
_END: Final = (b'{"type":"audio.done","total_bytes":6,"error":false}', b'{"type":"session.done"}')
SESSIONS: Final = (
    (_START, AUDIO, AUDIO[:7], *_END),
    (_START, _CHUNK, *_END),
    (b'{"type":"audio.start","format":"wav"}', wav(64) + AUDIO, wav(64) + AUDIO, *_END),
    (b'{"type":"error","message":"x","partial_audio":true}',),
)
COMPLETIONS: Final = (
    b'data: {"choices":[{"text":"a"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'
    b'data: {"choices":[{"text":"b"}]}\n\ndata: [DONE]\n\n'
)
CASES: Final[Mapping[str, tuple[int, Callable[[random.Random], None]]]] = {
    "raw": (40_000, lambda rng: speech(rng, "audio/pcm", AUDIO)),
    "wav": (40_000, lambda rng: speech(rng, "audio/wav", WAVS[rng.getrandbits(8) % len(WAVS)])),
    "wav alone": (100_000, wav_alone),
    "events": (12_000, lambda rng: speech(rng, "text/event-stream", EVENTS)),
    "events alone": (20_000, events_alone),
    "socket": (15_000, socket),
    "http": (8_000, http),
    "completions": (10_000, completions),
}


def test_it_is_a_hundred_thousand() -> None:
    assert sum(count for count, _ in CASES.values()) >= 100_000


@pytest.mark.parametrize("name", CASES)
def test_mutated_streams(name: str) -> None:
    count, one = CASES[name]
    rng = random.Random(name)
    before = FAULTS.total()
    for case in range(count):
        try:
            one(rng)
        except ServiceError as error:
            # Only a head may be refused at once, and the heads here are good ones.
            raise AssertionError(f"case {case}") from error
    if name not in ("raw", "events alone", "completions"):  # where next to nothing is wrong, or not counted
        assert FAULTS.total() - before > count // 50


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_two_declared_gigabytes_allocate_nothing() -> None:
    size = 2_000_000_000
    declared = {
        "samples": lambda: WavDecoder().feed(wav(size) + AUDIO),
        "another chunk": lambda: WavDecoder().feed(wav(0, before=b"LIST" + struct.pack("<I", size))[:-8]),
        "a body": lambda: _http(b"HTTP/1.1 200 OK\r\nContent-Length: 2000000000\r\n\r\n" + AUDIO),
        "a transfer chunk": lambda: _http(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n77359400\r\n" + AUDIO
        ),
    }
    for what, work in declared.items():
        assert peak_bytes(work) < MB, what


def _http(data: bytes) -> None:
    client = Http1Client()
    client.request("POST", "x", "/", {}, b"")
    assert not any(isinstance(event, ServiceError) for event in client.feed(data))


def test_a_transfer_chunk_that_never_ends_is_handed_on_in_parts() -> None:
    head = Head(status=200, headers={"content-type": "audio/pcm"}, chunked=True)
    decoder = SpeechDecoder(head, rate_hz=24_000, sample_format=None)
    samples = 0

    def feed() -> None:
        nonlocal samples
        piece = bytes(MB)
        for _ in range(100):
            events = decoder.feed(Body(data=piece, closes=False, after_bytes=0))
            samples += sum(event.samples for event in events if isinstance(event, Audio))

    assert peak_bytes(feed) < 60 * MB
    assert samples >= 90 * MB // 2


def test_a_header_line_of_a_megabyte_is_refused() -> None:
    client = Http1Client()
    client.request("POST", "x", "/", {}, b"")
    stream = b"HTTP/1.1 200 OK\r\nX-Long: " + b"y" * MB
    read, error = 0, None
    while error is None:
        events = client.feed(stream[read : read + 4096])
        error = next((event for event in events if isinstance(event, ServiceError)), None)
        read += 4096
    assert error.kind == "protocol"
    assert error.offset is not None
    assert error.offset < 128 << 10


def test_an_event_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_LIMIT_BYTES", MB)
    for line in (b"data: " + b"x" * 60_000, b"data:\n" * 10_000):
        head = Head(status=200, headers={"content-type": "text/event-stream"}, chunked=True)
        decoder = SpeechDecoder(head, rate_hz=24_000, sample_format=None)
        errors: list[ServiceError] = []
        for _ in range(20):
            found = decoder.feed(Body(data=line, closes=True, after_bytes=0))
            errors += [event for event in found if isinstance(event, ServiceError)]
        assert [error.kind for error in errors] == ["protocol"]
