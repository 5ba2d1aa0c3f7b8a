"""A voice over a WebSocket: text goes in by pieces, audio comes out; and what a server does wrong."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import pytest
from aiohttp import WSMsgType, web

from cotenant.load.voice import Heard, Turn, speak
from cotenant.units import NS_PER_MS, NS_PER_S
from tests.load.rig import KeptRows, desk_for, new_stage, run, settings, tenant, voices

TEXT: Final = "Rain falls. The harbour is quiet."
PIECE: Final = bytes(range(240)) * 10  # 50 ms at 24 kHz
START: Final = {"type": "audio.start", "format": "pcm", "sample_rate": 24_000, "channels": 1}
DONE: Final = {"type": "audio.done", "total_bytes": 2400, "error": False}
END: Final = {"type": "session.done", "total_sentences": 1}

Answer = Callable[[web.WebSocketResponse], Awaitable[None]]


class Session:
    """A server that takes what a client says until `input.done`, then answers as it is told."""

    def __init__(self, answer: Answer) -> None:
        self.said: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}
        self._answer = answer

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            assert message.type is WSMsgType.TEXT
            self.said.append(json.loads(message.data))
            if self.said[-1]["type"] == "input.done":
                await self._answer(socket)
                break
        return socket

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_get("/v1/audio/speech/stream", self.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"ws://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


async def sent(socket: web.WebSocketResponse, *messages: bytes | dict[str, Any]) -> None:
    for message in messages:
        if isinstance(message, bytes):
            await socket.send_bytes(message)
        else:
            await socket.send_json(message)


def spoken(
    answer: Answer, url: str | None = None, protocol: str = "vllm-omni-socket", **fields: Any
) -> tuple[KeptRows, Heard, Session]:
    async def work() -> tuple[KeptRows, Heard, Session]:
        session = Session(answer)
        async with session.serving() as served:
            one = tenant(url or served, protocol=protocol, **{"rate_hz": None, **fields})
            async with desk_for(settings([one], [voices()])) as (desk, rows):
                due_ns = time.monotonic_ns()
                turn = Turn(listener=0, due_ns=due_ns, delayed_ns=0, line=lambda: (3, TEXT), tap=None)
                return rows, await speak(desk, new_stage(), voices(), turn), session

    return run(work())


def test_a_good_utterance() -> None:
    async def answer(socket: web.WebSocketResponse) -> None:
        await sent(socket, START, PIECE[:1201], PIECE[1201:], DONE, START, PIECE, DONE, END)

    headers = {"Authorization": "Bearer k"}
    rows, heard, session = spoken(answer, voice="Ana", model="m", extra={"language": "en"}, headers=headers)
    config, *texts, last = session.said
    assert config == {
        "type": "session.config", "response_format": "pcm", "stream_audio": True,
        "split_granularity": "sentence", "voice": "Ana", "model": "m", "language": "en",
    }  # fmt: skip
    assert [text["type"] for text in texts] == ["input.text"] * 6
    assert "".join(text["text"] for text in texts) == TEXT
    assert last == {"type": "input.done"}
    assert session.headers["authorization"] == "Bearer k"
    assert session.headers["x-request-id"] == "run-1-1000000"
    row = rows.stream()
    assert (row["end"], row["error"], row["status"], row["stamp"]) == ("eos", None, 101, "user")
    assert (row["utterance"], row["rate_hz"], row["sample_format"]) == (3, 24_000, "s16")
    assert row["due"] <= row["sent"] <= row["first_byte"] <= row["done"]
    assert row["connected"] <= row["sent"]
    chunks = rows.rows["chunks"]
    assert [chunk["media"] // NS_PER_MS for chunk in chunks] == [25, 25, 50]
    assert [chunk["bytes"] for chunk in chunks] == [1201, 1199, 2400]
    assert chunks[0]["arrival"] <= chunks[1]["arrival"] <= row["done"]
    assert bytes(rows.audio) == PIECE * 2
    assert not heard.failed
    assert heard.end_ns == row["done"] + 100 * NS_PER_MS


@pytest.mark.parametrize(
    ("protocol", "given_hz", "rate_hz"),
    [
        ("vllm-omni-socket", 48_000, 48_000),
        ("vllm-omni-socket", None, 24_000),
        ("sglang-omni-socket", 48_000, 24_000),
    ],
)
def test_whose_word_counts_for_the_rate(protocol: str, given_hz: int | None, rate_hz: int) -> None:
    rows, _, _ = spoken(lambda socket: sent(socket, START, PIECE, END), protocol=protocol, rate_hz=given_hz)
    assert rows.stream()["rate_hz"] == rate_hz
    assert [chunk["media"] for chunk in rows.rows["chunks"]] == [len(PIECE) // 2 * NS_PER_S // rate_hz]


async def _error(socket: web.WebSocketResponse) -> None:
    await sent(socket, START, PIECE, {"type": "error", "message": "CUDA", "partial_audio": True})


async def _closes(socket: web.WebSocketResponse) -> None:
    await sent(socket, START, PIECE)
    await socket.close()


async def _silent(socket: web.WebSocketResponse) -> None:
    await sent(socket, START, PIECE)
    with contextlib.suppress(TimeoutError):
        await socket.receive(timeout=5)


async def _says_nothing(socket: web.WebSocketResponse) -> None:
    with contextlib.suppress(TimeoutError):
        await socket.receive(timeout=5)


FAULTS: Final[dict[str, tuple[Answer, str, str, int]]] = {
    "an error": (_error, "error", "in_stream", 50),
    "closed early": (_closes, "truncated", "truncated", 50),
    "silent after some audio": (_silent, "truncated", "timeout", 50),
    "silent from the start": (_says_nothing, "error", "timeout", 0),
    "no audio": (lambda socket: sent(socket, START, DONE, END), "error", "empty", 0),
    "not JSON": (lambda socket: socket.send_str("hello"), "error", "protocol", 0),
    "compressed": (lambda socket: sent(socket, {**START, "format": "opus"}), "error", "protocol", 0),
    "stereo": (lambda socket: sent(socket, {**START, "channels": 2}), "error", "protocol", 0),
    "no rate": (lambda socket: sent(socket, {"type": "audio.start"}, PIECE), "error", "protocol", 0),
    "a sentence failed": (
        lambda socket: sent(socket, START, PIECE, {**DONE, "error": True}, END), "error", "in_stream", 50,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name: str) -> None:
    answer, end, kind, media_ms = FAULTS[name]
    rows, heard, _ = spoken(answer)
    row = rows.stream()
    assert (row["end"], row["error_kind"]) == (end, kind)
    assert row["error"]
    assert sum(chunk["media"] for chunk in rows.rows["chunks"]) // NS_PER_MS == media_ms
    assert heard.failed
    assert heard.end_ns >= heard.done_ns == row["done"]


@pytest.mark.parametrize(
    ("path", "kind", "status"), [("/nowhere", "not_found", 404), (None, "refused", None)]
)
def test_no_session(path: str | None, kind: str, status: int | None) -> None:
    async def work() -> KeptRows:
        session = Session(_says_nothing)
        async with session.serving() as served:
            url = "http://127.0.0.1:1" if path is None else served + path
            one = tenant(url, protocol="vllm-omni-socket")
            async with desk_for(settings([one], [voices()])) as (desk, rows):
                turn = Turn(listener=0, due_ns=0, delayed_ns=0, line=lambda: (0, TEXT), tap=None)
                await speak(desk, new_stage(), voices(), turn)
                return rows

    row = run(work()).stream()
    assert (row["end"], row["error_kind"], row["status"]) == ("error", kind, status)
    assert (row["sent"], row["utterance"]) == (None, 0)


def test_what_is_open_when_it_is_stopped_is_recorded_as_open() -> None:
    async def work() -> KeptRows:
        async with Session(_silent).serving() as served:
            told = settings([tenant(served, protocol="vllm-omni-socket")], [voices()], stall_limit_ns=10**11)
            async with desk_for(told) as (desk, rows):
                stage = new_stage()
                turn = Turn(listener=0, due_ns=0, delayed_ns=0, line=lambda: (0, TEXT), tap=None)

                async def one() -> None:
                    await speak(desk, stage, voices(), turn)

                stage.spawn(one())
                while not rows.rows["chunks"]:  # noqa: ASYNC110 - rows are kept, not announced
                    await asyncio.sleep(0.005)
                await stage.drain("open")
                return rows

    assert run(work()).stream()["end"] == "open"
