"""Scenarios that name services of others: protocols, `frames`, whom to trust; what is said of wrong ones."""

import json
from typing import Any

import pytest

from cotenant.errors import UserError
from cotenant.scenario.auto import resolve
from cotenant.scenario.parse import dump, parse, public_dump

FRAMES: dict[str, Any] = {
    "image": "data.frame",
    "index": "data.i",
    "time_ms": "data.t",
    "done": {"type": "idle"},
    "error": "error",
    "start": {"type": "hello", "session": {"api_key": "sk-1234"}},
    "end": {"type": "flush"},
    "audio": {"send": "base64", "path": "voice.pcm", "fields": {"token": "tk-5678"}},
}


def scenario(kind: str, **tenant: Any) -> dict[str, Any]:
    """One tenant of that kind as told, beside a voice."""
    told = {"kind": kind, "engine": "attach", "url": "https://h:1/x", **tenant}
    load = {
        "face": {"tenant": "it", "kind": "faces", "follows": "voices"},
        "completions": {"tenant": "it", "kind": "completions", "streams": 1, "prompt": 8},
        "speech": {"tenant": "it", "kind": "voices", "listeners": 1},
    }[kind]
    return {
        "name": "one",
        "tenants": {"tts": {"kind": "speech", "engine": "builtin"}, "it": told},
        "load": {"voices": {"tenant": "tts", "kind": "voices", "listeners": 1, "every": "4s"}, "mine": load},
        "stages": [{"name": "all", "load": ["voices", "mine"]}],
    }


GOOD = [
    scenario("face", protocol="websocket", frames=FRAMES),
    scenario("face", protocol="websocket", frames={"image": "binary"}, insecure=True),
    scenario("face", protocol="mjpeg"),
    scenario(
        "face", protocol="mjpeg", frames={"audio": {"send": "none"}, "time_header": "X-Timestamp", "fps": 30}
    ),
    *(
        scenario("completions", protocol=name, ca_file="ca.pem")
        for name in ("openai", "completions", "chat", "auto")
    ),
]


@pytest.mark.parametrize("data", GOOD)
def test_good_ones(data: dict[str, Any]) -> None:
    found = parse(data)
    assert parse(dump(found)) == found
    resolved = resolve(found, "cpu")
    assert parse(dump(resolved)) == resolved


def test_what_auto_stands_for_is_found_out_later() -> None:
    assert resolve(parse(scenario("completions")), "cpu").tenants["it"].protocol == "openai"
    assert resolve(parse(scenario("face")), "cpu").tenants["it"].protocol == "cotenant"


def test_messages_with_secrets_are_hidden_on_disk() -> None:
    plain = public_dump(parse(scenario("face", protocol="websocket", frames=FRAMES)))
    text = json.dumps(plain)
    assert "sk-1234" not in text
    assert "tk-5678" not in text
    assert plain["tenants"]["it"]["frames"]["image"] == "data.frame"
    assert plain["tenants"]["it"]["frames"]["audio"]["path"] == "voice.pcm"
    parse(plain)


@pytest.mark.parametrize(
    ("kind", "tenant", "where", "words"),
    [
        ("face", {"protocol": "webrtc"}, "protocol", "WebRTC is not spoken yet; let the head send"),
        ("face", {"protocol": "mjpg"}, "protocol", "did you mean 'mjpeg'?"),
        ("face", {"protocol": "websocket"}, "tenants.it", "add frames: {image: data.frame}"),
        ("face", {"protocol": "websocket", "frames": {"index": "i"}}, "frames", "needs where a message has"),
        ("face", {"frames": {"image": "a"}}, "frames", "add protocol: websocket"),
        (
            "face",
            {"protocol": "websocket", "frames": {"image": "a b"}},
            "frames.image",
            "no path into a message",
        ),
        ("face", {"protocol": "websocket", "frames": {"image": "a", "picture": 1}}, "frames.picture", ""),
        (
            "face",
            {"protocol": "websocket", "frames": {"image": "binary", "time_ms": "t"}},
            "frames.time_ms",
            "a message that is a picture has no time_ms",
        ),
        (
            "face",
            {"protocol": "websocket", "frames": {"image": "a", "audio": {"send": "base64"}}},
            "frames.audio",
            "add path: data.audio",
        ),
        (
            "face",
            {"protocol": "websocket", "frames": {"image": "a", "audio": {"path": "x"}}},
            "frames.audio",
            "add send: base64",
        ),
        (
            "face",
            {"protocol": "websocket", "frames": {"image": "a", "audio": {"send": "none"}}},
            "frames.audio.send",
            "write binary or base64",
        ),
        (
            "face",
            {"protocol": "websocket", "frames": {"image": "a", "time_header": "X"}},
            "frames.time_header",
            "mjpeg",
        ),
        ("face", {"protocol": "mjpeg", "frames": {"image": "a"}}, "frames.image", "remove image"),
        (
            "face",
            {"protocol": "mjpeg", "frames": {"audio": {"send": "base64", "path": "x"}}},
            "frames.audio",
            "body",
        ),
        (
            "face",
            {"protocol": "websocket", "frames": {"image": "a", "done": {}}},
            "frames.done",
            "every message would be that",
        ),
        (
            "face",
            {"protocol": "websocket", "frames": {"image": "a", "done": {"type": None}}},
            "frames.done",
            "as in {type: done}",
        ),
        ("face", {"protocol": "mjpeg", "frames": {"fps": 0}}, "frames.fps", ""),
        (
            "face",
            {"protocol": "mjpeg", "frames": {"time_header": "a b"}},
            "frames.time_header",
            "name of a header",
        ),
        ("completions", {"frames": {"image": "a"}}, "frames", "frames are for kind: face"),
        ("completions", {"url": "http://h:1", "insecure": True}, "insecure", "there is no TLS at http://h:1"),
        ("completions", {"url": "http://h:1", "ca_file": "x"}, "ca_file", "there is no TLS at http://h:1"),
        ("completions", {"ca_file": "x", "insecure": True}, "insecure", "keep ca_file alone"),
        ("completions", {"insecure": "yes"}, "insecure", ""),
        (
            "completions",
            {"engine": "launch", "url": None, "protocol": "chat", "vllm": {"model": "tiny-qwen3"}},
            "protocol",
            "a chat needs a tokenizer, and the models that ship with cotenant have none; use protocol",
        ),
        ("face", {"engine": "builtin", "url": None, "protocol": "mjpeg"}, "protocol", "remove protocol"),
        ("completions", {"engine": "builtin", "url": None, "insecure": True}, "insecure", "add url: https"),
    ],
)
def test_wrong_ones(kind: str, tenant: dict[str, Any], where: str, words: str) -> None:
    data = scenario(kind, **tenant)
    data["tenants"]["it"] = {key: value for key, value in data["tenants"]["it"].items() if value is not None}
    with pytest.raises(UserError) as caught:
        parse(data)
    lines = [line for line in str(caught.value).splitlines() if where in line and words in line]
    assert lines, str(caught.value)
