"""A run on MQTT: what is published under which topic, and the thread that does it.

Topics lie under PREFIX/RUN_ID/ (in a run id `+ # /` and what cannot be shown are `_`). All messages have
QoS 1 and are JSON objects with `seq` (1, 2, 3 ... through the whole run; a gap is a message that was
dropped) and `time` (UTC, when it was put in the queue). A message may come twice where a connection broke:
whoever takes only a `seq` higher than the last one has each once and in order.

status    retained. {"run_id", "status"}: `running`, `complete`, `failed` or `interrupted`. `running` also has
          `scenario`, `device`, `lookahead_ms`, `planned` (the number of windows); the last one also has
          `not_run` (how many windows were left out), `published`, `dropped` and `reconnects`. The last will
          is `interrupted`, with `seq` null; where `running` follows it, only the connection had broken.
stage     retained. {"name", "round", "phase", "edge", "at"}: phase is `stage` (the whole of it), `settle`,
          `measure` or `drain`, edge `start` or `end`; the names of references begin with `solo:`. A window
          that is left out has one message, phase `not-run`, edge `end`, with `why`.
underrun  {"stage", "round", "window", "load", "tenant", "listener", "utterance", "stream", "at", "media_ms",
          "duration_ms"}: one silence that a listener heard, told within about two seconds of its end.
          window is `settle`, `measure`, `after` (due when the window was over) or `under_way` (due before the
          window, heard in it, and nothing fell due for its listener so far).
metrics   each second of a stage: {"stage", "round", "phase", "loads": {load: {"kind", "streams", "open",
          "failed", "underruns", "tokens"}}, "total": {...}}: streams that were due in the measure window and
          have ended, those that go on, and what became of them; tokens that arrived in the window. With them
          go voices due before the window for whose listeners nothing fell due in it so far, by what was heard
          of them in it, as the verdict has them. It may judge more: a silence that still goes on, the faces
          of such voices, the same stage's other rounds.
verdict   retained. {"run_id", "word", "verdict", "validity", "exit_code", "stages": [{"name", "word",
          "verdict", "validity", "why", "streams", "underruns", "clean_share"}]}; a stage's word is that of
          the terminal's table, INVALID where its verdict does not count; why: what a stage without a verdict
          lacks, else null.

Nothing here is waited for while a run goes on: the queue is bounded, and what does not fit is counted.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from cotenant.live.broker import Broker, topic_level
from cotenant.live.link import links
from cotenant.live.outbox import Outbox
from cotenant.live.publisher import Publisher

# What a run waits for at its end, so that the last messages are confirmed.
FINISH_LIMIT_S: Final = 5.0
_STOP_LIMIT_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What became of the messages: confirmed, given up (by kind), and how often the line was opened again."""

    published: int
    dropped: Mapping[str, int]
    reconnects: int
    connected: bool

    @property
    def facts(self) -> dict[str, int]:
        """For the manifest and the last message."""
        return {
            "published": self.published,
            "dropped": sum(self.dropped.values()),
            "reconnects": self.reconnects,
        }


class Announcer:
    """Publishes one run from a thread of its own.

    `tell` gets sentences for people, from that thread; `on_reconnect` is called there too, to put once more
    what is retained. `put` returns at once, whatever the broker does.
    """

    def __init__(
        self,
        broker: Broker,
        run_id: str,
        outbox: Outbox,
        *,
        tell: Callable[[str], None],
        on_reconnect: Callable[[], None],
    ) -> None:
        self.topic = f"{broker.prefix}/{topic_level(run_id)}"
        self._outbox = outbox
        self._publisher = Publisher(
            outbox,
            links(broker, run_id, lambda kind: f"{self.topic}/{kind}"),
            name=broker.name,
            tell=tell,
            on_reconnect=on_reconnect,
        )
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        # A daemon, as its helpers are: a broker's name that cannot be looked up holds up no exit.
        self._thread = threading.Thread(target=self._live, name="mqtt", daemon=True)
        outbox.on_put = lambda: self._call(self._publisher.wake)
        self._thread.start()

    def finish(self, last: Mapping[str, Any], limit_s: float = FINISH_LIMIT_S) -> Told:
        """Publishes what waits, then the status `last` with its counts; what has not gone by then is dropped.

        A broker that was never there is not waited for.
        """
        self._call(lambda: self._publisher.finish(lambda: {**last, **self.told().facts}))
        self._thread.join(limit_s if self._publisher.connections else _STOP_LIMIT_S)
        if self._thread.is_alive():
            self._call(self._stop)
            self._thread.join(_STOP_LIMIT_S)
        self._outbox.give_up()
        return self.told()

    def told(self) -> Told:
        counts, connections = self._outbox.counts(), self._publisher.connections
        return Told(
            published=counts.published,
            dropped=counts.dropped,
            reconnects=max(0, connections - 1),
            connected=connections > 0,
        )

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _call(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is left to do
            self._loop.call_soon_threadsafe(what)

    def _live(self) -> None:
        loop = self._loop
        loop.set_default_executor(_Daemons())
        # Futures of a connection that broke, which nobody asks any more, are no message for a terminal.
        loop.set_exception_handler(lambda _loop, _context: None)
        self._task = loop.create_task(self._publisher.run())
        try:
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(self._task)
        finally:
            loop.run_until_complete(_cancel_the_rest())
            loop.close()


async def _cancel_the_rest() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


class _Daemons(ThreadPoolExecutor):
    """A thread a call, which no exit waits for: Python joins the threads of a usual pool."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def work() -> None:
            with contextlib.suppress(InvalidStateError):  # nobody waits for it any more
                try:
                    result = fn(*args, **kwargs)
                except Exception as error:  # noqa: BLE001 - handed on
                    future.set_exception(error)
                else:
                    future.set_result(result)

        threading.Thread(target=work, name="mqtt-connect", daemon=True).start()
        return future
