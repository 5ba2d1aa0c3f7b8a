"""One stage as a load process sees it: its window, what is under way, what has settled, what went wrong."""

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal

from cotenant.load.pacing import in_window
from cotenant.load.under_way import LiveVoices


@dataclass(slots=True, kw_only=True)
class Counts:
    """Of what was due in the measure window: ended streams, failed ones, underruns heard; tokens that
    arrived in it."""

    streams: int = 0
    failed: int = 0
    underruns: int = 0
    tokens: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class Ticket:
    """One stream that is planned or under way. `followed`: a window that it is due in waits for its end."""

    due_ns: int
    followed: bool


class LateWindow(Exception):
    """The window was told too late: what is due in it had already begun as settling."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """Everything of one `start` command.

    `planned`: how many streams of each load must have had output for it to be settled. `endings`: (end, error
    kind, error) of each stream that ended by itself. `settling_until_ns`: the latest time at which something
    was due that began as settling. `stopped_as`: the end of a stream that is cancelled. `failure`: where a
    fault of ours is told. `voices`: those due before the window too, of which `counts` say nothing.
    """

    name: str
    round: int
    start_ns: int
    planned: dict[str, int] = field(default_factory=dict)
    window_start_ns: int | None = None
    window_end_ns: int | None = None
    counts: Counts = field(default_factory=Counts)
    voices: LiveVoices = field(default_factory=LiveVoices)
    settled: dict[str, set[int]] = field(default_factory=dict)
    tickets: set[Ticket] = field(default_factory=set)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    settling_until_ns: int = -1
    stopped_as: Literal["open", "aborted"] = "open"
    failure: asyncio.Future[None] | None = None
    told_followed: bool = False
    endings: list[tuple[str | None, str | None, str | None]] = field(default_factory=list)
    _after: list[tuple[int, dict[str, int]]] = field(default_factory=list)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs `work` until its end or the stage's drain; a fault of ours in it ends the process."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if self.failure is not None and not self.failure.done():
            self.failure.set_exception(error)

    def plan(self, due_ns: int, *, followed: bool) -> Ticket:
        """Registers a stream. Do it before closing the one it comes after, or `followed` may miss it."""
        ticket = Ticket(due_ns=due_ns, followed=followed)
        self.tickets.add(ticket)
        return ticket

    def close(self, ticket: Ticket) -> None:
        self.tickets.discard(ticket)

    def output(self, load: str, number: int) -> None:
        """The first output of a load's stream `number` has come."""
        self.settled.setdefault(load, set()).add(number)

    def is_settled(self, load: str) -> bool:
        return len(self.settled.get(load, ())) >= self.planned.get(load, 1)

    def count(self, due_ns: int, *, streams: int = 0, failed: int = 0, underruns: int = 0) -> None:
        """Counts what has ended, if it was due in the window; what was due after it, once that goes on so
        long."""
        if self.measured(due_ns):
            self.counts.streams += streams
            self.counts.failed += failed
            self.counts.underruns += underruns
        elif self.window_end_ns is not None and due_ns >= self.window_end_ns:
            self._after.append((due_ns, {"streams": streams, "failed": failed, "underruns": underruns}))

    def open_window(self, start_ns: int, end_ns: int) -> None:
        """Measures what is due from `start_ns` on; once more with a later end to go on.

        Raises LateWindow if something that is due in it has already begun as settling.
        """
        if self.settling_until_ns >= start_ns:
            late_ms = (self.settling_until_ns - start_ns) / 1e6
            raise LateWindow(
                f"the window was told too late: what was due {late_ms:.1f} ms after its start had already "
                "begun as settling; this machine is too busy to measure on"
            )
        self.window_start_ns, self.window_end_ns = start_ns, end_ns
        self.told_followed = False
        after, self._after = self._after, []
        for due_ns, counts in after:
            self.count(due_ns, **counts)

    def begins(self, due_ns: int) -> bool:
        """Whether what is due then, and begins now, is of the window (or after it) or still settles."""
        if self.window_start_ns is not None and due_ns >= self.window_start_ns:
            return True
        self.settling_until_ns = max(self.settling_until_ns, due_ns)
        return False

    def measured(self, due_ns: int) -> bool:
        """Whether what is due then belongs to the window."""
        return in_window(due_ns, self.window_start_ns, self.window_end_ns)

    def followed(self) -> bool:
        """Whether the window is over and every voice and face that was due in it has ended."""
        if self.window_end_ns is None or time.monotonic_ns() < self.window_end_ns:
            return False
        return not any(ticket.followed and self.measured(ticket.due_ns) for ticket in self.tickets)

    def open_streams(self) -> int:
        return sum(1 for ticket in self.tickets if ticket.due_ns <= time.monotonic_ns())

    async def drain(self, stopped_as: Literal["open", "aborted"]) -> None:
        """Ends every task; what is under way records itself as `stopped_as`."""
        self.stopped_as = stopped_as
        while self.tasks:
            for task in tuple(self.tasks):
                task.cancel()
            await asyncio.gather(*tuple(self.tasks), return_exceptions=True)
