"""What a connection's read callback leaves for its reader: bytes, and the time of their arrival."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass

from cotenant.load.clock import ClockMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One read: its bytes (none: the peer closed), when they arrived, and whether the kernel said so."""

    data: bytes
    arrival_ns: int
    kernel: bool


class Inbox:
    """What the callback leaves for the reader: (wall stamp or 0, time of the read, bytes)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: ClockMap) -> None:
        self._loop = loop
        self._clock = clock
        self._items: deque[tuple[int, int, bytes]] = deque()
        self._error: OSError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.ended = False

    def put(self, wall_ns: int, read_ns: int, data: bytes) -> None:
        self._items.append((wall_ns, read_ns, data))
        self.ended = self.ended or not data
        self._wake()

    def fail(self, error: OSError) -> None:
        self._error = error
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self, until_ns: int | None) -> Read | None:
        while not self._items:
            if self._error is not None:
                raise self._error
            self._waiter = self._loop.create_future()
            try:
                if until_ns is None:
                    await self._waiter
                elif not await self._wait(until_ns):
                    return None
            finally:
                self._waiter = None
        wall_ns, read_ns, data = self._items.popleft()
        if not wall_ns:
            return Read(data=data, arrival_ns=read_ns, kernel=False)
        # A stamp later than the read is a step of the wall clock: the read is then the better witness.
        return Read(data=data, arrival_ns=min(self._clock.to_mono_ns(wall_ns), read_ns), kernel=True)

    async def _wait(self, until_ns: int) -> bool:
        assert self._waiter is not None
        left_ns = until_ns - time.monotonic_ns()
        if left_ns <= 0:
            return False
        timer = self._loop.call_later(left_ns / 1e9, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
        return bool(self._items) or self._error is not None or time.monotonic_ns() < until_ns
