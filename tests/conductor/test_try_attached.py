"""`doctor FILE`: what the file attaches is tried as the file says, all at once, and nothing else is sent."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from cotenant.cli import doctor as command
from cotenant.conductor import doctor, trial
from cotenant.report.doctor.facts import MachineFacts, Tried
from cotenant.report.doctor.finding import Finding
from cotenant.report.doctor.findings import can_run, findings
from cotenant.testing.other_heads import OtherHeads, other_heads
from cotenant.testing.truth_face import TruthFace, truth_face
from cotenant.testing.truth_server import Script, Served, truth_server
from cotenant.units import NS_PER_MS, NS_PER_S
from tests.conductor.harness import free_port
from tests.conductor.test_try_services import JSON, beside, chat_server, sse

KEY = "sk-s3cret-0123456789abcdef"
PCM = {"Content-Type": "audio/pcm;rate=16000"}
LOADS: dict[str, Any] = {
    "voices": {"tenant": "tts", "kind": "voices", "listeners": 3, "text": ["Is this the sentence?"]},
    "faces": {"tenant": "head", "kind": "faces", "follows": "voices"},
    "ask": {"tenant": "llm", "kind": "completions", "prompt": 300, "output": 50},
    "short": {"tenant": "llm", "kind": "completions", "prompt": 60, "output": 9},
}
KINDS = {"tts": "speech", "head": "face", "llm": "completions"}


def write(path: Path, *, stage: list[str] | None = None, **tenants: dict[str, Any]) -> str:
    """A scenario of attached tenants with every load that they need, in one stage."""
    here = {name: {"kind": KINDS[name], "engine": "attach", **one} for name, one in tenants.items()}
    if "head" in tenants:
        here.setdefault("tts", {"kind": "speech", "engine": "builtin"})
    loads = {name: load for name, load in LOADS.items() if load["tenant"] in here}
    document = {"name": "mine", "device": "cpu", "tenants": here, "load": loads,
                "stages": [{"name": "all", "load": stage or list(loads)}]}  # fmt: skip
    place = path / "mine.yaml"
    place.write_text(yaml.safe_dump(document, sort_keys=False))
    return str(place)


def look(scenario: str, folder: Path, *, limit_ns: int | None = 20 * NS_PER_S, **more: Any) -> MachineFacts:
    return doctor.look(scenario, [], folder, limit_ns=limit_ns, **more)


def tried(facts: MachineFacts) -> dict[str, Tried]:
    return {one.tenant: one for one in facts.tried}


def of(facts: MachineFacts, name: str) -> list[Finding]:
    return [one for one in findings(facts) if one.topic == name]


def voice(pieces: int = 3, every_ms: int = 20, **script: Any) -> Callable[[Served], Script]:
    """Speech of 100 ms a piece wherever it is asked for."""

    def answer(served: Served) -> Script:
        if "speech" not in served.path:
            return Script(status=404)
        audio = [(number * every_ms * NS_PER_MS, bytes(3_200)) for number in range(pieces)]
        return Script(pieces=audio, headers=PCM, **script)

    return answer


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


def test_auto_says_what_it_is(tmp_path: Path) -> None:
    def kokoro(served: Served) -> Script:
        if served.path == "/openapi.json":
            api = json.dumps({"info": {"title": "Kokoro TTS API"}}).encode()
            return Script(pieces=[(0, api)], headers=JSON)
        return voice()(served)

    def ask(url: str) -> MachineFacts:
        return look(write(tmp_path, tts={"url": url}), tmp_path)

    facts = beside(truth_server, kokoro, then=ask)
    texts = [one.text for one in of(facts, "tts")]
    assert any(
        text.startswith("protocol auto is kokoro-fastapi: its openapi.json is titled") for text in texts
    )

    def ask_llm(url: str) -> MachineFacts:
        return look(write(tmp_path, llm={"url": url, "model": "some/model"}), tmp_path)

    facts = beside(truth_server, chat_server, then=ask_llm)
    texts = [one.text for one in of(facts, "llm")]
    assert "protocol auto is chat, prompts as text, usage with each message" in texts


def test_a_protocol_that_is_another(tmp_path: Path) -> None:
    def kokoro(served: Served) -> Script:
        api = json.dumps({"info": {"title": "Kokoro TTS API"}}).encode()
        return (
            Script(pieces=[(0, api)], headers=JSON) if served.path == "/openapi.json" else Script(status=404)
        )

    def ask(url: str) -> MachineFacts:
        return look(write(tmp_path, tts={"url": url, "protocol": "cosyvoice", "rate": 22_050}), tmp_path)

    facts = beside(truth_server, kokoro, then=ask)
    *_, asked, missing = of(facts, "tts")
    assert asked.text == "asked with what the file says: protocol cosyvoice, rate 22050"
    assert missing.advice.endswith("'Kokoro TTS API': --set tenants.tts.protocol=kokoro-fastapi")


def test_a_model_that_is_not_listed_and_answers(tmp_path: Path) -> None:
    def ask(url: str) -> MachineFacts:
        return look(write(tmp_path, llm={"url": url, "model": "mine", "protocol": "chat"}), tmp_path)

    notes = [one.text for one in of(beside(truth_server, chat_server, then=ask), "llm") if one.word == "note"]
    assert "it does not list mine, but some/model, adapter; it took the request all the same" in notes


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    def no_model(served: Served) -> Script:
        if served.path == "/v1/models":
            return chat_server(served)
        return Script(status=404, pieces=[(0, b'{"error": "no model mine"}')], headers=JSON)

    def ask(url: str) -> MachineFacts:
        return look(write(tmp_path, llm={"url": url, "model": "mine"}), tmp_path)

    bad = tried(beside(truth_server, no_model, then=ask))["llm"].failed
    assert bad is not None
    assert (bad.kind, "no model mine" in bad.text) == ("not_found", True)
    assert bad.hint == "it serves some/model, adapter: --set tenants.llm.model=some/model"


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


def test_prompts_that_do_not_fit_are_found_without_sending_them(tmp_path: Path) -> None:
    LONG = {"prompt": 2_000, "output": 50}

    def ask(url: str) -> MachineFacts:
        path = Path(write(tmp_path, llm={"url": url, "model": "some/model", "protocol": "chat"}))
        document = yaml.safe_load(path.read_text())
        document["load"]["ask"] |= LONG
        path.write_text(yaml.safe_dump(document))
        return look(str(path), tmp_path)

    facts = beside(truth_server, chat_server, then=ask)
    (missing,) = [one for one in of(facts, "llm") if one.word == "missing"]
    assert missing.text.startswith("load.ask asks with 2000 tokens for 50, and it holds 1024 of both")
    assert missing.advice == f"--set load.ask.prompt={1_024 - 50 - 64}"
    assert not can_run(findings(facts))


def test_a_context_that_is_not_told_is_not_said_to_fit(tmp_path: Path) -> None:
    def untold(served: Served) -> Script:
        return Script(status=404) if served.path == "/v1/models" else chat_server(served)

    def ask(url: str) -> MachineFacts:
        return look(write(tmp_path, llm={"url": url, "model": "m", "protocol": "chat"}), tmp_path)

    notes = [one.text for one in of(beside(truth_server, untold, then=ask), "llm") if one.word == "note"]
    assert any("load.ask fits, which asks with 300 for 50" in text for text in notes)


def test_a_voice_that_is_slow_and_told_otherwise(tmp_path: Path) -> None:
    def ask(url: str) -> MachineFacts:
        tts = {"url": url, "protocol": "openai", "rate": 24_000}
        return look(write(tmp_path, tts=tts), tmp_path)

    slow = voice(pieces=3, every_ms=300)
    notes = [one.text for one in of(beside(truth_server, slow, then=ask), "tts") if one.word == "note"]
    assert any("slower than real time, even alone" in text for text in notes)
    assert any("the file says rate 24000, and its answers tell 16000" in text for text in notes)


def test_a_voice_that_stalls_with_the_lookahead_of_the_file(tmp_path: Path) -> None:
    def ask(url: str) -> MachineFacts:
        path = Path(write(tmp_path, tts={"url": url, "protocol": "openai"}))
        path.write_text(path.read_text() + "lookahead: 0ms\n")
        return look(str(path), tmp_path)

    gaps = voice(pieces=3, every_ms=200)
    notes = [one.text for one in of(beside(truth_server, gaps, then=ask), "tts") if one.word == "note"]
    assert any("played with the file's lookahead, 0ms, it stalls for 0." in text for text in notes)


@pytest.mark.parametrize(("image", "good"), [("data.frame", True), ("data.picture", False)])
def test_a_head_with_the_frames_of_the_file(image: str, good: bool, tmp_path: Path) -> None:
    frames = {"image": image, "time_ms": "data.t", "start": {"type": "hello"}, "end": {"type": "flush"},
              "done": {"type": "idle"}, "audio": {"send": "base64", "path": "voice.pcm"}}  # fmt: skip
    heads = OtherHeads()

    def ask(url: str) -> MachineFacts:
        head = {"url": url.rstrip("/") + "/talk", "protocol": "websocket", "frames": frames}
        return look(write(tmp_path, head=head), tmp_path)

    facts = beside(other_heads, heads, then=ask)
    one = tried(facts)["head"]
    assert (one.failed is None) is good
    assert heads.messages[0] == {"type": "hello"}
    assert len(heads.audio_bytes) == 1
    if one.failed is not None:
        assert one.failed.kind in ("empty", "protocol")
        assert one.failed.hint


def test_a_head_that_is_another_than_auto(tmp_path: Path) -> None:
    def ask(url: str) -> MachineFacts:
        head = {"url": url.replace("ws://", "http://").rstrip("/") + "/watch"}
        return look(write(tmp_path, head=head), tmp_path)

    bad = tried(beside(other_heads, OtherHeads(), then=ask))["head"].failed
    assert bad is not None
    assert "--set tenants.head.protocol=mjpeg --set tenants.head.frames.audio.send=none" in bad.hint


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
        one = {"url": f"{url}/?api_key={KEY}", "protocol": protocol, "api_key_env": "MY_KEY"}
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


def test_usage_is_counted_where_it_comes_last(tmp_path: Path) -> None:
    """A server of completions that takes ids: the answer's tokens and rate are those of its messages."""
    token = {"choices": [{"index": 0, "text": "a", "finish_reason": None}]}
    last = {"choices": [{"index": 0, "text": "a", "finish_reason": "length"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 60, "completion_tokens": 3}}

    def answer(served: Served) -> Script:
        if not served.body:
            return Script(status=404)
        script = sse(token, token, last, usage, "[DONE]")
        return Script(pieces=script, headers={"Content-Type": "text/event-stream"})

    def ask(url: str) -> MachineFacts:
        return look(write(tmp_path, llm={"url": url, "model": "m"}), tmp_path)

    one = tried(beside(truth_server, answer, then=ask))["llm"]
    assert one.failed is None
    # The shorter of the two loads, and as many tokens as show a rate.
    assert (one.measured["prompt_tokens"], one.measured["asked_tokens"]) == (60, 32)
