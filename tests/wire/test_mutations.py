"""Decoders over answers that went wrong at random: events, or one ServiceError; never anything else."""

import base64
import json
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest

from cotenant.errors import ServiceError
from cotenant.records import ERROR_KINDS
from cotenant.wire.completions import CompletionDecoder, Tokens, Usage
from cotenant.wire.frames import config_message, pack_frame, parse_frame, parse_text
from cotenant.wire.http1 import Body, Head, Http1Client
from cotenant.wire.prometheus import PrometheusDecoder
from cotenant.wire.speech import Audio, SpeechDecoder
from tests.wire.test_wav import wav

CASES: Final = 250  # of each decoder
COUNT_LIMIT: Final = 2**31 - 1
DEEP: Final = 5_000
NASTY: Final = (
    b"Infinity", b"-Infinity", b"NaN", b"1e30", b"-1", b"2147483648", b"1.5", b"9" * 5000, b"null", b"true",
    b'"x"', b"{}", b"[]", b"[" * DEEP, b'{"error":' * DEEP, b"\xff\xfe", b"\\ud800", b"\0", b"\r\n", b"\n\n",
    b"data: ", b"RIFF", b"\xff\xff\xff\xff", "²".encode(), "²".encode("latin-1"), b"CTF1",
)  # fmt: skip


def completion_stream() -> bytes:
    def chunk(count: int, **choice: object) -> bytes:
        value = {
            "object": "text_completion",
            "choices": [{"index": 0, "text": "a", **choice}],
            "usage": {"prompt_tokens": 128, "completion_tokens": count},
            "metrics": {"queue_time_ms": 0.5, "time_to_first_token_ms": 16.2},
        }
        return b"data: " + json.dumps(value).encode() + b"\n\n"

    error = b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
    return chunk(1) + chunk(3, token_ids=[1, 2]) + b": beat\r\n\r\n" + chunk(3) + error + b"data: [DONE]\n\n"


def speech_stream() -> bytes:
    value = {"type": "speech.audio.delta", "audio": base64.b64encode(bytes(960)).decode()}
    error = b'data: {"type":"speech.audio.error","error":{"message":"CUDA"}}\n\n'
    delta = b"event: speech.audio.delta\ndata: " + json.dumps(value).encode() + b"\n\n"
    return delta * 3 + error + b'data: {"type":"speech.audio.done"}\n\n'


def http_stream() -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm;rate=24000\r\nX-Sample-Rate: 24000\r\n"
    return (
        head + b"Transfer-Encoding: chunked\r\n\r\n3c0\r\n" + bytes(960) + b"\r\n5;e=1\r\nabcde\r\n0\r\n\r\n"
    )


METRICS: Final = (
    b'# HELP a b\nvllm:num_requests_running{engine="0",model_name="m"} 8.0\n'
    b'vllm:request_latency_bucket{le="+Inf"} 1e3 1700000000 # {} 1\nup 1\n'
)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """One to four changes: bytes flipped, cut out, doubled, put in, or a value replaced."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice((1, 2, 8, 100)))
        change = rng.randrange(6)
        if change == 0:
            data = data[:start] + rng.randbytes(end - start) + data[end:]
        elif change == 1:
            data = data[:start] + data[end:]
        elif change == 2:
            data = data[:end] + data[start:]
        elif change == 3:
            data = data[:start] + rng.choice(NASTY) + data[start:]
        elif change == 4:
            data = _other_value(rng, data)
        else:
            data = data[:start] if rng.random() < 0.3 else data
    return data


def _other_value(rng: random.Random, data: bytes) -> bytes:
    """What stands between a colon, equals sign or blank and the end of its value becomes something else."""
    starts = [i + 1 for i, byte in enumerate(data) if byte in b":= "]
    if not starts:
        return data
    start = rng.choice(starts)
    end = start
    while end < len(data) and data[end] not in b",}];\r\n":
        end += 1
    return data[:start] + rng.choice(NASTY) + data[end:]


def pieces(rng: random.Random, data: bytes) -> Iterator[bytes]:
    size = max(rng.choice((7, 50, 1000)), len(data) // 50)
    yield from (data[start : start + size] for start in range(0, len(data), size))


def check_completions(rng: random.Random) -> None:
    decoder = CompletionDecoder(Head(status=200, headers={"content-type": "text/event-stream"}, chunked=True))
    for piece in pieces(rng, mutated(rng, completion_stream())):
        for event in decoder.feed(Body(data=piece, closes=True, after_bytes=0)):
            if isinstance(event, Tokens):
                assert 0 <= event.tokens <= COUNT_LIMIT
            elif isinstance(event, Usage):
                assert 0 <= event.prompt_tokens <= COUNT_LIMIT
                assert 0 <= event.output_tokens <= COUNT_LIMIT
                assert type(event.output_tokens) is int
            elif isinstance(event, ServiceError):
                assert event.kind in ERROR_KINDS


def check_speech(rng: random.Random, headers: Mapping[str, str], good: bytes) -> None:
    told = {name: mutated(rng, value.encode()).decode("latin-1") for name, value in headers.items()}
    head = Head(status=200, headers=told if rng.random() < 0.3 else headers, chunked=True)
    decoder = SpeechDecoder(head, rate_hz=rng.choice((None, 24_000)), sample_format=None)
    events = []
    for piece in pieces(rng, mutated(rng, good)):
        events += decoder.feed(Body(data=piece, closes=rng.random() < 0.5, after_bytes=0))
    for event in events + decoder.close():
        if isinstance(event, ServiceError):
            assert event.kind in ERROR_KINDS
        elif isinstance(event, Audio) and event.samples:
            assert decoder.rate_hz is not None
            assert 1_000 <= decoder.rate_hz <= 192_000


def check_http(rng: random.Random) -> None:
    client = Http1Client()
    client.request("POST", "host", "/", {}, b"{}")
    for piece in pieces(rng, mutated(rng, http_stream())):
        for event in client.feed(piece):
            if isinstance(event, Head) and event.status == 200:
                SpeechDecoder(event, rate_hz=24_000, sample_format=None)
    client.feed(b"")


def check_frames(rng: random.Random) -> None:
    header = parse_frame(mutated(rng, pack_frame(7, 280_000_000, b"picture")))
    assert 0 <= header.media_time_ns <= 24 * 3600 * 10**9


def check_texts(rng: random.Random) -> None:
    good = rng.choice(
        (config_message(25), '{"type": "done", "frames": 5}', '{"type": "error", "message": "m"}')
    )
    found = parse_text(mutated(rng, good.encode()).decode(errors="replace"))
    assert found is None or 0 <= found <= COUNT_LIMIT


def check_metrics(rng: random.Random) -> None:
    decoder = PrometheusDecoder()
    for piece in pieces(rng, mutated(rng, METRICS)):
        decoder.feed(piece)
    decoder.close()


SSE: Final = {"content-type": "text/event-stream", "x-sample-rate": "24000"}
RAW: Final = {
    "content-type": "audio/pcm; rate=24000; channels=1",
    "x-sample-rate": "24000",
    "x-channels": "1",
}
CHECKS: Final[Mapping[str, Callable[[random.Random], None]]] = {
    "completions": check_completions,
    "speech events": lambda rng: check_speech(rng, SSE, speech_stream()),
    "raw samples": lambda rng: check_speech(rng, RAW, bytes(range(256)) * 4),
    "wav": lambda rng: check_speech(rng, {"content-type": "audio/wav"}, wav() + bytes(960)),
    "http": check_http,
    "frames": check_frames,
    "texts of a head": check_texts,
    "metrics": check_metrics,
}


@pytest.mark.parametrize("name", CHECKS)
def test_only_events_or_a_service_error(name: str) -> None:
    kinds: set[str] = set()
    for case in range(CASES):
        try:
            CHECKS[name](random.Random(f"{name}/{case}"))
        except ServiceError as error:
            kinds.add(error.kind)
    assert kinds <= set(ERROR_KINDS)
