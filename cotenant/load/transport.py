"""One request and its streamed answer over a connection of its own: what was sent and what arrived, when.

A fault of the tested service ends up in the outcome and is never raised.
"""

import asyncio
import time
from typing import Final
from urllib.parse import urlsplit

from cotenant.errors import ServiceError
from cotenant.load.clock import ClockMap
from cotenant.load.inbox import Read
from cotenant.load.let_end import let_end
from cotenant.load.request import Consumer, Limits, Outcome, Request
from cotenant.load.sockets import Connection, connect
from cotenant.load.tasks import end_task
from cotenant.tls import Trust
from cotenant.units import NS_PER_S
from cotenant.wire.http1 import Body, End, Event, Head, Http1Client, status_kind

CONNECT_AHEAD_NS: Final = NS_PER_S
# Far longer than any secret that may stand in it: the whole of one is found before the text is cut.
_ERROR_BODY_BYTES: Final = 1 << 16


class Transport:
    """Opens connections and runs requests. `stamps` False leaves the kernel's stamps off.

    No redirect is followed: what a key is for is the address that it was given for.
    """

    def __init__(self, clock: ClockMap, *, stamps: bool = True, trust: Trust | None = None) -> None:
        self.clock = clock
        self._stamps = stamps
        self.trust = trust if trust is not None else Trust(own={})
        self._ending: set[asyncio.Task[None]] = set()

    async def open(self, url: str, limits: Limits) -> Connection:
        """A connection to the URL's host. Raises ServiceError."""
        parts = urlsplit(url)
        tls = self.trust.of(url)
        return await connect(
            parts.hostname or "",
            parts.port or (443 if tls is not None else 80),
            tls=tls,
            clock=self.clock,
            until_ns=time.monotonic_ns() + limits.connect_ns,
            stamps=self._stamps,
        )

    async def ahead(self, url: str, due_ns: int, limits: Limits) -> Connection | ServiceError:
        """A connection opened up to 1 s before `due_ns`, with its failure as a value."""
        await sleep_until(due_ns - CONNECT_AHEAD_NS)
        try:
            return await self.open(url, limits)
        except ServiceError as error:
            return error

    async def exchange(
        self,
        opened: Connection | ServiceError,
        request: Request,
        outcome: Outcome,
        limits: Limits,
        consumer: Consumer,
    ) -> None:
        """Sends now, reads to the end, closes the connection; `outcome` has it all, also when cancelled.

        Leaves `outcome.end` None only if cancelled: whoever cancels says what that was. Where the stream has
        said that it is complete before the response was, the close comes a moment later, without a reset.
        """
        connection: Connection | None = None
        going: _Exchange | None = None
        try:
            if not isinstance(opened, ServiceError) and opened.closed_by_peer:
                # It waited unused and the server hung up: that is not this request's failure.
                opened.close()
                opened = await self.open(request.url, limits)
            if isinstance(opened, ServiceError):
                raise opened
            connection = opened
            outcome.connected_ns = connection.connected_ns
            going = _Exchange(connection, request, outcome, limits, consumer)
            await going.run()
        except ServiceError as error:
            outcome.close("error", time.monotonic_ns(), error)
        finally:
            if connection is not None and going is not None and going.unended:
                task = asyncio.ensure_future(let_end(connection, going.http))
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
            elif connection is not None:
                connection.close()


class _Exchange:
    """The course of one request on an open connection."""

    def __init__(
        self, connection: Connection, request: Request, outcome: Outcome, limits: Limits, consumer: Consumer
    ) -> None:
        self._connection = connection
        self._request = request
        self._outcome = outcome
        self._limits = limits
        self._consumer = consumer
        self.http = Http1Client()
        # The stream has said that it is complete, and the response goes on.
        self.unended = False
        self._refusal: bytearray | None = None
        self._last_ns = 0

    async def run(self) -> None:
        """Sets the outcome's end."""
        parts = urlsplit(self._request.url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host = parts.netloc.rpartition("@")[2]
        data = self.http.request(
            self._request.method, host, target, self._request.headers, self._request.body
        )
        self._outcome.sent_ns = self._last_ns = time.monotonic_ns()
        self._consumer.sent()
        sending = asyncio.ensure_future(self._connection.send(data))
        try:
            while self._outcome.end is None:
                await self._step()
        finally:
            # A server may answer and hang up before it has read all: its answer counts, not the send.
            await end_task(sending, OSError)

    async def _step(self) -> None:
        outcome, until_ns = self._outcome, self._until_ns()
        try:
            read = await self._connection.read(until_ns)
        except OSError as error:
            self._cut(time.monotonic_ns(), str(error))
            return
        if read is None:
            self._given_up(time.monotonic_ns())
            return
        if read.data:
            self._count(read)
        elif outcome.first_byte_ns is None:
            self._cut(read.arrival_ns, "closed without an answer")
            return
        try:
            events = self.http.feed(read.data)
            for event in events:
                self._event(event, read.arrival_ns)
                if outcome.end is not None:
                    self.unended = outcome.end == "eos" and not isinstance(events[-1], End | ServiceError)
                    return
            if outcome.over_ns is not None and read.arrival_ns >= outcome.over_ns:
                self._complete(read.arrival_ns)
        except ServiceError as error:
            outcome.close("error", read.arrival_ns, error)

    def _until_ns(self) -> int | None:
        limits, ends = self._limits, []
        if self._outcome.over_ns is not None:
            ends.append(self._outcome.over_ns)
        if limits.stall_ns is not None:
            ends.append(self._last_ns + limits.stall_ns)
        if limits.total_ns is not None:
            ends.append(self._outcome.due_ns + limits.total_ns)
        return min(ends, default=None)

    def _count(self, read: Read) -> None:
        outcome = self._outcome
        self._last_ns = read.arrival_ns
        outcome.kernel_reads += read.kernel
        outcome.user_reads += not read.kernel
        if outcome.first_byte_ns is None:
            outcome.first_byte_ns = read.arrival_ns

    def _event(self, event: Event, arrival_ns: int) -> None:
        outcome = self._outcome
        if isinstance(event, Head):
            outcome.status = event.status
            if status_kind(event.status) is not None:
                self._refusal = bytearray(_redirect(event))
            else:
                self._consumer.head(event)
        elif isinstance(event, Body):
            outcome.body_bytes += len(event.data)
            if self._refusal is not None:
                self._refusal += event.data[: _ERROR_BODY_BYTES - len(self._refusal)]
            elif self._consumer.body(event, arrival_ns):
                self._complete(arrival_ns)
        elif isinstance(event, End):
            self._complete(arrival_ns)
        else:
            self._cut(arrival_ns, str(event), kind=event.kind)

    def _complete(self, arrival_ns: int) -> None:
        outcome = self._outcome
        if self._refusal is not None:
            self._refused(arrival_ns)
            return
        self._consumer.cut(self._last_ns)
        if not self._consumer.outputs:
            outcome.close("error", arrival_ns, ServiceError("empty", "the answer ended without any output"))
        else:
            outcome.close("eos", arrival_ns)

    def _refused(self, arrival_ns: int) -> None:
        status, text = self._outcome.status or 0, bytes(self._refusal or b"").decode(errors="replace").strip()
        kind = status_kind(status) or "protocol"
        self._outcome.close("error", arrival_ns, ServiceError(kind, f"HTTP {status}: {text}"))

    def _cut(self, at_ns: int, why: str, kind: str = "truncated") -> None:
        """The connection ended or broke before the answer was complete."""
        outcome = self._outcome
        if outcome.over_ns is not None and kind == "truncated":
            self._complete(at_ns)
        elif self._refusal is not None:
            self._refused(at_ns)
        elif outcome.status is None:
            outcome.close("error", at_ns, ServiceError("protocol", f"no answer: {why}"))
        else:
            self._consumer.cut(self._last_ns)
            end = "truncated" if kind == "truncated" else "error"
            outcome.close(end, at_ns, ServiceError(kind, why))

    def _given_up(self, at_ns: int) -> None:
        outcome = self._outcome
        if outcome.over_ns is not None and at_ns >= outcome.over_ns:
            self._complete(at_ns)
        elif self._refusal is not None:
            self._refused(at_ns)
        else:
            self._consumer.cut(self._last_ns)
            silent_ms = (at_ns - self._last_ns) // 1_000_000
            error = ServiceError("timeout", f"given up; the last byte was {silent_ms} ms ago")
            outcome.close("truncated" if self._consumer.outputs else "error", at_ns, error)


def _redirect(head: Head) -> bytes:
    """What there is to say of a redirect, nothing of another refusal."""
    place = head.headers.get("location")
    if not 300 <= head.status < 400 or not place:
        return b""
    return f"it redirects to {place}, and no redirect is followed ".encode("latin-1", "replace")


async def sleep_until(at_ns: int) -> None:
    """Returns once the monotonic clock is at `at_ns`, never before; at once if it is past."""
    while (left_ns := at_ns - time.monotonic_ns()) > 0:  # noqa: ASYNC110 - timers may fire early
        await asyncio.sleep(left_ns / NS_PER_S)
