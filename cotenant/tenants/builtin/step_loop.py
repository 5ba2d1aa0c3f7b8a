"""An engine's own thread: one loop of steps, and the hand-over of requests to it."""

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Engine(Protocol):
    """What a loop steps. All of it runs in the loop's thread."""

    @property
    def active(self) -> int:
        """Requests that wait or are worked on."""

    def step(self) -> bool:
        """Does one step of work; False when there was nothing to do."""

    def close(self) -> None:
        """Ends what the engine has beside the loop's thread; nothing follows."""


class Droppable(Protocol):
    """A request as an engine holds it: one whose `cancelled` is set leaves at the engine's next step."""

    cancelled: bool


E = TypeVar("E", bound=Engine)


class StepLoop(Generic[E]):
    """Builds an engine in a thread of its own and steps it while there is work.

    Both callbacks are called in that thread: `on_ready` once the engine stands, `on_failure` with what the
    building or a step raised; the loop has then ended.
    """

    def __init__(
        self,
        build: Callable[[], E],
        *,
        on_ready: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._build, self._on_ready, self._on_failure = build, on_ready, on_failure
        self._work = threading.Condition()
        self._posted: list[Callable[[E], None]] = []
        self._stopping = False
        self._engine: E | None = None
        self.failed = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    @property
    def active(self) -> int:
        """Requests in the engine and on their way to it."""
        with self._work:
            waiting = len(self._posted)
        return waiting + (self._engine.active if self._engine else 0)

    @property
    def engine(self) -> E:
        """The engine, for reading counters; it is changed only through `post`."""
        assert self._engine is not None, "the engine is read before it was ready"
        return self._engine

    def post(self, change: Callable[[E], None]) -> None:
        """Has `change(engine)` run in the engine's thread before its next step."""
        with self._work:
            self._posted.append(change)
            self._work.notify()

    def drop(self, request: Droppable) -> None:
        """Has the engine forget a request, also one that it waits for without any step to do."""
        request.cancelled = True
        self.post(lambda engine: None)

    def stop(self, timeout_s: float) -> bool:
        """Ends the loop after the step it is in; False if that takes longer than `timeout_s`."""
        with self._work:
            self._stopping = True
            self._work.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._engine = self._build()
            self._on_ready()
            try:
                self._loop(self._engine)
            finally:
                self._engine.close()
        except BaseException as error:  # noqa: BLE001 - a dead engine must be told, whatever killed it
            self.failed = True
            self._on_failure(error)

    def _loop(self, engine: E) -> None:
        busy = False
        while True:
            with self._work:
                while not (busy or self._posted or self._stopping):
                    self._work.wait()
                if self._stopping:
                    return
                changes, self._posted = self._posted, []
            for change in changes:
                change(engine)
            busy = engine.step()
