"""`doctor FILE`: what the file attaches is tried as the file says, all at once, and nothing else is sent."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cotenant.cli import doctor as command
from cotenant.conductor.doctor import machine as doctor
from cotenant.conductor.doctor import trial
from cotenant.report.doctor.facts import MachineFacts
from cotenant.report.doctor.findings import can_run, findings
from cotenant.testing.truth_face import TruthFace, truth_face
from cotenant.testing.truth_server import Script, Served, truth_server
from cotenant.units import NS_PER_MS, NS_PER_S
from tests.conductor.attached import KEY, PCM, look, of, tried, voice, write
from tests.conductor.harness import free_port
from tests.conductor.test_try_services import JSON, beside, chat_server


def test_each_is_asked_once_with_what_the_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TTS_KEY", KEY)
    face, served = TruthFace(), []

    def answer(one: Served) -> Script:
        if one.body:
            served.append(one)
        return chat_server(one) if "speech" not in one.path else voice()(one)

    async def main() -> MachineFacts:
        async with truth_server(answer) as server, truth_face(face):
            path = write(
                tmp_path,
                tts={"url": server.url, "protocol": "openai", "model": "tts-9", "voice": "anna",
                     "extra": {"speed": 2}, "api_key_env": "MY_TTS_KEY"},
                head={"url": face.url},
                llm={"url": server.url, "protocol": "chat", "model": "some/model", "extra": {"top_k": 1}},
            )  # fmt: skip
            return await asyncio.to_thread(look, path, tmp_path)

    facts = asyncio.run(asyncio.wait_for(main(), 60))
    assert all(one.failed is None for one in facts.tried), facts.tried
    assert list(tried(facts)) == ["tts", "head", "llm"]
    # One request each, though three listen and eight ask.
    speech, llm = sorted(served, key=lambda one: "chat" in one.path)
    assert (json.loads(speech.body), speech.headers["authorization"]) == (
        {"input": "Is this the sentence?", "model": "tts-9", "voice": "anna", "speed": 2,
         "response_format": "pcm", "stream": True},
        f"Bearer {KEY}",
    )  # fmt: skip
    asked = json.loads(llm.body)
    assert (llm.path, asked["model"], asked["top_k"]) == ("/v1/chat/completions", "some/model", 1)
    assert len(face.audio_bytes) == 1
    assert "authorization" not in llm.headers
    told = of(facts, "tts")
    assert told[1].text == (
        "asked with what the file says: protocol openai, model tts-9, voice anna, the key in MY_TTS_KEY, "
        "extra (speed)"
    )
    assert any("TTFA" in one.text and "RTF" in one.text for one in told)
    assert any("beside one request to head and llm" in one.text for one in told)
    assert any("frames to a second" in one.text for one in of(facts, "head"))
    assert any("tokens/s" in one.text for one in of(facts, "llm"))


def test_they_are_under_way_together(tmp_path: Path) -> None:
    """Each is answered once the other was asked too."""
    both = asyncio.Barrier(2)

    async def speak(_request: web.Request) -> web.Response:
        await both.wait()
        return web.Response(body=bytes(3_200), headers=PCM)

    async def chat(_request: web.Request) -> web.Response:
        await both.wait()
        script = chat_server(Served(path="/v1/chat/completions", headers={}, body=b""))
        body = b"".join(piece for _, piece in script.pieces)
        return web.Response(body=body, headers=script.headers)

    async def main() -> MachineFacts:
        app = web.Application()
        app.router.add_post("/v1/audio/speech", speak)
        app.router.add_post("/v1/chat/completions", chat)
        async with TestServer(app) as server:
            url = f"http://127.0.0.1:{server.port}"
            path = write(
                tmp_path,
                tts={"url": url, "protocol": "openai"},
                llm={"url": url, "model": "m", "protocol": "chat"},
            )
            return await asyncio.to_thread(look, path, tmp_path)

    facts = asyncio.run(asyncio.wait_for(main(), 60))
    assert [one.failed for one in facts.tried] == [None, None]


def test_the_limit_is_for_each(tmp_path: Path) -> None:
    def silent(served: Served) -> Script:
        return Script(head=False, ending="silent") if served.body else Script(status=404)

    def ask(url: str) -> MachineFacts:
        path = write(tmp_path, tts={"url": url, "protocol": "openai"}, llm={"url": url, "model": "m"})
        return look(path, tmp_path, limit_ns=200 * NS_PER_MS)

    facts = beside(truth_server, silent, then=ask)
    for one in facts.tried:
        assert one.failed is not None
        assert (one.failed.kind, "--limit 2m" in one.failed.hint) == ("timeout", True)
        assert "was not complete within 200ms" in one.failed.text
    assert len(facts.tried) == 2
    assert not can_run(findings(facts))


def test_a_refused_request_is_not_sent_again(tmp_path: Path) -> None:
    served: list[Served] = []

    def broken(one: Served) -> Script:
        served.append(one)
        return Script(status=503, pieces=[(0, b"busy")])

    def ask(url: str) -> MachineFacts:
        path = write(tmp_path, tts={"url": url}, llm={"url": url, "model": "m"})
        return look(path, tmp_path)

    facts = beside(truth_server, broken, then=ask)
    assert sorted(one.path for one in served if one.body) == ["/v1/audio/speech", "/v1/completions"]
    assert {one.tenant: one.failed.kind for one in facts.tried if one.failed} == {
        "tts": "overloaded", "llm": "overloaded"
    }  # fmt: skip


def test_no_try_sends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    served: list[Served] = []

    def answer(one: Served) -> Script:
        served.append(one)
        return voice()(one)

    def ask(url: str) -> int:
        path = write(tmp_path, tts={"url": url})
        return command.machine(path, [], tmp_path, as_json=False, no_try=True)

    assert beside(truth_server, answer, then=ask) == 0
    assert {one.path for one in served} == {"/health"}
    assert "no request was sent" in " ".join(capsys.readouterr().err.split())


def test_what_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    served: list[Served] = []

    def answer(one: Served) -> Script:
        served.append(one)
        return Script(status=404)

    def ask(url: str) -> MachineFacts:
        closed = f"http://127.0.0.1:{free_port()}/?token={KEY}"
        path = write(
            tmp_path,
            stage=["voices", "faces"],
            tts={"url": url, "api_key_env": "NO_SUCH_KEY"},
            head={"url": closed.replace("http", "ws")},
            llm={"url": url, "model": "m"},
        )
        return look(path, tmp_path)

    facts = beside(truth_server, answer, then=ask)
    assert facts.tried == ()
    assert [one.path for one in served if one.body] == []
    found = {(one.topic, one.word): one.text for one in findings(facts)}
    assert "NO_SUCH_KEY is not set" in found["tts", "missing"]
    assert "nothing answers" in found["head", "missing"]
    assert KEY not in found["head", "missing"]
    assert "no stage uses it" in found["llm", "ok"]


def test_what_is_built_in_is_said_not_to_be_tried(tmp_path: Path) -> None:
    facts = doctor.look("tts-alone", ["device=cpu"], tmp_path, limit_ns=NS_PER_S)
    assert "not started here, so not tried" in of(facts, "tts")[0].text
    assert facts.tried == ()


@pytest.mark.parametrize("protocol", ["auto", "openai"])
def test_a_refused_key_is_named_and_not_told(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    deep = "nobody-knows-0123456789"

    def refuse(served: Served) -> Script:
        said = f'{{"error": "no such key {KEY}, nor {deep}"}}'.encode()
        return Script(status=401, pieces=[(0, said)], headers=JSON)

    def ask(url: str) -> int:
        one = {"url": f"{url}/{KEY}/?api_key={KEY}", "protocol": protocol, "api_key_env": "MY_KEY"}
        path = write(
            tmp_path, tts={**one, "extra": {"password": deep}}, llm={**one, "extra": {"x": {"token": deep}}}
        )
        return command.machine(path, [], tmp_path, as_json=True)

    assert beside(truth_server, refuse, then=ask) == 5
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["can_run"] is False
    assert {one["failed"]["kind"] for one in told["facts"]["tried"]} == {"unauthorized"}
    assert "the key in MY_KEY was refused" in " ".join(err.split())
    assert "mine cannot run here" in err
    for secret in (KEY, KEY[-8:], deep):
        assert secret not in out + err


def test_a_signal_ends_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_arguments: Any, **_more: Any) -> None:
        raise trial.Stopped(2)

    monkeypatch.setattr(doctor, "try_attached", stopped)

    def ask(url: str) -> int:
        return command.machine(write(tmp_path, tts={"url": url}), [], tmp_path, as_json=True)

    assert beside(truth_server, voice(), then=ask) == 130
    out, err = capsys.readouterr()
    assert (out, err) == ("", "cotenant: interrupted\n")
