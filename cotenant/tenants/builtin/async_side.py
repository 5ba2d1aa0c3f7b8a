"""One event loop in a thread of its own, for generators that are async; a user's code cannot end it."""

import asyncio
import inspect
import logging
import threading
from collections.abc import Iterator
from typing import Any, Final

from cotenant.tenants.builtin.telling import log_failure

log = logging.getLogger("cotenant.source")

_JOIN_S: Final = 0.2


class AsyncSide:
    """Begun when the first such generator comes."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False

    def wait(self, awaitable: Any) -> Any:
        """What the awaitable gives or raises, waited for in the calling thread."""

        async def awaited() -> tuple[Any, BaseException | None]:
            # An exit that leaves a task ends its loop, and a cancellation tells nothing of its cause.
            try:
                return await awaitable, None
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
                return None, error

        result, error = asyncio.run_coroutine_threadsafe(awaited(), self._running()).result()
        if error is not None:
            raise error
        return result

    def iterate(self, pieces: Any) -> Iterator[Any]:
        """An async iterator as a plain one; closing this closes that."""
        iterator = pieces.__aiter__()
        try:
            while True:
                try:
                    piece = self.wait(iterator.__anext__())
                except StopAsyncIteration:
                    return
                yield piece
        finally:
            if hasattr(iterator, "aclose"):
                self.wait(iterator.aclose())

    def plain(self, result: Any) -> Any:
        """What a generator's call gave, with nothing async left in it."""
        if inspect.isawaitable(result):
            result = self.wait(result)
        return self.iterate(result) if hasattr(result, "__aiter__") else result

    def close(self) -> None:
        """Ends the thread."""
        self._closing = True
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_JOIN_S)
            if not self._thread.is_alive():
                self._loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run, args=(self._loop,), name="async", daemon=True
                )
                self._thread.start()
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """A task or a callback of the user's own that exits ends `run_forever`, as `loop.stop` does: the
        others that wait in this loop go on all the same."""
        while not (self._closing or loop.is_closed()):
            try:
                loop.run_forever()
            except BaseException as error:  # noqa: BLE001 - the user's
                log_failure(log, "a task of its own ended the event loop, which goes on", error)
