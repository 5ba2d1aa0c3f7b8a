"""Answers that tell nonsense or secrets: a row that can be written, with an error that may be read."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from cotenant.load.asker import ask, prepare
from cotenant.load.desk import Desk
from cotenant.load.face import show
from cotenant.load.face_audio import FaceFeed
from cotenant.load.settings import Tenant, read_settings
from cotenant.load.stored_text import storable
from cotenant.load.voice import Turn, speak
from cotenant.run_dir import manifest, reader
from cotenant.run_dir.writer import RunWriter
from cotenant.testing.truth_server import Script, truth_server
from tests.load.conductor import spec
from tests.load.rig import SSE_HEADERS, completions, desk_for, faces, new_stage, run, settings, tenant, voices

KEY = "sk-Abc/def+0123456789"
DEEP = b"[" * 100_000


def sse(*data: bytes) -> Script:
    pieces = [(0, b"data: " + one + b"\n\n") for one in data]
    return Script(headers=SSE_HEADERS, pieces=pieces)


def usage(count: bytes) -> Script:
    return sse(b'{"choices":[{"text":"a"}],"usage":{"prompt_tokens":1,"completion_tokens":' + count + b"}}")


def raw(**headers: str) -> Script:
    told = {"Content-Type": "audio/pcm", **{name.replace("_", "-"): text for name, text in headers.items()}}
    return Script(headers=told, pieces=[(0, bytes(480))])


async def one_request(desk: Desk, kind: str) -> None:
    stage, due_ns = new_stage(), time.monotonic_ns()
    if kind == "voices":
        turn = Turn(listener=0, due_ns=due_ns, delayed_ns=0, line=lambda: (0, "Hi."), tap=None)
        await speak(desk, stage, voices(), turn)
    else:
        load = completions()
        await ask(desk, stage, load, 0, due_ns, prepare(desk, load, load.output))


def recorded(tmp_path: Path, kind: str, script: Script, **fields: Any) -> dict[str, Any]:
    """The stream's row as it is read from the disk."""

    async def work() -> None:
        async with truth_server(lambda _: script) as server:
            one = tenant(server.url, "tts" if kind == "voices" else "llm", **fields)
            async with desk_for(settings([one], [voices(), completions()])) as (desk, _):
                desk.writer = RunWriter(tmp_path, "one")
                await one_request(desk, kind)
                desk.writer.close()

    run(work())
    manifest.write(tmp_path, {"schema": 1, "tool": "cotenant", "run_id": "run-1"})
    (row,) = reader.read(tmp_path).tables["streams"].to_pylist()
    found: dict[str, Any] = row
    return found


NONSENSE = {
    "infinite count": ("completions", usage(b"Infinity"), "protocol"),
    "no number": ("completions", usage(b"NaN"), "protocol"),
    "huge count": ("completions", usage(b"1e30"), "protocol"),
    "over 32 bits": ("completions", usage(b"2147483648"), "protocol"),
    "negative count": ("completions", usage(b"-3"), "protocol"),
    "deep completion": ("completions", sse(DEEP), "protocol"),
    "deep speech": ("voices", sse(DEEP), "protocol"),
    "half a character": ("completions", sse(b'{"error":{"message":"out of \\ud800 memory"}}'), "in_stream"),
    "half a character of a voice": ("voices", sse(b'{"error":"\\udfff"}'), "in_stream"),
    "no rate": ("voices", raw(X_Sample_Rate="\u00b2"), None),
    "a control character": ("voices", Script(status=500, framing="length", pieces=[(0, b"a\0b\x1b[31m")]),
                            "server_error"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "script", "error_kind"), NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_a_row(tmp_path: Path, kind: str, script: Script, error_kind: str | None) -> None:
    row = recorded(tmp_path, kind, script)
    assert (row["end"], row["error_kind"]) == ("eos" if error_kind is None else "error", error_kind)
    assert error_kind is None or row["error"].isprintable()


@pytest.mark.parametrize(
    "script",
    [
        Script(status=401, framing="length", pieces=[(0, f"bad key Bearer {KEY} here".encode())]),
        Script(status=401, framing="length", pieces=[(0, b"x" * 4090 + KEY.encode() * 9)]),
        sse(json.dumps({"error": {"message": f"no such key: {KEY}"}}).encode()),
        sse(json.dumps({"error": "y" * 490 + KEY}).encode()),
    ],
)
@pytest.mark.parametrize("kind", ["voices", "completions"])
def test_no_part_of_the_key_is_stored(tmp_path: Path, kind: str, script: Script) -> None:
    row = recorded(tmp_path, kind, script, headers={"Authorization": f"Bearer {KEY}"})
    assert row["error"]
    assert len(row["error"]) <= 500
    assert not [i for i in range(len(KEY) - 7) if KEY[i : i + 8] in row["error"]]


def test_no_part_of_the_key_is_stored_from_a_head() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "error", "message": f"{request.headers['Authorization']} is unknown"})
        await socket.receive()
        return socket

    async def work() -> dict[str, Any]:
        app = web.Application()
        app.router.add_get("/v1/face", handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        one = tenant(url, "head", headers={"Authorization": f"Bearer {KEY}"})
        async with desk_for(settings([one], [faces()])) as (desk, rows):
            stage, feed = new_stage(), FaceFeed(faces(), lambda: 0)
            clip = asyncio.create_task(show(desk, stage, feed, 0, 0, stage.plan(0, followed=True)))
            await clip
        await runner.cleanup()
        return rows.stream()

    row = run(work())
    assert (row["error_kind"], row["error"]) == ("in_stream", "Bearer *** is unknown")


def test_what_may_be_stored() -> None:
    assert storable("a\0b\ud800c\n", ()) == "a b c"
    assert storable("x" * 600, ()) == "x" * 500
    assert storable("key abc, abc", ("abc",)) == "key ***, ***"
    assert storable(f"{KEY}{KEY} and {KEY[3:15]} and {KEY[:7]}", (KEY,)) == f"*** and *** and {KEY[:7]}"
    assert storable("nothing to hide", ("", KEY)) == "nothing to hide"
    # By their form too, and whole before anything is cut: of no secret does a beginning stay.
    formed = "sk-0123456789abcdefXYZ"
    value = "Uniq/t+0123456789"
    for before in range(460, 500):
        stored = storable(f"{'x' * before} {formed} {value}{value}", (value,))
        assert "sk-" not in stored
        assert "Uniq" not in stored
    for before in (4074, 4084, 4094):
        stored = storable(f"{value * 239}{'x ' * 40}"[:before] + formed + value, (value,))
        assert "sk-" not in stored
        assert "Uniq" not in stored


def test_secrets_of_a_tenant() -> None:
    one: Tenant = tenant(
        "http://me:pass@host:8/v1?token=abc&x=&y=1&z=long-enough", headers={"Authorization": f"Bearer {KEY}"}
    )
    assert sorted(one.secrets) == sorted([KEY, "pass", "abc", "long-enough"])


@pytest.mark.parametrize("key", ["a\nb", "k\u00e9y"])
def test_a_key_that_is_none_is_refused_without_telling_it(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("SOME_KEY", key)
    told = spec(Path("/r"), "http://a", "http://b", "http://c")
    told["tenants"]["tts"]["api_key_env"] = "SOME_KEY"
    with pytest.raises(ValueError, match="SOME_KEY") as caught:
        read_settings(told)
    assert key not in str(caught.value)
    monkeypatch.setenv("SOME_KEY", " key\n")
    assert read_settings(told).tenants["tts"].headers == {"Authorization": "Bearer key"}
