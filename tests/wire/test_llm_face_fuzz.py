"""A hundred thousand mutated streams at each decoder of LLM servers and of heads: events, nothing yet, or one
fault with its offset; never another exception, and never a hang.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from cotenant.errors import ServiceError
from cotenant.wire.completions import CompletionDecoder, Tokens
from cotenant.wire.frames import pack_frame
from cotenant.wire.head_codec import HeadCodec, MappedCodec, OwnCodec
from cotenant.wire.http1 import Body, Head
from cotenant.wire.mjpeg import MjpegDecoder
from tests.halves import Results, asked_for, halves, result
from tests.wire.fuzzing import THROWN, One, Thrown, Told, cut, mutated, throw, told

SSE: Final = Head(status=200, headers={"content-type": "text/event-stream"}, chunked=True)
ANSWERS: Final = (
    b'data: {"choices":[{"text":"a"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'
    b'data: {"choices":[{"text":"b","token_ids":[1,2]}]}\n\ndata: [DONE]\n\n',
    b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
    b': x\r\n\r\ndata: {"choices":[{"delta":{"content":"a"}}],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":1}}\n\n'
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0}]},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
)
PICTURES: Final = (
    b"--f\r\nContent-Type: image/jpeg\r\nContent-Length: 8\r\nX-T: 1.5\r\n\r\n\xff\xd8abcd\xff\xd9\r\n"
    b"--f\nX-T: 2\n\n\xff\xd8ab\r\n--fcd\xff\xd9\n--f--\r\n"
)
MESSAGES: Final = (
    b'{"data":[{"frame":"/9j/4AAQ","i":7}],"t":280.5,"type":"frame"}',
    b'{"data":[{"frame":"data:image/jpeg;base64,/9j/4AAQ","i":8}],"t":320}',
    b'{"type":"over"}',
    b'{"fault":"x"}',
)
FRAMES: Final = {
    "image": "data.0.frame", "index": "data.0.i", "time_ms": "t", "done": {"type": "over"}, "error": "fault",
}  # fmt: skip
OWN: Final = (
    pack_frame(7, 280_000_000, b"\xff\xd8"),
    b'{"type":"done","frames":5}',
    b'{"type":"error","message":"m"}',
)
NASTY: Final = (
    b"Infinity", b"NaN", b"1e30", b"-1", b"2147483648", b"null", b"true", b'"x"', b"{}", b"[]", b"\xff\xfe",
    b"\\ud800", b"\0", b"\r\n", b"\n\n", b"\r", b"data: ", b"--f", b"--f--", b"Content-Length: 9",
    b"99999999999", b'"error":', b"=", b":", b"[" * 40,
)  # fmt: skip
DAY_NS: Final = 24 * 3600 * 10**9


def completions(rng: random.Random, thrown: Thrown) -> CompletionDecoder:
    stream = mutated(rng, ANSWERS[rng.getrandbits(1)], NASTY)
    decoder, over = CompletionDecoder(SSE), False
    for piece in cut(rng, stream):
        for event in decoder.feed(Body(data=piece, closes=True, after_bytes=0)):
            assert not over
            if isinstance(event, Tokens):
                assert 0 <= event.tokens < 2**31
            elif isinstance(event, ServiceError):
                thrown.fault(event, len(stream))
                over = True
    return decoder


def mjpeg(rng: random.Random, thrown: Thrown) -> MjpegDecoder:
    stream = mutated(rng, PICTURES, NASTY)
    boundary = "; boundary=f" if rng.random() < 0.8 else ""
    decoder = MjpegDecoder(
        "multipart/x-mixed-replace" + boundary, fps=25, time_header="x-t" if rng.getrandbits(1) else None
    )
    first, second = cut(rng, stream)
    try:
        found = decoder.feed(first, 1) + decoder.feed(second, 2) + decoder.close()
    except ServiceError as error:
        thrown.fault(error, len(stream))
    else:
        assert all(0 < picture.header.payload_bytes <= len(stream) for picture in found)
        assert all(picture.header.media_time_ns >= 0 for picture in found)
    return decoder


def messages(codec: HeadCodec, goods: tuple[bytes, ...], rng: random.Random, thrown: Thrown) -> HeadCodec:
    """A good message of no matter, then one that is mutated."""
    first = '{"type":"x"}'
    codec.message(first)
    data = mutated(rng, goods[rng.getrandbits(8) % len(goods)], NASTY)
    message = data.decode(errors="replace") if data[:1] == b"{" else data
    event: object = None
    try:
        event = codec.message(message)
    except ServiceError as error:
        thrown.fault(error, len(first))
        event = error
    # The message that is at fault begins where the other one ended.
    assert not isinstance(event, ServiceError) or event.offset == len(first)
    assert 0 <= getattr(event, "media_time_ns", 0) <= DAY_NS
    return codec


CASES: Final[Mapping[str, tuple[type, One]]] = {
    "completions": (CompletionDecoder, completions),
    "mjpeg": (MjpegDecoder, mjpeg),
    "heads": (MappedCodec, lambda rng, thrown: messages(MappedCodec(FRAMES, 25), MESSAGES, rng, thrown)),
    "our head": (OwnCodec, lambda rng, thrown: messages(OwnCodec(25), OWN, rng, thrown)),
}


def work(name: str) -> Told:
    """What came of the streams at one decoder."""
    return told(throw(CASES[name][1], name))


@pytest.fixture(scope="module")
def thrown(request: pytest.FixtureRequest) -> Iterator[Results]:
    with halves(__name__, asked_for(request, list(CASES))) as results:
        yield results


@pytest.mark.parametrize("name", CASES)
def test_mutated_streams(name: str, thrown: Results) -> None:
    found = result(thrown, name)
    assert found["streams"] == {CASES[name][0].__name__: THROWN}
    # Both happen, or nothing was tried.
    assert THROWN // 50 < found["faults"] < THROWN * 49 // 50
