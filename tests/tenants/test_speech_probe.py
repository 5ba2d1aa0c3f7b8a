"""What `protocol: auto` finds out from a server that answers as scripted."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from cotenant.errors import CouldNotRun
from cotenant.scenario.schema import Tenant
from cotenant.tenants.speech_probe import Found, find
from cotenant.testing.truth_server import Script, Served, truth_server
from tests.wire.make_quirks import wav

NONE: Final[Mapping[str, str]] = {}
PCM: Final = bytes(range(240)) * 10
NOT_THERE: Final = Script(status=404, framing="length", pieces=[(0, b"no")])


def said(value: Any) -> Script:
    return Script(framing="length", pieces=[(0, json.dumps(value).encode())])


def audio(content_type: str, data: bytes = PCM, headers: Mapping[str, str] = NONE) -> Script:
    return Script(headers={"Content-Type": content_type, **headers}, pieces=[(0, data)])


def found(answer: Callable[[Served], Script], path: str = "", **fields: Any) -> tuple[Found, list[Served]]:
    async def work() -> tuple[Found, list[Served]]:
        async with truth_server(answer) as server:
            values = {"kind": "speech", "engine": "attach", "url": server.url + path, **fields}
            return await find("tts", server.url + path, Tenant.model_validate(values)), server.served

    return asyncio.run(work())


def openai(wav_answer: Script | None, headers: Mapping[str, str] = NONE) -> Callable[[Served], Script]:
    """An OpenAI-like server that tells nothing of itself."""

    def answer(served: Served) -> Script:
        if served.path != "/v1/audio/speech":
            return NOT_THERE
        if json.loads(served.body)["response_format"] == "wav":
            return wav_answer or NOT_THERE
        return audio("audio/pcm", headers=headers)

    return answer


def test_a_protocol_that_was_chosen_is_not_looked_for() -> None:
    result, served = found(lambda _: NOT_THERE, protocol="xtts")
    assert served == []
    assert result.note is None
    assert (result.protocol["name"], result.protocol["settings"]) == ("xtts", {})


def test_a_server_that_tells_its_rate() -> None:
    result, served = found(openai(None, {"X-Sample-Rate": "44100"}), voice="v", model="m")
    assert result.protocol["settings"] == {"protocol": "openai", "rate": 44_100, "sample_format": "s16"}
    assert result.note is not None
    assert "audio/pcm (raw), 44100 Hz s16, as it tells" in result.note
    (asked,) = [one for one in served if one.path == "/v1/audio/speech"]
    assert json.loads(asked.body)["voice"] == "v"


def test_a_rate_that_only_a_wav_tells() -> None:
    other = wav(0, fmt=wav(0)[20:24] + (48_000).to_bytes(4, "little") + wav(0)[28:36]) + PCM
    result, _ = found(openai(audio("audio/wav", other)))
    assert result.protocol["settings"]["rate"] == 48_000
    assert result.protocol["rate_told"] == "as its WAV header tells"


def test_a_rate_that_nobody_tells_is_the_documented_one() -> None:
    result, _ = found(openai(None))
    assert result.protocol["settings"]["rate"] == 24_000
    assert result.protocol["rate_told"] == "as the protocol's documentation says"
    result, served = found(openai(None), rate=16_000)
    assert result.protocol["settings"]["rate"] == 16_000
    assert len([one for one in served if one.path == "/v1/audio/speech"]) == 1


def test_vllm_omni_without_a_rate_could_not_be_played() -> None:
    def answer(served: Served) -> Script:
        if served.path == "/v1/models":
            return said({"data": [{"id": "m", "owned_by": "vllm"}]})
        return openai(None)(served)

    with pytest.raises(CouldNotRun, match=r"set tenants\.tts\.rate"):
        found(answer)
    result, _ = found(answer, rate=24_000)
    assert result.protocol["name"] == "vllm-omni"
    assert not result.protocol["experimental"]


HIFI: Final = wav(0, fmt=wav(0)[20:24] + (44_100).to_bytes(4, "little") + wav(0)[28:36]) + PCM


@pytest.mark.parametrize(
    ("protocol", "path"),
    [
        ("vllm-omni", ""),
        ("vllm-omni-sse", "/v1"),
        ("vllm-omni-socket", ""),
        ("vllm-omni-socket", "/v1/audio/speech/stream"),
    ],
)
def test_the_rate_that_vllm_omni_does_not_tell_is_asked_of_its_wav(protocol: str, path: str) -> None:
    answer = openai(audio("audio/wav", HIFI))
    result, served = found(answer, path=path, protocol=protocol, voice="v")
    assert result.protocol["settings"] == {"rate": 44_100}
    assert result.note == "tts: 44100 Hz, as its WAV header tells"
    (asked,) = served
    assert (asked.path, json.loads(asked.body)["voice"]) == ("/v1/audio/speech", "v")
    result, served = found(answer, path=path, protocol=protocol, rate=24_000)
    assert (result.protocol["settings"], result.note, served) == ({}, None, [])


@pytest.mark.parametrize(
    ("wav_answer", "why"),
    [(None, "HTTP 404: no"), (audio("audio/wav"), "the answer (audio/wav) does not tell it")],
)
def test_a_rate_that_is_not_found_out_is_left_to_the_run(wav_answer: Script | None, why: str) -> None:
    result, _ = found(openai(wav_answer), protocol="vllm-omni")
    assert result.protocol["settings"] == {}
    assert result.note == f"tts: its sample rate was not found out: {why}"


def test_a_path_of_its_own_is_asked_at_the_root_what_it_is() -> None:
    def answer(served: Served) -> Script:
        if served.path == "/info":
            return said({"voice": {"name": "joe", "num_speakers": 1}})
        if served.path == "/say":
            return audio("text/html; charset=utf-8", wav(len(PCM)) + PCM)
        return NOT_THERE

    result, served = found(answer, path="/say")
    assert [one.path for one in served] == ["/openapi.json", "/v1/models", "/info", "/say"]
    assert result.protocol["name"] == "piper"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (NOT_THERE, "HTTP 404: no; set tenants.tts.protocol to one of openai, vllm-omni"),
        (audio("audio/mpeg", b"ID3"), "compressed"),
        (Script(headers={"Content-Type": "audio/pcm"}), "without any samples"),
        (audio("application/json", b"{}"), "application/json"),
        (Script(head=False, ending="close"), "ServerDisconnectedError"),
    ],
)
def test_nothing_that_can_be_played(script: Script, words: str) -> None:
    def answer(served: Served) -> Script:
        return script if served.path == "/v1/audio/speech" else NOT_THERE

    with pytest.raises(CouldNotRun, match="tts: nothing there says what it is") as caught:
        found(answer)
    assert words in str(caught.value)


CUT = Script(headers={"Content-Type": "audio/pcm"}, pieces=[(0, PCM)], ending="close")
LACKS = Script(status=422, framing="length", pieces=[(0, b'[{"type":"missing","loc":["body","voice"]}]')])


@pytest.mark.parametrize(
    ("script", "fields", "words"),
    [
        (Script(status=401, framing="length"), {}, "name its variable in tenants.tts.api_key_env"),
        (Script(status=401, framing="length"), {"api_key_env": "TTS_KEY"}, "the key in TTS_KEY was refused"),
        (LACKS, {}, "it wants a voice: --set tenants.tts.voice=NAME"),
        (CUT, {}, f"broke off after {len(PCM)} bytes (ClientPayloadError); the connection ended too early"),
        (Script(status=500, framing="length", pieces=[(0, b"CUDA")]), {}, "HTTP 500: CUDA; it failed inside"),
        (Script(head=False, ending="close"), {}, "ServerDisconnectedError"),
    ],
)
def test_what_no_other_protocol_would_change_is_told_without_them(
    script: Script, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(CouldNotRun) as caught:
        found(lambda served: script if served.path == "/v1/audio/speech" else NOT_THERE, **fields)
    assert words in str(caught.value)
    assert "tenants.tts.protocol" not in str(caught.value)


def test_a_known_server_whose_answer_fails_is_named() -> None:
    def answer(served: Served) -> Script:
        if served.path == "/openapi.json":
            return said({"info": {"title": "Kokoro TTS API"}, "paths": {}})
        return Script(status=500, framing="length", pieces=[(0, b"CUDA")])

    with pytest.raises(CouldNotRun, match=r"protocol kokoro-fastapi .* HTTP 500: CUDA"):
        found(answer)


def test_the_key_goes_along_and_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTS_KEY", "sesame")
    result, served = found(openai(None), api_key_env="TTS_KEY")
    assert {one.headers["authorization"] for one in served} == {"Bearer sesame"}
    assert "sesame" not in repr(result)


def test_a_key_that_a_server_quotes_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTS_KEY", "open-sesame")
    quoted = Script(status=401, framing="length", pieces=[(0, b"bad key open-sesame\nnor 7seven7")])
    with pytest.raises(CouldNotRun, match=r"HTTP 401: bad key \(hidden\) nor \(hidden\)") as caught:
        found(lambda _: quoted, path="/say?token=7seven7", api_key_env="TTS_KEY")
    assert "sesame" not in str(caught.value)
