"""Clients of a generator that read slowly or not at all: it waits for them, and at last drops them."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web

from cotenant.tenants.builtin import face_ws, mailbox, source_head, source_speech, speech_http
from cotenant.tenants.builtin.answers import Failed, Frame, Spoken
from cotenant.tenants.builtin.source import Source
from cotenant.tenants.builtin.source_pieces import SpeechPieces
from cotenant.tenants.builtin.workers import Run, Workers
from tests.tenants.test_slow_clients import LIMIT, PICTURE, small_mailbox


class Endless:
    """A generator that counts what it makes and knows when it is closed."""

    def __init__(self, piece: Any) -> None:
        self.piece, self.made, self.closed = piece, 0, threading.Event()

    def __call__(self, *asked: Any) -> Iterator[Any]:
        try:
            while True:
                self.made += 1
                yield self.piece
        finally:
            self.closed.set()

    def batch(self, texts: list[str], voices: list[str | None]) -> Iterator[list[Any]]:
        """Pieces for all, 100 rounds."""
        for _ in range(100):
            self.made += 1
            yield [self.piece] * len(texts)


def workers(made: Endless, run: Run, *, batch: int = 1) -> Workers:
    source = Source(name="endless", call=made, batch=made.batch if batch > 1 else None, rate_hz=8000)
    ready = threading.Event()

    def broken(error: BaseException) -> None:
        raise error

    found = Workers(lambda: source, run, count=1, batch=batch, on_ready=ready.set, on_failure=broken)
    found.start()
    assert ready.wait(30)
    return found


async def until(found: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not found():  # noqa: ASYNC110 - a thread's work is asked for, it does not tell
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("kind", ["speech", "face"])
def test_a_generator_waits_for_its_client_and_ends_when_that_is_dropped(kind: str) -> None:
    async def work() -> None:
        made = Endless(PICTURE if kind == "face" else bytes(1000))
        threads = workers(made, source_head.run if kind == "face" else source_speech.run)
        out = small_mailbox()

        def begin() -> Callable[[], None]:
            if kind == "face":
                return source_head.SourceHead(threads).begin(25, out).drop
            voice = source_speech.SourceVoice(threads, "m", rate_hz=8000, sample_format="s16")
            return voice.speak("text", None, out)

        drop = begin()
        await until(lambda: out.full)
        assert (out.unread_bytes, made.made) == (LIMIT, 10)
        for number in range(200):
            assert isinstance(await out.get(), Frame | Spoken)
            assert out.unread_bytes <= LIMIT
            assert made.made <= number + 12
        assert not made.closed.is_set()
        await until(lambda: out.full)
        drop()
        out.close()
        await until(made.closed.is_set)
        await until(lambda: threads.active == 0)
        # The one worker is free for the next client.
        out, made.closed = small_mailbox(), threading.Event()
        drop = begin()
        await until(lambda: out.full)
        drop()
        out.close()
        await until(made.closed.is_set)
        assert threads.stop(20)

    asyncio.run(work())


def test_in_a_batch_who_does_not_read_is_dropped_and_the_others_get_everything() -> None:
    async def work() -> None:
        made = Endless(bytes(1000))
        threads = workers(made, source_speech.run, batch=2)
        slow, quick = small_mailbox(), small_mailbox(1 << 30)
        jobs = [
            source_speech.Utterance(text, None, SpeechPieces(8000, "s16"), out)
            for text, out in (("slow", slow), ("quick", quick))
        ]
        with threads._work:
            threads._waiting.extend(jobs)
            threads._work.notify()
        got = 0
        while isinstance(item := await quick.get(), Spoken):
            got += 1
        assert (item, got) == (None, 100)
        assert slow.unread_bytes == LIMIT
        kept = []
        while isinstance(item := await slow.get(), Spoken):
            kept.append(item)
        assert len(kept) == 10
        assert item == Failed(message="the client was dropped: it has not read 10000 bytes")
        assert threads.stop(20)

    asyncio.run(work())


async def deaf(port: int, first: bytes) -> socket.socket:
    """A connection that sends and never reads."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    await asyncio.get_running_loop().sock_sendall(sock, first)
    return sock


def text_frame(text: str) -> bytes:
    return bytes([0x81, 0x80 | len(text)]) + bytes(4) + text.encode()


SPEECH = b'{"input": "x", "response_format": "pcm", "stream": true}'
EVENTS = b'{"input": "x", "response_format": "pcm", "stream": true, "stream_format": "sse"}'
WHOLE = b'{"input": "x", "response_format": "pcm"}'
FACE = (
    b"GET /v1/face HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    + text_frame('{"type": "config", "sample_rate": 16000, "fps": 25}')
)


def post(body: bytes) -> bytes:
    return b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize(
    ("kind", "first"), [("face", FACE), ("speech", post(SPEECH)), ("speech", post(EVENTS))]
)
def test_a_real_client_that_reads_nothing_is_dropped_with_a_reason(
    kind: str, first: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mailbox, "UNREAD_LIMIT_S", 0.1)
    monkeypatch.setattr(face_ws, "_LAST_WORD_S", 0.05)
    caplog.set_level(logging.WARNING, "cotenant.builtin")

    async def work() -> int:
        made = Endless(PICTURE[:2] + bytes(200_000) if kind == "face" else bytes(200_000))
        threads = workers(made, source_head.run if kind == "face" else source_speech.run)
        app = web.Application()
        if kind == "face":
            face_ws.add_routes(app, source_head.SourceHead(threads))
        else:
            voice = source_speech.SourceVoice(threads, "m", rate_hz=8000, sample_format="s16")
            speech_http.add_routes(app, voice)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        with await deaf(runner.addresses[0][1], first):
            await until(made.closed.is_set)
            await until(lambda: threads.active == 0)
            await until(lambda: "dropped" in caplog.text)
        await runner.cleanup()
        assert threads.stop(20)
        return made.made

    made = asyncio.run(work())
    assert f"{kind}: the client was dropped: it has read nothing for 0.1 s" in caplog.text
    # What the mailbox holds, and the kernel.
    assert made * 200_000 < mailbox.UNREAD_LIMIT_BYTES + (16 << 20)


def test_an_answer_that_is_not_streamed_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech_http, "_WHOLE_LIMIT_BYTES", 3 << 20)

    async def work() -> bytes:
        made = Endless(bytes(100_000))
        threads = workers(made, source_speech.run)
        app = web.Application()
        voice = source_speech.SourceVoice(threads, "m", rate_hz=8000, sample_format="s16")
        speech_http.add_routes(app, voice)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        writer.write(post(WHOLE))
        answer = await reader.readuntil(b"stream: true")
        writer.close()
        await until(made.closed.is_set)
        await runner.cleanup()
        assert threads.stop(20)
        return answer

    answer = asyncio.run(work())
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"the answer has over 3 MiB; ask for it with stream: true" in answer
