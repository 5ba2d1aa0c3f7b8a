"""Threads that run a user's generator: each takes a request, or a batch, and ends it before the next."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol

from cotenant.tenants.builtin.async_side import AsyncSide
from cotenant.tenants.builtin.source import Source
from cotenant.tenants.builtin.telling import log_failure

log = logging.getLogger("cotenant.source")


class Job(Protocol):
    """A request. Both calls come from a worker's thread; `cancelled` is set from any."""

    cancelled: bool

    def finish(self) -> None:
        """Everything was made."""

    def fail(self, error: BaseException) -> None:
        """The generator raised it."""


# Yields each time when something was made, so that who is gone can be noticed between two pieces.
Run = Callable[[Source, "list[Any]", "AsyncSide"], Iterator[None]]


class Workers:
    """`count` threads over one queue. The first builds the source; the others begin once it stands.

    With a `batch` above 1 a worker takes as many waiting requests as that at once. What `run` raises ends
    its requests alone. `on_ready` is called in the first thread, `on_failure` in any: after a failure nothing
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
        try:
            if number == 0:
                self._source = self._build()
                self._on_ready()
                for thread in self._threads[1:]:
                    thread.start()
            while jobs := self._next():
                self._do(jobs)
                with self._work:
                    self._current = [job for job in self._current if job not in jobs]
        except BaseException as error:  # noqa: BLE001 - a thread that ends in silence would leave clients waiting
            self.failed = True
            self._on_failure(error)

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
        name = self.engine.name
        steps = self._run(self.engine, jobs, self._async)
        try:
            for _ in steps:
                if all(job.cancelled for job in jobs):
                    break
        except BaseException as error:  # noqa: BLE001 - the user's: told to its clients, and the server lives on
            if all(job.cancelled for job in jobs):
                return
            log_failure(log, f"{name} failed", error)
            for job in jobs:
                job.fail(error)
        else:
            for job in jobs:
                job.finish()
        finally:
            _close(steps, name)


def _close(steps: Iterator[None], name: str) -> None:
    try:
        steps.close()  # type: ignore[attr-defined]
    except BaseException as error:  # noqa: BLE001 - a generator that cannot be closed ends no server
        log_failure(log, f"{name} could not be closed", error)
