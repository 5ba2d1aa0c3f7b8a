"""Thousands of broken streams through the decoders of LLM servers and heads: events or one ServiceError."""

import random
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from cotenant.errors import ServiceError
from cotenant.records import ERROR_KINDS
from cotenant.wire.completions import CompletionDecoder, Tokens
from cotenant.wire.head_codec import MappedCodec
from cotenant.wire.http1 import Body, Head
from cotenant.wire.mjpeg import MjpegDecoder

SSE: Final = Head(status=200, headers={"content-type": "text/event-stream"}, chunked=True)
CHAT: Final = (
    b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
    b': x\r\n\r\ndata: {"choices":[{"delta":{"content":"a"}}],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":1}}\n\n'
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0}]},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
PICTURES: Final = (
    b"--f\r\nContent-Type: image/jpeg\r\nContent-Length: 8\r\nX-T: 1.5\r\n\r\n\xff\xd8abcd\xff\xd9\r\n"
    b"--f\nX-T: 2\n\n\xff\xd8ab\r\n--fcd\xff\xd9\n--f--\r\n"
)
MESSAGE: Final = b'{"data":[{"frame":"/9j/4AAQ","i":7}],"t":280.5,"type":"frame"}'
FRAMES: Final = {
    "image": "data.0.frame", "index": "data.0.i", "time_ms": "t", "done": {"type": "over"}, "error": "fault",
}  # fmt: skip
NASTY: Final = (
    b"Infinity", b"NaN", b"1e30", b"-1", b"2147483648", b"null", b"true", b'"x"', b"{}", b"[]", b"\xff\xfe",
    b"\\ud800", b"\0", b"\r\n", b"\n\n", b"\r", b"data: ", b"--f", b"--f--", b"Content-Length: 9",
    b"99999999999", b'"error":', b"=", b":", b"[" * 40,
)  # fmt: skip


def mutated(rng: random.Random, data: bytes) -> bytes:
    for _ in range(rng.randint(1, 3)):
        start = int(rng.random() * (len(data) + 1))
        end = start + int(rng.random() * 12)
        change = rng.random()
        if change < 0.25:
            data = data[:start] + data[end:]
        elif change < 0.4:
            data = data[:end] + data[start:]
        elif change < 0.9:
            data = data[:start] + NASTY[int(rng.random() * len(NASTY))] + data[end:]
        else:
            data = data[:start]
    return data


def completions(rng: random.Random) -> None:
    data, decoder = mutated(rng, CHAT), CompletionDecoder(SSE)
    cut = int(rng.random() * len(data))
    for piece in (data[:cut], data[cut:]):
        for event in decoder.feed(Body(data=piece, closes=True, after_bytes=0)):
            if isinstance(event, Tokens):
                assert 0 <= event.tokens < 2**31
            elif isinstance(event, ServiceError):
                assert event.kind in ERROR_KINDS


def mjpeg(rng: random.Random) -> None:
    data = mutated(rng, PICTURES)
    boundary = "; boundary=f" if rng.random() < 0.8 else ""
    decoder = MjpegDecoder(
        "multipart/x-mixed-replace" + boundary, fps=25, time_header="x-t" if rng.random() < 0.5 else None
    )
    cut = int(rng.random() * len(data))
    found = decoder.feed(data[:cut], 1) + decoder.feed(data[cut:], 2) + decoder.close()
    assert all(0 < picture.header.payload_bytes <= len(data) for picture in found)
    assert all(picture.header.media_time_ns >= 0 for picture in found)


def heads(rng: random.Random) -> None:
    event = MappedCodec(FRAMES, 25).message(mutated(rng, MESSAGE))
    media_time_ns = getattr(event, "media_time_ns", 0)
    assert 0 <= media_time_ns <= 24 * 3600 * 10**9


CASES: Final[Mapping[str, tuple[Callable[[random.Random], None], int]]] = {
    "completions": (completions, 20_000),
    "mjpeg": (mjpeg, 20_000),
    "heads": (heads, 20_000),
}


@pytest.mark.parametrize("name", CASES)
def test_only_events_or_a_service_error(name: str) -> None:
    work, number = CASES[name]
    rng = random.Random(name)
    good, kinds = 0, set()
    for _ in range(number):
        try:
            work(rng)
            good += 1
        except ServiceError as error:
            kinds.add(error.kind)
    # Both happen, or nothing was tried.
    assert good > number // 50
    assert kinds <= set(ERROR_KINDS)
