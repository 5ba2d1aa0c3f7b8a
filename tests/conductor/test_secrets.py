"""A secret of a tested service stands nowhere in what a run leaves behind, wherever a user put it."""

import asyncio
import base64
import contextlib
import gzip
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from aiohttp import web

from cotenant.cli.app import make_app
from cotenant.run_dir.reader import read
from cotenant.testing.other_heads import OtherHeads
from cotenant.testing.truth_server import Script, Served
from tests.conductor import harness
from tests.conductor.echoing import writings

PLACES = (
    "key", "url-key", "url-token", "url-api_key", "url-sig", "extra-password", "extra-deep", "extra-bearer",
    "extra-header", "option", "option-equals", "option-header", "env-token", "env-key", "ready-token",
    "start-token", "start-deep", "end-authorization", "field-cookie", "face-key", "face-url",
)  # fmt: skip
# Characters that addresses, base64 and JSON write otherwise.
SECRETS = {place: f"s3cr/t+{place}-0123456789" for place in PLACES}
FORMED = {
    "openai": "sk-proj-0123456789abcdefXYZ",
    "hf": "hf_0123456789abcdefXYZ",
    "jwt": "eyJ0123456789.abcdefghij.XYZ",
}
# What only a service knows: its form is all that tells.
ONLY_SAID = {
    "token": "saidtok-uniq0123456789",
    "bearer": "saidbearer0123456789abc",
    "password": "saidpass-uniq0123456789",
    "openai": "sk-said0123456789abcdef",
}


class Talker(OtherHeads):
    """A head that shows the clip of the warm-up and tells all others what they sent."""

    async def tell(self, request: web.Request) -> web.StreamResponse:
        """One session."""
        if not self.frames:
            return await self.talk(request)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        first = await socket.receive()
        told = f"{first.data} to {request.path_qs} with {dict(request.headers)}"
        with contextlib.suppress(ConnectionResetError):
            await socket.send_json({"fault": told})
        await socket.close()
        return socket


@contextlib.asynccontextmanager
async def talker() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/talk", Talker().tell)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}/talk"
    finally:
        await runner.cleanup()


def fickle(number: int, served: Served) -> Script:
    """A voice that refuses every third request, and quotes all of it, and what it heard of its neighbours."""
    if number % 3 != 2:
        return harness.speech()
    if number % 6 == 2:
        place = f"https://login.test/cb?token={ONLY_SAID['token']}&x=Bearer%20{ONLY_SAID['bearer']}"
        said = f"go with passwd={ONLY_SAID['password']} or {ONLY_SAID['openai']}"
        return Script(status=302, framing="length", headers={"Location": place}, pieces=[(0, said.encode())])
    # Others' secrets, two at a time: no more than 500 characters of all of it are kept.
    known = [secret for place, secret in SECRETS.items() if place.startswith(("option", "env", "face"))]
    upstream = " and ".join(known[(number // 3 + n) % len(known)] for n in range(2))
    quoted = {"path": unquote(served.path), "raw": served.path, "body": served.body.decode()}
    message = f"upstream {upstream} " + json.dumps({**quoted, "headers": served.headers})
    return Script(
        status=500, framing="length", pieces=[(0, json.dumps({"error": {"message": message}}).encode())]
    )


def scenario(speech: str, face: str, port: int) -> dict[str, Any]:
    """Every place where a secret can be."""
    s = SECRETS
    query = "&".join(
        f"{name}={quote(s[f'url-{name}'], safe='')}" for name in ("key", "token", "api_key", "sig")
    )
    told = harness.voice_scenario(f"{speech}/v1/audio/speech?{query}")
    told["about"] = f"with {s['key']} and {FORMED['openai']}"
    told["tenants"]["tts"] |= {
        "api_key_env": "TTS_TEST_KEY",
        "voice": f"of {s['key']}",
        "extra": {
            "password": s["extra-password"],
            "deep": [{"list": {"authToken": s["extra-deep"]}}, f"is {s['key']}", FORMED["jwt"]],
            "note": f"Bearer {base64.b64encode(s['extra-bearer'].encode()).decode()}",
            "headers": {"X-Plain": s["extra-header"], "Accept": "audio/pcm"},
        },
    }
    told["tenants"]["llm"] = {
        **harness.idle_llm(port),
        "command": [
            sys.executable, "-m", "tests.conductor.echoing", "--port", str(port), "--api-key", s["option"],
            f"--hf-token={s['option-equals']}", "--header", f"Authorization: Bearer {s['option-header']}",
        ],
        "env": {"SOME_TOKEN": s["env-token"], "LLM_TEST_KEY": s["env-key"], "PLAIN": s["key"],
                "OTHER": FORMED["hf"]},
        "api_key_env": "LLM_TEST_KEY",
        "ready": {"path": f"/health?token={quote(s['ready-token'], safe='')}"},
    }  # fmt: skip
    told["tenants"]["face"] = {
        "kind": "face", "engine": "attach", "protocol": "websocket", "api_key_env": "FACE_TEST_KEY",
        "url": f"{face}?access_token={quote(s['face-url'], safe='')}",
        "frames": {
            "image": "data.frame", "index": "data.i", "done": {"type": "idle"}, "error": "fault",
            "start": {"type": "hello", "token": s["start-token"], "session": {"apiKey": s["start-deep"]}},
            "end": {"type": "flush", "authorization": s["end-authorization"]},
            "audio": {"send": "base64", "path": "voice.pcm", "fields": {"cookie": s["field-cookie"]}},
        },
    }  # fmt: skip
    told["load"]["decode"] = {"tenant": "llm", "kind": "completions", "streams": 1, "prompt": 8, "output": 20}
    told["load"]["faces"] = {"tenant": "face", "kind": "faces", "follows": "voices", "listeners": 1}
    told["timing"] |= {"solo": "300ms"}
    told["stages"] = [{"name": "alone", "load": ["voices", "faces", "decode"]}]
    return told


def written(secret: str) -> Iterator[bytes]:
    """As it is, and as programs write it."""
    yield secret.encode()
    yield from (text.encode() for text in writings(secret))


def found_in(data: bytes) -> list[str]:
    texts = {**SECRETS, **FORMED, **ONLY_SAID}
    return [place for place, secret in texts.items() if any(form in data for form in written(secret))]


async def everything(folder: Path) -> tuple[harness.Ended, list[Served], list[str]]:
    """A run, and what its commands say of it afterwards."""
    port = harness.free_port()
    async with harness.speech_server(fickle) as server, talker() as face:
        ended = await harness.ran(folder, scenario(server.url, face, port), "--set", "gate=[voice]")
        asked = [served for served in server.served if served.body]
    said = [ended.out, ended.err]
    assert ended.run_dir is not None, ended.err
    return ended, asked, said


def reports(folder: Path, run_dir: Path) -> None:
    """Every other file that a command writes of a run."""
    for arguments in (
        ("gate", run_dir, "--junit", folder / "j.xml", "--markdown", folder / "m.md", "--json"),
        ("report", run_dir, "--html", folder / "p.html", "--perfetto", folder / "t.json.gz",
         "--csv", folder / "csv", "--parquet", folder / "parquet", "--wav", folder / "wav"),
        ("compare", run_dir, run_dir, "--json"),
    ):  # fmt: skip
        with pytest.raises(SystemExit):
            make_app()([*map(str, arguments)], prog_name="cotenant")


def test_no_file_of_a_run_and_nothing_said_of_it_holds_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTS_TEST_KEY", SECRETS["key"])
    monkeypatch.setenv("FACE_TEST_KEY", SECRETS["face-key"])
    monkeypatch.setenv("LLM_TEST_KEY", SECRETS["env-key"])
    ended, asked, said = asyncio.run(everything(tmp_path))
    assert ended.run_dir is not None, ended.err
    reports(tmp_path, ended.run_dir)
    said += capsys.readouterr()
    assert len(said) == 4
    # They were used and told, so that they could have been kept.
    for served in asked:
        assert served.headers["authorization"] == f"Bearer {SECRETS['key']}"
        assert SECRETS["url-sig"] in unquote(served.path)
        assert SECRETS["extra-password"].encode() in served.body
    rows = read(ended.run_dir).tables["streams"].to_pylist()
    errors = {kind: error for kind, error in ((row["error_kind"], row["error"]) for row in rows) if kind}
    assert {"server_error", "in_stream"} <= errors.keys(), ended.err
    told = "\n".join(row["error"] for row in rows if row["error"])
    assert "authToken" in told
    assert "upstream ***" in told
    assert "passwd=***" in told
    assert "hello" in errors["in_stream"]
    log = (ended.run_dir / "logs" / "llm.log").read_bytes()
    assert b"--api-key" in log
    assert b"SOME_TOKEN" in log
    assert log.count(b"written ") == len(list(writings("")))
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "test.yaml"]
    names = {path.name for path in files}
    assert {"manifest.json", "summary.json", "report.html", "p.html", "j.xml", "m.md", "t.json.gz"} <= names
    assert {path.suffix for path in files} >= {".arrows", ".csv", ".parquet", ".wav", ".log"}
    leaks = {path.name: found_in(path.read_bytes()) for path in files}
    leaks["trace"] = found_in(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))
    leaks["csv of the streams"] = found_in((tmp_path / "csv" / "streams.csv").read_bytes())
    leaks["said"] = found_in("\n".join(said).encode())
    assert {name: places for name, places in leaks.items() if places} == {}


def test_a_run_that_could_not_begin_keeps_none_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All warm-up requests are refused, with a quotation."""
    monkeypatch.setenv("TTS_TEST_KEY", SECRETS["key"])

    async def work() -> harness.Ended:
        async with harness.speech_server(lambda _n, served: fickle(5, served)) as server:
            told = harness.voice_scenario(f"{server.url}/v1/audio/speech?key={quote(SECRETS['url-key'])}")
            told["tenants"]["tts"] |= {
                "api_key_env": "TTS_TEST_KEY", "extra": {"password": SECRETS["extra-password"]},
            }  # fmt: skip
            return await harness.ran(tmp_path, told)

    ended = asyncio.run(work())
    assert ended.code == 5
    assert "server_error" in ended.err
    assert ended.run_dir is not None
    files = [path for path in ended.run_dir.rglob("*") if path.is_file()]
    assert [path.name for path in files if found_in(path.read_bytes())] == []
    assert found_in((ended.out + ended.err).encode()) == []
