"""Threads that run a user's generator: each takes a request, or a batch, and ends it before the next."""

import asyncio
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, Protocol

from cotenant.tenants.builtin.source import Source

log = logging.getLogger("cotenant.source")

_JOIN_S: Final = 0.2


class Job(Protocol):
    """A request. Both calls come from a worker's thread; `cancelled` is set from any."""

    cancelled: bool

    def finish(self) -> None:
        """Everything was made."""

    def fail(self, error: BaseException) -> None:
        """The generator raised it."""


# Yields each time when something was made, so that who is gone can be noticed between two pieces.
Run = Callable[[Source, "list[Any]", "AsyncSide"], Iterator[None]]


class AsyncSide:
    """One event loop in a thread of its own for generators that are async, begun when one comes."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def wait(self, awaitable: Any) -> Any:
        """What the awaitable gives, waited for in the calling thread."""

        async def awaited() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(awaited(), self._running()).result()

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
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_JOIN_S)
            if not self._thread.is_alive():
                self._loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="async", daemon=True)
                self._thread.start()
            return self._loop


class Workers:
    """`count` threads over one queue. The first builds the source; the others begin once it stands.

    With a `batch` above 1 a worker takes as many waiting requests as that at once. What `run` raises ends
    its requests alone. `on_ready` and `on_failure` are called in the first thread; after a failure nothing
    is served.
    """

    def __init__(
        self,
        build: Callable[[], Source],
        run: Run,
        *,
        count: int,
        batch: int,
        on_ready: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._build, self._run, self._batch = build, run, batch
        self._on_ready, self._on_failure = on_ready, on_failure
        self._work = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._current: list[Job] = []
        self._stopping = False
        self._source: Source | None = None
        self._async = AsyncSide()
        self.failed = False
        self._threads = [
            threading.Thread(target=self._serve, args=(number,), name=f"worker-{number}", daemon=True)
            for number in range(count)
        ]

    @property
    def engine(self) -> Source:
        """The source, once it stands."""
        assert self._source is not None, "the source is read before it was ready"
        return self._source

    @property
    def active(self) -> int:
        """Requests that wait or are worked on."""
        with self._work:
            return len(self._waiting) + len(self._current)

    def start(self) -> None:
        """Starts the first thread."""
        self._threads[0].start()

    def put(self, job: Job) -> None:
        """Queues a request."""
        with self._work:
            self._waiting.append(job)
            self._work.notify()

    def drop(self, job: Job) -> None:
        """Forgets a request: at once if it waits, else at its next piece. One that is done is left alone."""
        job.cancelled = True
        with self._work, suppress(ValueError):
            self._waiting.remove(job)

    def stop(self, timeout_s: float) -> bool:
        """Ends the threads, each at its request's next piece; False if one takes longer than `timeout_s`."""
        with self._work:
            self._stopping = True
            self._waiting.clear()
            for job in self._current:
                job.cancelled = True
            self._work.notify_all()
        until_s = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, until_s - time.monotonic()))
        self._async.close()
        return not any(thread.is_alive() for thread in self._threads)

    def _serve(self, number: int) -> None:
        if number == 0:
            try:
                self._source = self._build()
            except BaseException as error:  # noqa: BLE001 - whatever the user's module raises must be told
                self.failed = True
                self._on_failure(error)
                return
            self._on_ready()
            for thread in self._threads[1:]:
                thread.start()
        while jobs := self._next():
            self._do(jobs)
            with self._work:
                self._current = [job for job in self._current if job not in jobs]

    def _next(self) -> list[Job]:
        with self._work:
            while not (self._waiting or self._stopping):
                self._work.wait()
            if self._stopping:
                return []
            jobs = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            self._current += jobs
            return jobs

    def _do(self, jobs: list[Job]) -> None:
        steps = self._run(self.engine, jobs, self._async)
        try:
            for _ in steps:
                if all(job.cancelled for job in jobs):
                    break
        except BaseException as error:  # the user's code: told to its clients, and the server lives on
            if all(job.cancelled for job in jobs):
                return
            log.exception("%s failed", self.engine.name)
            for job in jobs:
                job.fail(error)
        else:
            for job in jobs:
                job.finish()
        finally:
            _close(steps, self.engine.name)


def _close(steps: Iterator[None], name: str) -> None:
    try:
        steps.close()  # type: ignore[attr-defined]
    except BaseException:  # a generator that cannot be closed ends no server
        log.exception("%s could not be closed", name)
