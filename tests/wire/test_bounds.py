"""What a server says of sizes allocates nothing, and what never ends is refused or handed on in parts."""

import struct
import tracemalloc
from collections.abc import Callable
from typing import Final

import pytest

from cotenant.errors import ServiceError
from cotenant.wire import sse
from cotenant.wire.http1 import Body, Head, Http1Client
from cotenant.wire.speech import Audio, SpeechDecoder
from cotenant.wire.wav import WavDecoder
from tests.wire.make_quirks import wav

AUDIO: Final = bytes(range(64))
MB: Final = 1 << 20


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
