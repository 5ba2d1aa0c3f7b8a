"""Speech answers: read by what the server says it sends, and by what it really sends."""

import base64
import json
from collections.abc import Mapping

import pytest

from cotenant.errors import ServiceError
from cotenant.wire.http1 import Body, Head
from cotenant.wire.speech import Audio, Finished, SpeechDecoder, SpeechEvent
from cotenant.wire.speech_servers import SERVERS, call
from tests.wire.test_wav import wav

SAMPLES = bytes(range(100))


def decoder(headers: Mapping[str, str], **given: object) -> SpeechDecoder:
    rate_hz, sample_format = given.get("rate_hz"), given.get("sample_format")
    assert rate_hz is None or isinstance(rate_hz, int)
    assert sample_format is None or isinstance(sample_format, str)
    head = Head(status=200, headers=dict(headers), chunked=True)
    return SpeechDecoder(head, rate_hz=rate_hz, sample_format=sample_format)


def feed(speech: SpeechDecoder, data: bytes, cut: int | None = None, after: int = 0) -> list[SpeechEvent]:
    """One transfer chunk, in one read or in two."""
    if cut is None:
        return speech.feed(Body(data=data, closes=True, after_bytes=after))
    return speech.feed(Body(data=data[:cut], closes=False, after_bytes=0)) + speech.feed(
        Body(data=data[cut:], closes=True, after_bytes=after)
    )


def audio(events: list[SpeechEvent]) -> bytes:
    return b"".join(event.data for event in events if isinstance(event, Audio))


def delta(data: bytes, **fields: object) -> bytes:
    value = {"type": "speech.audio.delta", "audio": base64.b64encode(data).decode(), **fields}
    return b"event: speech.audio.delta\ndata: " + json.dumps(value).encode() + b"\n\n"


@pytest.mark.parametrize(
    ("headers", "given", "rate_hz"),
    [
        ({"content-type": "audio/pcm;rate=22050"}, None, 22_050),
        ({"content-type": "audio/pcm; rate=16000"}, 24_000, 16_000),
        ({"content-type": "audio/pcm", "x-sample-rate": "44100"}, 24_000, 44_100),
        ({"content-type": "audio/pcm"}, 24_000, 24_000),
        ({"content-type": "application/octet-stream"}, 48_000, 48_000),
        ({}, 24_000, 24_000),
    ],
)
def test_the_rate_of_raw_samples(headers: Mapping[str, str], given: int | None, rate_hz: int) -> None:
    speech = decoder(headers, rate_hz=given)
    (event,) = feed(speech, SAMPLES)
    assert isinstance(event, Audio)
    assert (event.data, event.samples, event.message_bytes) == (SAMPLES, 50, 100)
    assert (speech.rate_hz, speech.sample_format) == (rate_hz, "s16")


def test_one_event_a_transfer_chunk_however_it_was_read() -> None:
    for cut in range(len(SAMPLES)):
        speech = decoder({"content-type": "audio/pcm;rate=24000"})
        events = feed(speech, SAMPLES, cut, after=3) + feed(speech, SAMPLES)
        assert [isinstance(event, Audio) and event.shared_read for event in events] == [True, False]
        assert audio(events) == SAMPLES * 2


def test_a_sample_cut_between_messages_belongs_to_the_one_that_completes_it() -> None:
    speech = decoder({"content-type": "audio/pcm;rate=24000"})
    events = [event for piece in (SAMPLES[:7], SAMPLES[7:8], SAMPLES[8:]) for event in feed(speech, piece)]
    assert [event.samples for event in events if isinstance(event, Audio)] == [3, 1, 46]
    assert audio(events) == SAMPLES


@pytest.mark.parametrize("content_type", ["audio/wav", "audio/x-wav", "audio/pcm", ""])
def test_wav_is_seen_whatever_the_type_says(content_type: str) -> None:
    stream = wav(rate_hz=44_100) + SAMPLES
    for cut in range(len(stream)):
        speech = decoder({"content-type": content_type}, rate_hz=24_000)
        assert audio(feed(speech, stream, cut)) == SAMPLES
        assert speech.rate_hz == 44_100


def test_a_wav_header_is_no_audio() -> None:
    speech = decoder({"content-type": "audio/wav"})
    events = feed(speech, wav()) + feed(speech, SAMPLES)
    assert [event.samples for event in events if isinstance(event, Audio)] == [0, 50]


def test_raw_samples_called_wav() -> None:
    speech = decoder({"content-type": "audio/wav"}, rate_hz=24_000)
    assert audio(feed(speech, SAMPLES)) == SAMPLES


def test_floats() -> None:
    speech = decoder({"content-type": "audio/pcm"}, rate_hz=24_000, sample_format="f32")
    (event,) = feed(speech, SAMPLES)
    assert isinstance(event, Audio)
    assert event.samples == 25


@pytest.mark.parametrize("head", [b"", wav()], ids=["pcm", "wav"])
def test_sse_deltas(head: bytes) -> None:
    body = b": hi\n\n" + (delta(head) if head else b"") + delta(SAMPLES[:51]) + delta(SAMPLES[51:])
    body += b'event: speech.audio.done\ndata: {"type":"speech.audio.done","usage":{}}\n\n'
    for cut in (None, *range(0, len(body), 7)):
        speech = decoder({"content-type": "text/event-stream; charset=utf-8"}, rate_hz=24_000)
        events = feed(speech, body, cut)
        assert audio(events) == SAMPLES
        assert isinstance(events[-1], Finished)
    assert feed(speech, delta(SAMPLES)) == []


def test_sse_shared_reads() -> None:
    speech = decoder({"content-type": "text/event-stream"}, rate_hz=24_000)
    events = feed(speech, delta(SAMPLES) + delta(SAMPLES)) + feed(speech, delta(SAMPLES), after=5)
    assert [event.shared_read for event in events if isinstance(event, Audio)] == [True, False, True]


def test_livekit_style_deltas_and_done_mark() -> None:
    speech = decoder({"content-type": "text/event-stream"}, rate_hz=24_000)
    encoded = base64.b64encode(SAMPLES).decode()
    body = f'data: {{"type":"speech.audio.delta","delta":"{encoded}"}}\n\ndata: [DONE]\n\n'.encode()
    events = feed(speech, body)
    assert audio(events) == SAMPLES
    assert isinstance(events[-1], Finished)


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (
            b'data: {"type":"speech.audio.error","error":{"message":"gone wrong"}}\n\n',
            "in_stream",
            "gone wrong",
        ),
        (b'event: error\ndata: {"message":"broken"}\n\n', "in_stream", "broken"),
        (b'data: {"type":"speech.audio.delta","audio":"***"}\n\n', "protocol", "no speech event"),
        (b"data: {\n\n", "protocol", "no speech event"),
        (b"data: [1]\n\n", "protocol", "no speech event"),
    ],
)
def test_faults_inside_a_stream_come_after_what_was_good(body: bytes, kind: str, words: str) -> None:
    speech = decoder({"content-type": "text/event-stream"}, rate_hz=24_000)
    events = feed(speech, delta(SAMPLES) + body)
    assert audio(events) == SAMPLES
    assert isinstance(events[-1], ServiceError)
    assert events[-1].kind == kind
    assert words in str(events[-1])


@pytest.mark.parametrize("content_type", ["audio/mpeg", "application/json", "text/html"])
def test_what_cannot_be_played_is_a_protocol_error(content_type: str) -> None:
    with pytest.raises(ServiceError, match=content_type):
        decoder({"content-type": content_type})


def test_raw_samples_of_unknown_rate_are_a_protocol_error() -> None:
    (event,) = feed(decoder({"content-type": "audio/pcm"}), SAMPLES)
    assert isinstance(event, ServiceError)
    assert "rate" in str(event)


def test_a_message_that_was_cut_counts_as_far_as_it_came() -> None:
    speech = decoder({"content-type": "audio/pcm;rate=24000"})
    assert speech.feed(Body(data=SAMPLES[:11], closes=False, after_bytes=0)) == []
    assert audio(speech.close()) == SAMPLES[:10]
    assert speech.close() == []


def test_the_request() -> None:
    asked = call(SERVERS["openai"], "Hi.", model="m", voice=None, extra={"stream_format": "audio"})
    assert asked.content_type == "application/json"
    assert json.loads(asked.body) == {
        "model": "m", "input": "Hi.", "response_format": "pcm", "stream": True, "stream_format": "audio",
    }  # fmt: skip


@pytest.mark.parametrize("told", ["²", "٢٤٠٠٠", "-24000", "1e4", "0", "999", "192001", "9" * 5000, " "])
def test_a_rate_that_is_none_is_not_taken(told: str) -> None:
    assert decoder({"content-type": "audio/pcm", "x-sample-rate": told}, rate_hz=24_000).rate_hz == 24_000
    assert decoder({"content-type": f"audio/pcm;rate={told}"}, rate_hz=24_000).rate_hz == 24_000


@pytest.mark.parametrize("told", ["-5", "NaN", "1e9", "0", "192001", "24 kHz", "9" * 5000])
@pytest.mark.parametrize("header", ["x-sample-rate", "x-audio-sample-rate", "content-type"])
def test_a_rate_that_is_none_is_not_played_at_the_one_of_the_papers(told: str, header: str) -> None:
    headers = {"content-type": "audio/pcm", header: told}
    if header == "content-type":
        headers = {header: f"audio/pcm; rate={told}"}
    head = Head(status=200, headers=headers, chunked=True)
    found = SpeechDecoder(head, rate_hz=None, sample_format=None, assumed_hz=24_000)
    assert found.rate_hz is None
    (event,) = found.feed(Body(data=SAMPLES, closes=True, after_bytes=0))
    assert isinstance(event, ServiceError)
    assert event.kind == "protocol"
    assert f"tells a sample rate of '{told[:40]}', which is none" in str(event)
    assert "set the tenant's `rate`" in str(event)
    assert SpeechDecoder(head, rate_hz=8_000, sample_format=None, assumed_hz=24_000).rate_hz == 8_000


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({}, 24_000),
        ({"x-sample-rate": ""}, 24_000),
        ({"content-type": "audio/pcm;rate="}, 24_000),
        ({"content-type": "audio/pcm;rate=16000.0"}, 16_000),
        ({"content-type": "audio/pcm;rate=-5", "x-sample-rate": "44100"}, 44_100),
    ],
)
def test_the_rate_of_the_papers_is_for_answers_that_tell_none(headers: dict[str, str], wanted: int) -> None:
    head = Head(status=200, headers={"content-type": "audio/pcm", **headers}, chunked=True)
    assert SpeechDecoder(head, rate_hz=None, sample_format=None, assumed_hz=24_000).rate_hz == wanted


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"type":{"a":1}}', b"7"])
def test_an_event_that_tells_nonsense(data: bytes) -> None:
    (event,) = decoder({"content-type": "text/event-stream"}).feed(
        Body(data=b"data: " + data + b"\n\n", closes=True, after_bytes=0)
    )
    assert isinstance(event, ServiceError)
    assert event.kind == "protocol"


@pytest.mark.parametrize("encoding", ["gzip", "br", "Deflate", "identity, gzip"])
def test_a_compressed_answer_is_a_protocol_error(encoding: str) -> None:
    head = Head(status=200, headers={"content-type": "audio/pcm", "content-encoding": encoding}, chunked=True)
    with pytest.raises(ServiceError, match="Content-Encoding") as caught:
        SpeechDecoder(head, rate_hz=24_000, sample_format=None)
    assert (caught.value.kind, caught.value.offset) == ("protocol", 0)


def test_an_answer_that_is_as_it_is_may_say_so() -> None:
    headers = {"content-type": "audio/pcm", "content-encoding": "Identity"}
    decoder = SpeechDecoder(
        Head(status=200, headers=headers, chunked=True), rate_hz=8_000, sample_format=None
    )
    (event,) = decoder.feed(Body(data=b"\0\0", closes=True, after_bytes=0))
    assert isinstance(event, Audio)
    assert event.samples == 1
