"""Every kind of service, how it fails, and what its server sees of the one who asks."""

import asyncio
import base64
import contextlib
import itertools
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from cotenant.load.asker import ask, prepare, start_askers
from cotenant.load.face import show
from cotenant.load.face_audio import FaceFeed
from cotenant.load.listener import start_voices
from cotenant.load.voice import Turn, speak
from cotenant.testing.other_heads import drawn
from cotenant.testing.truth_server import Script, Served, TruthServer
from cotenant.units import NS_PER_MS
from cotenant.wire.frames import pack_frame
from tests.load.rig import (
    PCM_HEADERS,
    SSE_HEADERS,
    KeptRows,
    completions,
    desk_for,
    faces,
    new_stage,
    settings,
    tenant,
    voices,
)

# Of a server that says nothing; of others nobody waits that long.
LIMIT_NS: Final = 150 * NS_PER_MS
PATIENT_NS: Final = 20_000 * NS_PER_MS
BUSY: Final = Script(status=503, framing="length", pieces=[(0, b"told why")])
RESET: Final = Script(head=False, ending="reset")
# In a stage: how often something is asked for, and how each has failed at its end.
EVERY_NS: Final = 20 * NS_PER_MS
FAILURES: Final = {"overloaded", "protocol", "truncated"}
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
        assert len({row["stream"] for row in rows.rows["streams"]}) == 1
        return rows.stream()


@dataclass(slots=True)
class Met:
    """What a server has seen of its client: connections, and the id of each request."""

    url: str = ""
    connections: int = 0
    ids: list[str] = field(default_factory=list)


@contextlib.asynccontextmanager
async def messages(said: Sequence[Message]) -> AsyncIterator[Met]:
    """A WebSocket that says so at once and closes."""
    met = Met()

    async def session(request: web.Request) -> web.WebSocketResponse:
        met.connections += 1
        met.ids.append(request.headers["X-Request-Id"])
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
        met.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield met
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def scripts(answer: Callable[[Served], Script]) -> AsyncIterator[Met]:
    """A server that answers so, and counts what comes."""
    met = Met()

    def answering(served: Served) -> Script:
        met.ids.append(served.headers["x-request-id"])
        return answer(served)

    truth = TruthServer(answering, "")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.connections += 1
        await truth.serve(reader, writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        met.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield met
        await truth.stop()


async def met_by(service: Service, answer: Answer, limit_ns: int = PATIENT_NS) -> tuple[dict[str, Any], Met]:
    """The row of one stream, and what its server saw."""
    serving = scripts(lambda _: answer) if isinstance(answer, Script) else messages(answer)
    async with serving as met:
        return await asked(service, met.url, limit_ns), met


async def answered(service: Service, answer: Answer, limit_ns: int = PATIENT_NS) -> dict[str, Any]:
    row, _ = await met_by(service, answer, limit_ns)
    return row


async def failing_stage() -> tuple[list[str], KeptRows]:
    """The ids of all requests that came, and the rows: voices, heads that follow them, and an LLM."""
    names = {"tts": "speech, PCM", "head": "face, MJPEG", "llm": "LLM"}
    async with contextlib.AsyncExitStack() as stack:
        mets = {
            one: await stack.enter_async_context(scripts(failing_by_turns(SERVICES[name])))
            for one, name in names.items()
        }
        tenants = [tenant(met.url, one, **SERVICES[names[one]].fields) for one, met in mets.items()]
        speaking, asking = voices(mode="open", every_ns=EVERY_NS), completions(mode="rate", rate_per_s=50)
        async with desk_for(settings(tenants, [speaking, faces(), asking])) as (desk, rows):
            stage = new_stage(start_ns=time.monotonic_ns())
            start_voices(desk, stage, speaking, [faces()])
            start_askers(desk, stage, asking)
            while any(kinds_of(one, rows) < FAILURES for one in mets):  # noqa: ASYNC110 - rows are no event
                await asyncio.sleep(0.005)
            await stage.drain("open")
            return [one for met in mets.values() for one in met.ids], rows


def failing_by_turns(service: Service) -> Callable[[Served], Script]:
    """Each request its own fault; voices bring some audio in most, that the heads are heard of too."""
    assert isinstance(service.truncated, Script)
    more = (service.truncated,) * 2 if service.kind == "voices" else ()
    faults = itertools.cycle((BUSY, RESET, service.truncated, *more))
    of_request: defaultdict[str, Script] = defaultdict(lambda: next(faults))
    return lambda served: of_request[served.headers["x-request-id"]]


def kinds_of(name: str, rows: KeptRows) -> set[str]:
    return {row["error_kind"] for row in failed(rows) if row["tenant"] == name}


def failed(rows: KeptRows) -> list[dict[str, Any]]:
    return [row for row in rows.rows["streams"] if row["end"] in ("error", "truncated")]
