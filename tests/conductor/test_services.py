"""`cotenant run` against services of others, over TLS with keys: a chat, a head that speaks JSON."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from cotenant.errors import CouldNotRun, UserError
from cotenant.run_dir.reader import read
from cotenant.tenants import attach
from cotenant.testing.other_heads import OtherHeads, other_heads
from cotenant.tls import context
from tests.conductor import harness
from tests.load.test_dialects import Picky

LLM_KEY = "sk-llm-0123456789abcdef"
FACE_KEY = "sk-face-0123456789abcdef"
FRAMES: dict[str, Any] = {
    "image": "data.frame",
    "time_ms": "data.t",
    "done": {"type": "idle"},
    "start": {"type": "hello", "session_key": FACE_KEY},
    "end": {"type": "flush"},
}


@contextlib.asynccontextmanager
async def llm_server(picky: Picky, headers: list[dict[str, str]], tls: ssl.SSLContext) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.StreamResponse:
        headers.append(dict(request.headers))
        return await picky.answer(request)

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def scenario(tts: str, llm: str, head: str, trusted: Path) -> dict[str, Any]:
    told = harness.voice_scenario(tts)
    told["tenants"] |= {
        "llm": {
            "kind": "completions", "engine": "attach", "url": llm, "api_key_env": "TEST_LLM_KEY",
            "ca_file": str(trusted),
        },
        "head": {
            "kind": "face", "engine": "attach", "url": head, "api_key_env": "TEST_FACE_KEY", "insecure": True,
            "protocol": "websocket", "frames": FRAMES,
        },
    }  # fmt: skip
    told["load"] |= {
        "decode": {"tenant": "llm", "kind": "completions", "streams": 2, "prompt": 40, "output": 4},
        "faces": {"tenant": "head", "kind": "faces", "follows": "voices"},
    }
    told["stages"] = [{"name": "all", "load": ["voices", "decode", "faces"]}]
    told["timing"] |= {"solo": "0s", "measure": "1s", "settle_limit": "20s", "stall_limit": "20s"}
    return told


def test_a_run_over_tls_with_keys(tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_LLM_KEY", LLM_KEY)
    monkeypatch.setenv("TEST_FACE_KEY", FACE_KEY)
    picky, heads = Picky("/v1/chat/completions", refuses=("ignore_eos",), gap_s=0.05), OtherHeads()
    asked: list[dict[str, str]] = []
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)

    async def work() -> harness.Ended:
        async with (
            harness.speech_server() as tts,
            llm_server(picky, asked, tls) as llm,
            other_heads(heads, tls),
        ):
            return await harness.ran(tmp_path, scenario(tts.url, llm, f"{heads.url}/talk", certificate))

    ended = asyncio.run(work())
    assert ended.run_dir is not None, ended.err
    # Each key went to its own service.
    assert {headers.get("Authorization") for headers in asked} == {f"Bearer {LLM_KEY}"}
    assert {headers.get("Authorization") for headers in heads.headers} == {f"Bearer {FACE_KEY}"}
    # Everything was measured.
    measured = ended.measured("all")
    assert {row["kind"] for row in measured} == {"voices", "faces", "completions"}
    assert {row["end"] for row in measured} <= {"eos", "open"}, [row["error"] for row in measured]
    tables = read(ended.run_dir).tables
    assert len(tables["frames"])
    assert len(tables["tokens"])
    # The observer was let in too: the server has no GET, and 0 would be no answer.
    engine = tables["engine"].to_pylist()
    assert {(row["metric"], row["value"]) for row in engine} == {("unavailable", 405.0)}
    stage = next(stage for stage in ended.summary["stages"] if stage["name"] == "all")
    assert stage["llm"]["decode"]["finished"] > 0
    assert stage["face"]["first_frame_ms"]["p50"] is not None
    # What was found out is recorded, what limits it is said.
    assert ended.manifest["tenants"]["llm"]["request"] == {
        "protocol": "chat", "prompt": "text", "usage": "running", "limit": "max_tokens",
        "without": ["ignore_eos"],
    }  # fmt: skip
    caveats = {caveat["kind"] for caveat in ended.summary["caveats"]}
    assert {"insecure", "no-ignore-eos"} <= caveats
    assert "experimental-protocol" not in caveats
    protocols = {name: ended.manifest["tenants"][name]["protocol"] for name in ("llm", "head")}
    assert {name: told["name"] for name, told in protocols.items()} == {"llm": "openai", "head": "websocket"}
    assert not any(told["experimental"] for told in protocols.values())
    assert "INSECURE" in ended.err
    # No file and no line has a key.
    files = [path for path in ended.run_dir.rglob("*") if path.is_file()]
    for key in (LLM_KEY, FACE_KEY):
        assert [path for path in files if key.encode() in path.read_bytes()] == []
        assert key not in ended.out + ended.err


def test_a_certificate_that_nobody_vouches_for_is_told_with_what_to_do(certificate: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)

    async def work() -> str:
        async with llm_server(Picky(), [], tls) as url:
            assert await attach.check("llm", url, ca_file=str(certificate)) == url
            assert await attach.check("llm", url, insecure=True) == url
            with pytest.raises(UserError, match="ca_file /nowhere: No such file"):
                await attach.check("llm", url, ca_file="/nowhere")
            with pytest.raises(CouldNotRun) as caught:
                await attach.check("llm", url)
            return str(caught.value)

    text = asyncio.run(work())
    assert "certificate is not trusted" in text
    assert "ca_file" in text


def test_a_file_without_a_certificate(tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("nothing")
    with pytest.raises(UserError, match="no certificate in PEM form"):
        context(str(tmp_path / "none.pem"))
