"""A hundred thousand mutated streams at each decoder of speech, HTTP and metrics: events, nothing yet, or one
fault with its offset; never another exception, and never a hang.
"""

import importlib
import inspect
import pickle
import pkgutil
import random
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final, get_type_hints

import pytest

import cotenant.wire
from cotenant.errors import ServiceError
from cotenant.wire.head_codec import HeadCodec
from cotenant.wire.http1 import Body, Head, Http1Client
from cotenant.wire.pcm import BYTES_PER_SAMPLE, PcmDecoder
from cotenant.wire.prometheus import PrometheusDecoder
from cotenant.wire.samples import SampleDecoder
from cotenant.wire.speech import Audio, SpeechDecoder
from cotenant.wire.speech_socket import SpeechSocketDecoder
from cotenant.wire.sse import SseDecoder
from cotenant.wire.wav import WavDecoder
from tests.halves import Results, asked_for, halves, result
from tests.wire import test_llm_face_fuzz
from tests.wire.fuzzing import THROWN, One, Thrown, Told, cut, mutated, throw, told
from tests.wire.make_quirks import DONE, chunk, delta, wav

AUDIO: Final = bytes(range(64))
LIST: Final = chunk(b"LIST", b"INFOx")

# What stands in many places of the streams: sizes, names and signs that matter to one decoder or another.
TOKENS: Final = (
    b"RIFF", b"WAVE", b"data", b"fmt ", b"LIST", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\xf0\xff\x7f",
    b"\x01\0\0\0", b"\xfe\xff", b"data: ", b"\n\n", b"\r\n", b"\r", b":", b"[DONE]", b'{"', b"}", b"[[[[",
    b"null", b"-1", b"1e999", b"NaN", b"\\ud800", b"\xff\xfe", b"\0", b"=", b"audio.done", b"error",
    b"7fffffff", b"OggS", b"ID3",
)  # fmt: skip
WAVS: Final = (
    wav(0xFFFFFFFF) + AUDIO,
    wav(64, before=LIST) + AUDIO + LIST,
    wav(64) + AUDIO + wav(64) + AUDIO,
    wav(0, fmt=struct.pack("<HHIIHH", 3, 1, 24_000, 96_000, 4, 32)) + AUDIO,
)
EVENTS: Final = (
    delta(AUDIO[:7]),
    b': x\r\ndata: {"type":"speech.audio.delta",\rdata: "audio":"AAEC"}\n\ndata: [DONE]\n\n',
    DONE,
)
HTTP: Final = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\n\1\2\3\4\5\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n\1\2\3\4\5",
)
_CHUNK: Final = b'{"type":"audio.chunk","sample_rate":24000,"audio_b64":"AAECAwQF","timestamps":null}'
_START: Final = b'{"type":"audio.start","format":"pcm","sample_rate":24000,"channels":1}'
_END: Final = (b'{"type":"audio.done","total_bytes":6,"error":false}', b'{"type":"session.done"}')
SESSIONS: Final = (
    (_START, AUDIO, AUDIO[:7], *_END),
    (_START, _CHUNK, *_END),
    (b'{"type":"audio.start","format":"wav"}', wav(64) + AUDIO, wav(64) + AUDIO, *_END),
    (b'{"type":"error","message":"x","partial_audio":true}',),
)
METRICS: Final = b'# HELP a b\na:b_c{e="0",m="q\\"b"} 8.0\nd{le="+Inf"} 1e3 1700000000 # {} 1\nup 1\n'


def one_of(rng: random.Random, streams: tuple[bytes, ...]) -> bytes:
    return streams[rng.getrandbits(8) % len(streams)]


def speech(content_type: str, *streams: bytes) -> One:
    head = Head(status=200, headers={"content-type": content_type}, chunked=True)

    def one(rng: random.Random, thrown: Thrown) -> SpeechDecoder:
        decoder = SpeechDecoder(head, rate_hz=24_000, sample_format=None)
        stream = mutated(rng, one_of(rng, streams), TOKENS)
        samples_bytes = 0
        over = False
        for piece in cut(rng, stream):
            for event in decoder.feed(Body(data=piece, closes=rng.getrandbits(1) > 0, after_bytes=0)):
                assert not over
                over = not isinstance(event, Audio)
                if isinstance(event, ServiceError):
                    thrown.fault(event, len(stream))
                elif isinstance(event, Audio):
                    samples_bytes += event.samples * BYTES_PER_SAMPLE[decoder.sample_format]
        for event in decoder.close():
            if isinstance(event, ServiceError):
                thrown.fault(event, len(stream))
        assert samples_bytes <= len(stream)
        return decoder

    return one


def plain(make: Callable[[], WavDecoder | PcmDecoder], *streams: bytes) -> One:
    """A decoder of bytes into the bytes of samples."""

    def one(rng: random.Random, thrown: Thrown) -> object:
        stream = mutated(rng, one_of(rng, streams), TOKENS)
        decoder, taken = make(), 0
        try:
            for piece in cut(rng, stream):
                taken += len(decoder.feed(piece))
        except ServiceError as error:
            thrown.fault(error, len(stream))
        assert taken <= len(stream)
        return decoder

    return one


def samples(rng: random.Random, thrown: Thrown) -> SampleDecoder:
    """Under SpeechDecoder, which adds the offset where this one gives none."""
    decoder = SampleDecoder(rate_hz=24_000, sample_format="s16", raw_is_sure=rng.getrandbits(1) > 0)
    stream = mutated(rng, one_of(rng, (AUDIO, *WAVS)), TOKENS)
    taken = 0
    try:
        for piece in cut(rng, stream):
            taken += len(decoder.feed(piece))
    except ServiceError as error:
        thrown.fault(error, len(stream))
    assert taken <= len(stream)
    return decoder


def events_alone(rng: random.Random, _: Thrown) -> SseDecoder:
    stream = mutated(rng, one_of(rng, EVENTS), TOKENS)
    decoder = SseDecoder()
    found = [event for piece in cut(rng, stream) for event in decoder.feed(piece)]
    assert sum(len(event.data) for event in found) <= len(stream)
    return decoder


def socket(rng: random.Random, thrown: Thrown) -> SpeechSocketDecoder:
    decoder = SpeechSocketDecoder(rate_hz=24_000 if rng.getrandbits(1) else None, sample_format=None)
    length, over = 0, False
    for good in SESSIONS[rng.getrandbits(8) % len(SESSIONS)]:
        bad = good if rng.getrandbits(1) else mutated(rng, good, TOKENS)
        message = bad.decode(errors="replace") if good[:1] == b"{" else bad
        length += len(message if isinstance(message, bytes) else message.encode())
        for event in decoder.feed(message):
            assert not over
            over = not isinstance(event, Audio)
            if isinstance(event, ServiceError):
                thrown.fault(event, length)
            elif isinstance(event, Audio) and event.samples:
                assert decoder.rate_hz is not None
    return decoder


def asked() -> bytes:
    """A client that has sent its request, pickled: to send it anew is most of the time of one stream."""
    client = Http1Client()
    client.request("GET", "x", "/", {}, b"")
    return pickle.dumps(client)


ASKED: Final = asked()


def http(rng: random.Random, thrown: Thrown) -> Http1Client:
    client: Http1Client = pickle.loads(ASKED)
    stream = mutated(rng, one_of(rng, HTTP), TOKENS)
    for piece in [*cut(rng, stream), b""]:
        for event in client.feed(piece):
            if isinstance(event, ServiceError):
                thrown.fault(event, len(stream))
    return client


def metrics(rng: random.Random, thrown: Thrown) -> PrometheusDecoder:
    stream = mutated(rng, METRICS, TOKENS)
    decoder = PrometheusDecoder()
    try:
        found = [sample for piece in cut(rng, stream) for sample in decoder.feed(piece)] + decoder.close()
        assert len(found) <= stream.count(b"\n") + 1
    except ServiceError as error:
        thrown.fault(error, len(stream))
    return decoder


CASES: Final[Mapping[str, tuple[type, One]]] = {
    "raw": (SpeechDecoder, speech("audio/pcm", AUDIO)),
    "wav": (SpeechDecoder, speech("audio/wav", *WAVS)),
    "events": (SpeechDecoder, speech("text/event-stream", *EVENTS)),
    "wav alone": (WavDecoder, plain(WavDecoder, *WAVS)),
    "samples alone": (SampleDecoder, samples),
    "pcm alone": (PcmDecoder, plain(lambda: PcmDecoder(2), AUDIO)),
    "events alone": (SseDecoder, events_alone),
    "socket": (SpeechSocketDecoder, socket),
    "http": (Http1Client, http),
    "metrics": (PrometheusDecoder, metrics),
}
# Where next to nothing can be wrong.
FAULTLESS: Final = ("raw", "pcm alone", "events alone")


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
    if name not in FAULTLESS:
        assert THROWN // 50 < found["faults"] < THROWN


def test_no_decoder_is_left_out() -> None:
    """Whatever in the package takes bytes or messages in, one after another."""
    found = set()
    for module in pkgutil.iter_modules(cotenant.wire.__path__, "cotenant.wire."):
        for _, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            takes = getattr(one, "feed", None) or getattr(one, "message", None)
            if one.__module__.startswith("cotenant.wire") and inspect.isfunction(takes):
                assert get_type_hints(takes)
                found.add(one)
    tried = {decoder for decoder, _ in (*CASES.values(), *test_llm_face_fuzz.CASES.values())}
    assert tried == found - {HeadCodec}


def test_a_decoder_that_hangs_fails() -> None:
    def hangs(rng: random.Random, _: Thrown) -> object:
        while rng.random() < 2:
            pass
        return rng

    with pytest.raises(pytest.fail.Exception, match=r"stream 0 of 'x' kept its decoder busy for 0\.05 s"):
        throw(hangs, "x", 3, hang_s=0.05)


def test_a_decoder_that_raises_something_else_fails() -> None:
    def raises(rng: random.Random, _: Thrown) -> object:
        if rng.random() < 0.5:
            raise ValueError
        return rng

    with pytest.raises(AssertionError, match=r"stream [0-9]+ of 'x'"):
        throw(raises, "x", 100)
