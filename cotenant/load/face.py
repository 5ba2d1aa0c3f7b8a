"""One clip of a talking head: audio in as a voice brings it, frames out."""

import asyncio
import time
from collections.abc import Mapping
from typing import Final

import aiohttp

from cotenant.errors import ServiceError
from cotenant.load.desk import Desk, StreamRows
from cotenant.load.face_audio import FaceFeed, HandedAudio
from cotenant.load.face_link import Link, Received
from cotenant.load.face_mjpeg import MjpegLink
from cotenant.load.face_socket import SocketLink
from cotenant.load.request import Outcome
from cotenant.load.settings import Tenant
from cotenant.load.stage import Stage, Ticket
from cotenant.load.tasks import end_task
from cotenant.load.transport import CONNECT_AHEAD_NS, sleep_until
from cotenant.units import NS_PER_S
from cotenant.wire import frames
from cotenant.wire.frames import FrameHeader
from cotenant.wire.head_codec import Done, HeadCodec, MappedCodec, OwnCodec

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
    link = _link(desk, tenant, listener, desk.headers(tenant, rows.stream), feed.load.fps)
    clip = _Clip(desk, stage, feed, listener, outcome, rows, link)
    try:
        await sleep_until(due_ns - CONNECT_AHEAD_NS)
        try:
            await link.open(desk.limits(stage, stall=True).connect_ns / NS_PER_S)
            outcome.connected_ns = time.monotonic_ns() if link.status is not None else None
            outcome.status = link.status
        except ServiceError as error:
            await sleep_until(due_ns)
            rows.set(utterance=feed.utterance())
            outcome.status = error.status
            outcome.close("error", time.monotonic_ns(), error)
        else:
            await sleep_until(due_ns)
            await clip.run()
        rows.ended()
    except asyncio.CancelledError:
        rows.stopped()
        raise
    finally:
        await link.close()
        stage.close(ticket)


def _link(desk: Desk, tenant: Tenant, number: int, headers: Mapping[str, str], fps: int) -> Link:
    """The link of a tenant's protocol, for client `number`."""
    url = tenant.url(number, FACE_PATH)
    trusted = desk.transport.trust.of(url)
    if tenant.protocol == "mjpeg":
        return MjpegLink(desk.web, url, headers, tenant.frames, fps, trusted)
    mapped = tenant.protocol == "websocket"
    codec: HeadCodec = MappedCodec(tenant.frames, fps) if mapped else OwnCodec(fps)
    return SocketLink(desk.web, url, headers, codec, trusted)


class _Clip:
    """The course of one clip over an open link."""

    def __init__(
        self,
        desk: Desk,
        stage: Stage,
        feed: FaceFeed,
        listener: int,
        outcome: Outcome,
        rows: StreamRows,
        link: Link,
    ) -> None:
        self._desk = desk
        self._stage = stage
        self._feed = feed
        self._listener = listener
        self._outcome = outcome
        self._rows = rows
        self._link = link
        self._period_ns = NS_PER_S // feed.load.fps
        self._handed = HandedAudio(self._period_ns)
        self._all_handed = False
        self._frames = 0
        self._skipped_ns = 0  # what a head that is only watched showed before there was audio
        self._shown_ns = 0  # up to there there are frames
        # The last thing that came from the head or that it took.
        self._last_ns = 0

    async def run(self) -> None:
        outcome = self._outcome
        outcome.sent_ns = self._last_ns = time.monotonic_ns()
        await self._link.start()
        self._rows.set(utterance=self._feed.utterance())
        self._rows.write()
        handing = asyncio.ensure_future(self._hand_over())
        try:
            while outcome.end is None:
                await self._receive()
        finally:
            await end_task(handing, OSError, aiohttp.ClientError)

    async def _hand_over(self) -> None:
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
                await self._link.send(piece)
                self._last_ns = time.monotonic_ns()
                self._handed.add(len(piece) // _SAMPLE_BYTES, self._last_ns)
        if not self._handed.samples:
            error = ServiceError("empty", "the voice brought no audio")
            self._outcome.close("aborted", time.monotonic_ns(), error)
            await self._link.close()
            return
        await self._link.end()
        self._last_ns = time.monotonic_ns()
        self._handed.end(self._last_ns)
        self._all_handed = True
        self._end_if_shown(self._last_ns)

    async def _receive(self) -> None:
        stall_ns = self._desk.limits(self._stage, stall=True).stall_ns
        assert stall_ns is not None
        now_ns, outcome = time.monotonic_ns(), self._outcome
        # While the voice goes on, a head may have nothing to show; the voice has limits of its own.
        over_ns = self._feed.ended_ns
        until_ns = stall_ns + (now_ns if over_ns is None else max(over_ns, self._last_ns))
        if now_ns >= until_ns:
            error = ServiceError("timeout", f"given up; nothing came for {stall_ns // 1_000_000} ms")
            outcome.close("truncated" if self._frames else "error", now_ns, error)
            return
        try:
            received = await self._link.receive((until_ns - now_ns) / NS_PER_S)
        except TimeoutError:
            return
        except ServiceError as error:
            if outcome.end is None:
                outcome.status = self._link.status
                end = "truncated" if error.kind == "truncated" else "error"
                outcome.close(end, time.monotonic_ns(), error)
            return
        outcome.status = self._link.status
        for one in received:
            if outcome.end is None:
                self._take(one)

    def _take(self, one: Received | Done | ServiceError) -> None:
        outcome = self._outcome
        if isinstance(one, ServiceError):
            outcome.close("error", self._last_ns, one)
        elif isinstance(one, Done):
            self._done()
        else:
            self._first_byte(one.at_ns)
            if one.header is not None:
                self._frame(one.header, one)

    def _done(self) -> None:
        """The head said that it is done, or closed where that says it."""
        now_ns = time.monotonic_ns()
        if not self._frames:
            self._outcome.close("error", now_ns, ServiceError("empty", "the head is done without a frame"))
        elif self._link.tells_end or self._all_handed:
            self._outcome.close("eos", now_ns)
        else:
            error = ServiceError("truncated", "closed before it had all of the audio")
            self._outcome.close("truncated", now_ns, error)

    def _first_byte(self, now_ns: int) -> None:
        self._last_ns = max(self._last_ns, now_ns)
        if self._outcome.first_byte_ns is None:
            self._outcome.first_byte_ns = now_ns

    def _frame(self, header: FrameHeader, received: Received) -> None:
        media_time_ns = header.media_time_ns
        if self._link.watched and not self._handed.samples:
            self._skipped_ns = media_time_ns + self._period_ns
            return
        media_time_ns = max(0, media_time_ns - self._skipped_ns)
        self._outcome.body_bytes += received.size_bytes
        # What shared a read is not seen through this client; its stamps' error is the loop's lag.
        self._desk.writer.append(
            "frames",
            stream=self._rows.stream,
            seq=self._frames,
            arrival=received.at_ns,
            media_time=media_time_ns,
            audio_handed=self._handed.needed_at(media_time_ns),
            bytes=received.size_bytes,
            shared_read=False,
        )
        if not self._frames:
            self._stage.output(self._feed.load.name, self._listener)
        self._frames += 1
        self._shown_ns = max(self._shown_ns, media_time_ns + self._period_ns)
        self._end_if_shown(received.at_ns)

    def _end_if_shown(self, now_ns: int) -> None:
        """A head that never says that it is done is, once it has shown as much as it heard."""
        heard_ns = self._handed.samples * NS_PER_S // frames.AUDIO_RATE_HZ
        shown = self._all_handed and self._shown_ns >= heard_ns
        if shown and not self._link.tells_end and self._outcome.end is None:
            self._outcome.close("eos", max(now_ns, self._last_ns))
