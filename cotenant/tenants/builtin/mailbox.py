"""The way from an engine's thread to the server's event loop, and how much of it a client has not read."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

log = logging.getLogger(__name__)

# Of one client: three minutes of 24 kHz speech, ten seconds or more of pictures.
UNREAD_LIMIT_BYTES: Final = 8 << 20
UNREAD_LIMIT_S: Final = 30.0

T = TypeVar("T")


class Unread(Exception):
    """A client reads nothing; the message says since when."""


async def taken(sending: Awaitable[None]) -> None:
    """Waits until a client has taken what is sent to it. Raises Unread after UNREAD_LIMIT_S."""
    try:
        async with asyncio.timeout(UNREAD_LIMIT_S):
            await sending
    except TimeoutError:
        raise Unread(f"it has read nothing for {UNREAD_LIMIT_S:g} s") from None


def nothing(item: object) -> int:
    """The size of items that are few and small."""
    return 0


class Mailbox(Generic[T]):
    """A queue filled by the engine's thread and read by the event loop that made it.

    `size_bytes` gives an item's; the item that was got last is unread until the next one is asked for, for
    until then it is on its way to the client. Putting never waits: who can wait makes no more while it is
    `full`. `on_room` is called in the event loop's thread when it is no longer.
    """

    def __init__(
        self, size_bytes: Callable[[T], int] = nothing, *, limit_bytes: int = UNREAD_LIMIT_BYTES
    ) -> None:
        self.on_room: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[T] = asyncio.Queue()
        self._size_bytes, self._limit_bytes = size_bytes, limit_bytes
        self._room = threading.Condition()
        self._unread_bytes = self._going_bytes = 0
        self._closed = False

    @property
    def unread_bytes(self) -> int:
        """What was put and has not reached the client."""
        return self._unread_bytes

    @property
    def full(self) -> bool:
        """Whether the client is behind by the limit; never once it is closed."""
        return self._unread_bytes >= self._limit_bytes and not self._closed

    def put(self, item: T) -> None:
        """Hands an item over, from any thread; dropped if the server has already closed its loop."""
        with self._room:
            self._unread_bytes += self._size_bytes(item)
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)
        except RuntimeError:
            log.debug("an item came after the event loop closed")

    def wait_for_room(self) -> None:
        """Returns once it is not full; for threads that serve this client alone."""
        with self._room:
            self._room.wait_for(lambda: not self.full)

    async def get(self) -> T:
        """The next item, in the order of `put`."""
        self._release()
        item = await self._queue.get()
        self._going_bytes = self._size_bytes(item)
        return item

    def close(self) -> None:
        """Nothing is read any more: who waits for room waits no longer."""
        with self._room:
            self._closed = True
            self._room.notify_all()

    def _release(self) -> None:
        with self._room:
            before, self._unread_bytes = self.full, self._unread_bytes - self._going_bytes
            self._going_bytes = 0
            room = before and not self.full
            if room:
                self._room.notify_all()
        if room:
            self.on_room()
