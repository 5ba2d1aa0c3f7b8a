"""The table of speech servers: what is sent to each, and how one is recognised."""

import json
from collections.abc import Mapping
from typing import Any, get_args
from urllib.parse import parse_qs

import pytest

from cotenant.errors import ServiceError
from cotenant.resources import data_dir
from cotenant.scenario.schema import PROTOCOLS
from cotenant.wire.addresses import at_root, over_http, service_url
from cotenant.wire.http1 import Head
from cotenant.wire.json_values import count
from cotenant.wire.protocols import Tested
from cotenant.wire.speech import Audio, Finished
from cotenant.wire.speech_probe import describe, read_answer, recognise
from cotenant.wire.speech_servers import SERVERS, call, speaker_fields
from cotenant.wire.speech_socket import SpeechSocketDecoder, session_messages, text_pieces
from tests.wire.make_quirks import QUIRKS, wav

SAMPLES = bytes(range(100))


def test_the_scenario_knows_every_row_and_no_other() -> None:
    assert PROTOCOLS["speech"] == tuple(SERVERS)
    assert {quirk.protocol for quirk in QUIRKS.values()} <= set(SERVERS)


def test_a_row_without_captured_bytes_or_a_real_server_is_experimental() -> None:
    captured = {path.stem for path in (data_dir("fixtures") / "wire/speech/captured").iterdir()}
    for name, server in SERVERS.items():
        assert server.tested in get_args(Tested)
        assert not server.experimental
        assert (server.tested == "captured bytes") == (name in captured), name
        assert describe(name)["experimental"] is server.experimental


def body(protocol: str, **given: Any) -> dict[str, Any]:
    values: dict[str, Any] = {"model": None, "voice": None, "extra": {}, **given}
    asked = call(SERVERS[protocol], "Hi & bye.", **values)
    if asked.content_type == "application/json":
        found: dict[str, Any] = json.loads(asked.body)
        return found
    assert asked.content_type == "application/x-www-form-urlencoded"
    return {name: value for name, (value,) in parse_qs(asked.body.decode(), strict_parsing=True).items()}


@pytest.mark.parametrize(
    ("protocol", "given", "sent"),
    [
        ("openai", {}, {"input": "Hi & bye.", "response_format": "pcm", "stream": True}),
        (
            "vllm-omni",
            {"voice": "v", "extra": {"language": "de"}},
            {"input": "Hi & bye.", "response_format": "pcm", "stream": True, "stream_format": "audio",
             "voice": "v", "language": "de"},
        ),
        (
            "kokoro-fastapi", {"voice": "af_sky"},
            {"input": "Hi & bye.", "response_format": "pcm", "stream": True, "model": "kokoro",
             "voice": "af_sky"},
        ),
        (
            "xtts", {"voice": "Ana", "model": "x", "extra": {"language": "fr"}},
            {"text": "Hi & bye.", "language": "fr", "add_wav_header": True, "stream_chunk_size": "20"},
        ),
        ("piper", {"voice": "joe", "model": "m"}, {"text": "Hi & bye.", "voice": "joe"}),
        ("pocket-tts", {"voice": "alba"}, {"text": "Hi & bye.", "voice_url": "alba"}),
        ("cosyvoice", {"voice": "x", "extra": {"n": 3}}, {"tts_text": "Hi & bye.", "spk_id": "x", "n": "3"}),
    ],
)  # fmt: skip
def test_what_is_sent(protocol: str, given: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
    assert body(protocol, **given) == sent


def test_extra_wins_over_all() -> None:
    sent = body("openai", voice="a", extra={"voice": "b", "response_format": "wav", "input": "x"})
    assert (sent["voice"], sent["response_format"], sent["input"]) == ("b", "wav", "x")


def api(title: str = "FastAPI", *paths: str) -> dict[str, Any]:
    return {"/openapi.json": {"info": {"title": title}, "paths": {path: {} for path in paths}}}


@pytest.mark.parametrize(
    ("said", "protocol", "sure"),
    [
        (api("Kyutai Pocket TTS API", "/tts"), "pocket-tts", True),
        (api("Orpheus-FASTAPI", "/v1/audio/speech"), "orpheus-fastapi", True),
        (api("XTTS Streaming server", "/tts_stream"), "xtts", True),
        (api("sglang-omni", "/v1/audio/speech"), "sglang-omni", True),
        (api("Kokoro TTS API"), "kokoro-fastapi", True),
        (api("FastAPI", "/dev/captioned_speech", "/v1/audio/speech"), "kokoro-fastapi", True),
        (api("FastAPI", "/inference_sft"), "cosyvoice", True),
        (api("FastAPI", "/inference_sft", "/stream/inference_sft"), "cosyvoice-f32", True),
        ({"/v1/models": {"data": [{"id": "qwen3-tts", "owned_by": "vllm"}]}}, "vllm-omni", True),
        ({"/info": {"voice": {"name": "joe", "num_speakers": 1}, "last": None}}, "piper", True),
        (api("Mine", "/v1/audio/speech"), "openai", True),
        ({"/v1/models": {"data": [{"id": "m", "owned_by": "me"}]}}, "openai", False),
        ({}, "openai", False),
        ({"/openapi.json": [1], "/v1/models": {"data": {"a": 1}}, "/info": {"voice": 3}}, "openai", False),
        ({"/openapi.json": {"info": 3, "paths": [1]}, "/v1/models": {"data": [3]}}, "openai", False),
    ],
)
def test_recognised(said: Mapping[str, Any], protocol: str, sure: bool) -> None:
    found = recognise(said)
    assert (found.protocol, found.sure) == (protocol, sure)
    assert found.why


@pytest.mark.parametrize(
    ("headers", "data", "protocol", "kind", "rate_hz", "told"),
    [
        ({"content-type": "audio/pcm"}, SAMPLES, "openai", "raw", 24_000, False),
        ({"content-type": "audio/pcm"}, SAMPLES, "vllm-omni", "raw", None, False),
        ({"content-type": "audio/pcm;rate=-5"}, SAMPLES, "openai", "raw", None, True),
        (
            {"content-type": "audio/wav", "x-sample-rate": "1e9"},
            wav(100) + SAMPLES,
            "openai",
            "wav",
            24_000,
            True,
        ),
        (
            {"content-type": "audio/pcm", "x-sample-rate": "44100"},
            SAMPLES,
            "sglang-omni",
            "raw",
            44_100,
            True,
        ),
        ({"content-type": "audio/wav"}, wav(0) + SAMPLES, "vllm-omni", "wav", 24_000, True),
        ({"content-type": "text/html"}, wav(100) + SAMPLES, "piper", "wav", 24_000, True),
    ],
)
def test_the_first_answer(
    headers: Mapping[str, str], data: bytes, protocol: str, kind: str, rate_hz: int | None, told: bool
) -> None:
    answered = read_answer(Head(status=200, headers=headers, chunked=True), data, SERVERS[protocol])
    assert (answered.kind, answered.rate_hz, answered.told_rate) == (kind, rate_hz, told)
    assert answered.samples == 50


def test_a_page_is_no_wav() -> None:
    head = Head(status=200, headers={"content-type": "text/html"}, chunked=True)
    with pytest.raises(ServiceError, match="no audio: b'<!doctype"):
        read_answer(head, b"<!doctype html>", SERVERS["piper"])
    # What is a key by its form is hidden before the rest is cut.
    for before in range(50, 80):
        with pytest.raises(ServiceError, match="no audio") as told:
            read_answer(head, b"x" * before + b" sk-uniq0123456789abcdef", SERVERS["piper"])
        assert "uniq" not in str(told.value)
    for name in ("tokens", "index"):
        with pytest.raises(ServiceError, match="not a count") as told:
            count("y " * 34 + "sk-uniq0123456789abcdef", name)
        assert "uniq" not in str(told.value)
    with pytest.raises(ServiceError, match="text/html"):
        read_answer(head, wav(100) + SAMPLES, SERVERS["openai"])


def test_addresses() -> None:
    assert service_url("http://h:1", "/v1/audio/speech") == "http://h:1/v1/audio/speech"
    assert service_url("http://h:1/v1/", "/v1/audio/speech") == "http://h:1/v1/audio/speech"
    assert service_url("http://h:1/tts?k=1", "/v1/audio/speech") == "http://h:1/tts?k=1"
    assert over_http("wss://h/x") == "https://h/x"
    assert at_root("http://h:1/tts?k=1", "/openapi.json") == "http://h:1/openapi.json"


def test_text_in_pieces() -> None:
    for text in ("Rain falls.\n On the hill. ", "x", " ", ""):
        assert "".join(text_pieces(text)) == text
    assert text_pieces("Rain falls.") == ["Rain", " falls."]
    first, *_, last = (json.loads(message) for message in session_messages("a b", {"voice": "v"}))
    assert first == {"type": "session.config", "voice": "v"}
    assert last == {"type": "input.done"}


def test_half_a_sample_does_not_outlive_its_sentence() -> None:
    decoder = SpeechSocketDecoder(rate_hz=None, sample_format=None)
    start = json.dumps({"type": "audio.start", "sample_rate": 24_000})
    messages: list[bytes | str] = [start, SAMPLES[:51], start, SAMPLES, '{"type": "session.done"}', SAMPLES]
    events = [event for message in messages for event in decoder.feed(message)]
    assert [event.samples for event in events if isinstance(event, Audio)] == [25, 50]
    assert events[1].data == SAMPLES if isinstance(events[1], Audio) else False
    assert isinstance(events[-1], Finished)


def test_wav_sentences_and_a_change_of_rate() -> None:
    decoder = SpeechSocketDecoder(rate_hz=None, sample_format=None)
    for _ in range(2):
        decoder.feed('{"type": "audio.start", "format": "wav"}')
        (event,) = decoder.feed(wav(100) + SAMPLES)
        assert isinstance(event, Audio)
        assert event.data == SAMPLES
    (fault,) = decoder.feed('{"type": "audio.start", "sample_rate": 48000}')
    assert isinstance(fault, ServiceError)
    assert "24000 to 48000" in str(fault)


def test_a_voice_that_is_numbers() -> None:
    ana = {"speaker_embedding": [1.0], "gpt_cond_latent": [[2.0]]}
    listed = {"Ana": ana, "Bo": {**ana, "gpt_cond_latent": []}}
    assert speaker_fields(listed, None) == ana
    assert speaker_fields(listed, "Bo")["gpt_cond_latent"] == []
    for wrong in (listed, {}, [1], None):
        with pytest.raises(ServiceError, match="no voice 'Zoe'"):
            speaker_fields(wrong, "Zoe")
