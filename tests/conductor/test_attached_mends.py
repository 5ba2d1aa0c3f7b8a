"""`doctor FILE`: what it says of each attached service, and what mends one that is not as the file says."""

import json
from pathlib import Path

import pytest
import yaml

from cotenant.errors import HINTS
from cotenant.report.doctor.facts import MachineFacts
from cotenant.report.doctor.findings import can_run, findings
from cotenant.testing.other_heads import OtherHeads, other_heads
from cotenant.testing.truth_server import Script, Served, truth_server
from tests.conductor.attached import look, of, tried, voice, write
from tests.conductor.test_try_services import JSON, beside, chat_server, sse


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


@pytest.mark.parametrize(
    ("model", "status", "hint"),
    [
        ({"model": "mine"}, 404, "it serves some/model, adapter: --set tenants.llm.model=some/model"),
        ({"model": "mine"}, 400, "it serves some/model, adapter: --set tenants.llm.model=some/model"),
        ({}, 400, "it serves some/model, adapter: --set tenants.llm.model=some/model"),
        ({"model": "adapter"}, 404, HINTS["not_found"]),
        ({}, 404, HINTS["not_found"]),
    ],
)
def test_a_model_that_is_not_there(model: dict[str, str], status: int, hint: str, tmp_path: Path) -> None:
    def no_model(served: Served) -> Script:
        if served.path == "/v1/models":
            return chat_server(served)
        return Script(status=status, pieces=[(0, b'{"error": "not that one"}')], headers=JSON)

    def ask(url: str) -> MachineFacts:
        return look(write(tmp_path, llm={"url": url, "protocol": "chat", **model}), tmp_path)

    bad = tried(beside(truth_server, no_model, then=ask))["llm"].failed
    assert bad is not None
    assert ("not that one" in bad.text, bad.hint) == (True, hint)


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
