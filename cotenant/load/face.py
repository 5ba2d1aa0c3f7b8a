"""One clip of a talking head: audio in over a WebSocket as a voice brings it, frames out."""

import asyncio
import contextlib
import time
from typing import Final

import aiohttp

from cotenant.errors import ServiceError
from cotenant.load import web_socket
from cotenant.load.desk import Desk, StreamRows
from cotenant.load.face_audio import FaceFeed, HandedAudio
from cotenant.load.request import Outcome
from cotenant.load.stage import Stage, Ticket
from cotenant.load.tasks import end_task
from cotenant.load.transport import CONNECT_AHEAD_NS, sleep_until
from cotenant.units import NS_PER_S
from cotenant.wire import frames

FACE_PATH: Final = "/v1/face"
REALTIME_PIECE_NS: Final = 40_000_000
_SAMPLE_BYTES: Final = 2


async def show(desk: Desk, stage: Stage, feed: FaceFeed, listener: int, due_ns: int, ticket: Ticket) -> None:
    """One clip from its connection to its end. When cancelled it leaves a row that says so."""
    tenant = desk.settings.tenants[feed.load.tenant]
    outcome = Outcome(due_ns=due_ns, user_reads=1, secrets=tenant.secrets)
    rows = StreamRows(
        desk, stage, outcome, tenant=feed.load.tenant, load=feed.load.name, kind="faces", listener=listener,
        delayed=0,
    )  # fmt: skip
    socket: aiohttp.ClientWebSocketResponse | None = None
    clip = _Clip(desk, stage, feed, listener, outcome, rows)
    try:
        await sleep_until(due_ns - CONNECT_AHEAD_NS)
        try:
            limit_s = desk.limits(stage, stall=True).connect_ns / NS_PER_S
            socket = await web_socket.connect(
                desk.web, tenant.url(listener, FACE_PATH), desk.headers(tenant, rows.stream), limit_s
            )
            outcome.connected_ns = time.monotonic_ns()
            outcome.status = 101
        except ServiceError as error:
            await sleep_until(due_ns)
            rows.set(utterance=feed.utterance())
            outcome.status = error.status
            outcome.close("error", time.monotonic_ns(), error)
        else:
            await sleep_until(due_ns)
            await clip.run(socket)
        rows.ended()
    except asyncio.CancelledError:
        rows.stopped()
        raise
    finally:
        if socket is not None:
            await web_socket.close(socket)
        stage.close(ticket)


class _Clip:
    """The course of one clip on an open WebSocket."""

    def __init__(
        self, desk: Desk, stage: Stage, feed: FaceFeed, listener: int, outcome: Outcome, rows: StreamRows
    ) -> None:
        self._desk = desk
        self._stage = stage
        self._feed = feed
        self._listener = listener
        self._outcome = outcome
        self._rows = rows
        self._handed = HandedAudio(NS_PER_S // feed.load.fps)
        self._frames = 0
        # The last thing that came from the head or that it took.
        self._last_ns = 0

    async def run(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        outcome = self._outcome
        outcome.sent_ns = self._last_ns = time.monotonic_ns()
        # Should it break here, the reader sees the same break and tells what kind it is.
        with contextlib.suppress(OSError, aiohttp.ClientError):
            await socket.send_str(frames.config_message(self._feed.load.fps))
        self._rows.set(utterance=self._feed.utterance())
        self._rows.write()
        handing = asyncio.ensure_future(self._hand_over(socket))
        try:
            while outcome.end is None:
                await self._receive(socket)
        finally:
            await end_task(handing, OSError, aiohttp.ClientError)

    async def _hand_over(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Passes the voice's audio on, as it arrives or at most at real-time pace."""
        piece_bytes = REALTIME_PIECE_NS * frames.AUDIO_RATE_HZ // NS_PER_S * _SAMPLE_BYTES
        next_ns = 0
        while (data := await self._feed.queue.get()) is not None:
            step = piece_bytes if self._feed.load.realtime else len(data)
            for start in range(0, len(data), step):
                piece = data[start : start + step]
                if self._feed.load.realtime:
                    await sleep_until(next_ns)
                    media_ns = len(piece) // _SAMPLE_BYTES * NS_PER_S // frames.AUDIO_RATE_HZ
                    next_ns = max(next_ns, time.monotonic_ns()) + media_ns
                await socket.send_bytes(piece)
                self._last_ns = time.monotonic_ns()
                self._handed.add(len(piece) // _SAMPLE_BYTES, self._last_ns)
        if not self._handed.samples:
            error = ServiceError("empty", "the voice brought no audio")
            self._outcome.close("aborted", time.monotonic_ns(), error)
            await socket.close()
            return
        await socket.send_str(frames.END_MESSAGE)
        self._last_ns = time.monotonic_ns()
        self._handed.end(self._last_ns)

    async def _receive(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        stall_ns = self._desk.limits(self._stage, stall=True).stall_ns
        assert stall_ns is not None
        now_ns = time.monotonic_ns()
        # While the voice goes on, a head may have nothing to show; the voice has limits of its own.
        over_ns = self._feed.ended_ns
        until_ns = stall_ns + (now_ns if over_ns is None else max(over_ns, self._last_ns))
        if now_ns >= until_ns:
            error = ServiceError("timeout", f"given up; nothing came for {stall_ns // 1_000_000} ms")
            self._outcome.close("truncated" if self._frames else "error", now_ns, error)
            return
        try:
            message = await socket.receive(timeout=(until_ns - now_ns) / NS_PER_S)
        except TimeoutError:
            return
        self._message(message, time.monotonic_ns())

    def _message(self, message: aiohttp.WSMessage, now_ns: int) -> None:
        outcome = self._outcome
        if outcome.end is not None:
            return
        try:
            if message.type is aiohttp.WSMsgType.BINARY:
                self._frame(message.data, now_ns)
            elif message.type is aiohttp.WSMsgType.TEXT:
                self._first_byte(now_ns)
                if frames.parse_text(message.data) is not None:
                    if not self._frames:
                        raise ServiceError("empty", "the head is done without a frame")
                    outcome.close("eos", now_ns)
            else:
                error = ServiceError("truncated", f"closed before it was done ({message.data})")
                outcome.close("truncated", now_ns, error)
        except ServiceError as error:
            outcome.close("error", now_ns, error)

    def _first_byte(self, now_ns: int) -> None:
        self._last_ns = now_ns
        if self._outcome.first_byte_ns is None:
            self._outcome.first_byte_ns = now_ns

    def _frame(self, data: bytes, now_ns: int) -> None:
        self._first_byte(now_ns)
        header = frames.parse_frame(data)
        self._outcome.body_bytes += len(data)
        # What shared a read is not seen through this client; its stamps' error is the loop's lag.
        self._desk.writer.append(
            "frames",
            stream=self._rows.stream,
            seq=self._frames,
            arrival=now_ns,
            media_time=header.media_time_ns,
            audio_handed=self._handed.needed_at(header.media_time_ns),
            bytes=len(data),
            shared_read=False,
        )
        if not self._frames:
            self._stage.output(self._feed.load.name, self._listener)
        self._frames += 1
