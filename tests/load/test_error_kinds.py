"""Every kind of failure at every kind of service: what is recorded, with a reason, and a hint for it."""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest
from aiohttp import web

from cotenant.errors import HINTS
from cotenant.load.asker import ask, prepare
from cotenant.load.face import show
from cotenant.load.face_audio import FaceFeed
from cotenant.load.voice import Turn, speak
from cotenant.records import ERROR_KINDS
from cotenant.testing.other_heads import drawn
from cotenant.testing.truth_server import Script, truth_server
from cotenant.units import NS_PER_MS
from cotenant.wire.frames import pack_frame
from tests.load.rig import (
    PCM_HEADERS,
    SSE_HEADERS,
    completions,
    desk_for,
    faces,
    new_stage,
    run,
    settings,
    tenant,
    voices,
)

# Of a server that says nothing; of others nobody waits that long.
LIMIT_NS: Final = 150 * NS_PER_MS
PATIENT_NS: Final = 20_000 * NS_PER_MS
HTML: Final = Script(headers={"Content-Type": "text/html"}, pieces=[(0, b"<html>")])
STATUS: Final = {
    "unauthorized": (401,), "forbidden": (403,), "not_found": (404,), "rate_limited": (429,),
    "overloaded": (503, 529), "server_error": (500, 502, 504), "protocol": (400, 405, 422),
}  # fmt: skip
MULTIPART: Final = {"Content-Type": "multipart/x-mixed-replace; boundary=f"}

Message = bytes | dict[str, Any] | str
# What a server answers: over HTTP, or as messages of a WebSocket that it closes then.
Answer = Script | Sequence[Message]


def sse(*events: dict[str, Any] | str) -> list[tuple[int, bytes]]:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return [(0, f"data: {line}\n\n".encode()) for line in lines]


def part(picture: bytes) -> bytes:
    return b"--f\r\nContent-Length: %d\r\n\r\n%b\r\n" % (len(picture), picture)


AUDIO: Final = {"type": "speech.audio.delta", "audio": base64.b64encode(bytes(480)).decode()}
START: Final = {"type": "audio.start", "format": "pcm", "sample_rate": 24_000, "channels": 1}
FRAME: Final = {"data": {"frame": base64.b64encode(drawn(0)).decode(), "i": 0}}
TEXT: Final = {"choices": [{"text": "a"}]}
ROLE: Final = {"choices": [{"delta": {"role": "assistant", "content": ""}}]}
PACKED: Final = pack_frame(0, 0, b"JPEG")
DELTA: Final = {"choices": [{"delta": {"content": "a"}}]}
FAULT: Final = {"error": {"message": "out of memory"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One kind of service: how a tenant is told of it, and how it fails after it has answered."""

    kind: str
    fields: dict[str, Any]
    truncated: Answer
    empty: Answer
    protocol: Answer
    in_stream: Answer | None  # None: it has no words for it


SERVICES: Final = {
    "speech, PCM": Service(
        kind="voices", fields={},
        truncated=Script(headers=PCM_HEADERS, pieces=[(0, bytes(480))], ending="close"),
        empty=Script(headers=PCM_HEADERS), protocol=HTML, in_stream=None,
    ),
    "speech, events": Service(
        kind="voices", fields={},
        truncated=Script(headers=SSE_HEADERS, pieces=sse(AUDIO), ending="close"),
        empty=Script(headers=SSE_HEADERS, pieces=sse({"type": "speech.audio.done"})),
        protocol=Script(headers=SSE_HEADERS, pieces=sse(AUDIO, "nonsense")),
        in_stream=Script(headers=SSE_HEADERS, pieces=sse(AUDIO, {"type": "error", **FAULT})),
    ),
    "speech, WebSocket": Service(
        kind="voices", fields={"protocol": "vllm-omni-socket"}, truncated=[START, bytes(480)],
        empty=[START, {"type": "audio.done"}, {"type": "session.done"}], protocol=["nonsense"],
        in_stream=[START, bytes(480), {"type": "error", "message": "out of memory"}],
    ),
    "face": Service(
        kind="faces", fields={}, truncated=[PACKED], empty=[{"type": "done", "frames": 0}],
        protocol=[b"nonsense"], in_stream=[PACKED, {"type": "error", "message": "out of memory"}],
    ),
    "face, JSON": Service(
        kind="faces",
        fields={"protocol": "websocket", "frames": {
            "image": "data.frame", "index": "data.i", "done": {"type": "idle"}, "error": "fault",
            "audio": {"send": "base64", "path": "pcm", "fields": {}},
        }},
        truncated=[FRAME], empty=[{"type": "idle"}], protocol=["nonsense"],
        in_stream=[FRAME, {"fault": "out of memory"}],
    ),
    "face, MJPEG": Service(
        kind="faces", fields={"protocol": "mjpeg", "frames": {"audio": {"send": "none"}}},
        truncated=Script(headers=MULTIPART, pieces=[(0, part(drawn(0)))], ending="close"),
        empty=Script(headers=MULTIPART, pieces=[(0, b"--f--\r\n")]), protocol=HTML, in_stream=None,
    ),
    "LLM": Service(
        kind="completions", fields={"protocol": "completions"},
        truncated=Script(headers=SSE_HEADERS, pieces=sse(TEXT), ending="close"),
        empty=Script(headers=SSE_HEADERS, pieces=sse("[DONE]")), protocol=HTML,
        in_stream=Script(headers=SSE_HEADERS, pieces=sse(TEXT, FAULT)),
    ),
    "LLM, chat": Service(
        kind="completions", fields={"protocol": "chat"},
        truncated=Script(headers=SSE_HEADERS, pieces=sse(DELTA), ending="close"),
        empty=Script(headers=SSE_HEADERS, pieces=sse(ROLE, "[DONE]")),
        protocol=Script(headers=SSE_HEADERS, pieces=sse(DELTA, "nonsense")),
        in_stream=Script(headers=SSE_HEADERS, pieces=sse(DELTA, FAULT)),
    ),
}  # fmt: skip


async def asked(service: Service, url: str, limit_ns: int = PATIENT_NS) -> dict[str, Any]:
    """The row of one stream of it."""
    name = {"voices": "tts", "faces": "head", "completions": "llm"}[service.kind]
    one: Any = {"voices": voices, "faces": faces, "completions": completions}[service.kind]()
    limits = {"stall_limit_ns": limit_ns, "request_limit_ns": limit_ns}
    told = settings([tenant(url, name, **service.fields)], [one], **limits)
    async with desk_for(told) as (desk, rows):
        stage, due_ns = new_stage(), time.monotonic_ns()
        if service.kind == "voices":
            turn = Turn(listener=0, due_ns=due_ns, delayed_ns=0, line=lambda: (0, "Hi."), tap=None)
            await speak(desk, stage, one, turn)
        elif service.kind == "faces":
            feed = FaceFeed(one, lambda: 0)
            feed.feed(bytes(48_000), 24_000, "s16")
            feed.end()
            await show(desk, stage, feed, 0, due_ns, stage.plan(due_ns, followed=True))
        else:
            await ask(desk, stage, one, 0, due_ns, prepare(desk, one, 4))
        return rows.stream()


@contextlib.asynccontextmanager
async def messages(said: Sequence[Message]) -> AsyncIterator[str]:
    """A WebSocket that says so at once and closes."""

    async def session(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        for one in said:
            if isinstance(one, bytes):
                await socket.send_bytes(one)
            else:
                await socket.send_str(one if isinstance(one, str) else json.dumps(one))
        await socket.close()
        return socket

    app = web.Application()
    app.router.add_get("/{any:.*}", session)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def answered(service: Service, answer: Answer, limit_ns: int = PATIENT_NS) -> dict[str, Any]:
    if not isinstance(answer, Script):
        async with messages(answer) as url:
            return await asked(service, url, limit_ns)
    async with truth_server(lambda _: answer) as server:
        return await asked(service, server.url, limit_ns)


def check(row: dict[str, Any], kind: str, end: str = "error") -> None:
    assert (row["end"], row["error_kind"]) == (end, kind)
    assert row["error"]
    assert HINTS[kind]
    assert row["done"] >= row["due"]


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize(
    ("url", "kind"), [("http://no-such-host.invalid", "dns"), ("http://127.0.0.1:1", "refused")]
)
def test_no_connection(name: str, url: str, kind: str) -> None:
    check(run(asked(SERVICES[name], url)), kind)


@pytest.mark.parametrize("name", SERVICES)
def test_no_tls_behind_https(name: str) -> None:
    async def work() -> dict[str, Any]:
        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Plain\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            return await asked(SERVICES[name], f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")

    check(run(work()), "tls")


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize(("kind", "status"), [(kind, one) for kind in STATUS for one in STATUS[kind]])
def test_a_refusal_by_its_status(name: str, kind: str, status: int) -> None:
    script = Script(status=status, framing="length", pieces=[(0, b"told why")])
    row = run(answered(SERVICES[name], script))
    check(row, kind)
    assert row["status"] == status
    assert str(status) in row["error"]


@pytest.mark.parametrize("name", SERVICES)
def test_silence(name: str) -> None:
    check(run(answered(SERVICES[name], Script(head=False, ending="silent"), LIMIT_NS)), "timeout")


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("kind", ["truncated", "empty", "protocol", "in_stream"])
def test_after_the_answer_began(name: str, kind: str) -> None:
    answer = getattr(SERVICES[name], kind)
    if answer is None:
        assert kind == "in_stream"  # samples and pictures alone leave no room for words
        return
    row = run(answered(SERVICES[name], answer))
    check(row, kind, "truncated" if kind == "truncated" else "error")
    assert kind != "in_stream" or "out of memory" in row["error"]


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("script", [Script(head=False, ending="close"), Script(head=False, ending="reset")])
def test_no_answer_at_all(name: str, script: Script) -> None:
    check(run(answered(SERVICES[name], script)), "protocol")


def test_no_kind_was_left_out() -> None:
    tested = {"dns", "refused", "tls", "timeout", "truncated", "empty", "protocol", "in_stream", *STATUS}
    assert tested == set(ERROR_KINDS)
