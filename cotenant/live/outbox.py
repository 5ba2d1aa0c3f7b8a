"""What waits to be published: in order, numbered, bounded, kept until the broker has confirmed it."""

import itertools
import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from cotenant.units import NS_PER_S

METRICS: Final = "metrics"
UNDERRUN: Final = "underrun"
RETAINED: Final = ("status", "stage", "verdict")

# Two minutes without a broker; of what is older only the later figures matter.
METRICS_LIMIT: Final = 120
UNDERRUN_LIMIT: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message: `kind` is the last level of its topic."""

    seq: int
    kind: str
    payload: bytes

    @property
    def retain(self) -> bool:
        return self.kind in RETAINED


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """`published`: confirmed by the broker. `dropped`: given up, by kind; each left a gap in `seq`."""

    published: int
    dropped: Mapping[str, int]


def time_text(wall_ns: int) -> str:
    """UTC in ISO 8601, to the millisecond."""
    seconds, rest_ns = divmod(wall_ns, NS_PER_S)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns // 1_000_000:03d}Z"


class Outbox:
    """A queue in the order of `seq`; every method may be called from any thread and waits for nothing.

    Too many metrics: the oldest goes. Too many underruns: the new one goes. Status, stage and verdict are
    few and are always taken. `on_put` is called after each message that was taken.
    """

    def __init__(
        self,
        wall_ns: Callable[[], int],
        *,
        metrics_limit: int = METRICS_LIMIT,
        underrun_limit: int = UNDERRUN_LIMIT,
    ) -> None:
        self._wall_ns = wall_ns
        self._metrics_limit, self._underrun_limit = metrics_limit, underrun_limit
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Message] = {}
        self._metrics: deque[int] = deque()
        self._underruns = 0
        self._published = 0
        self._dropped: Counter[str] = Counter()
        self.on_put: Callable[[], None] = lambda: None

    def put(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Appends a message, with its number and the time."""
        with self._lock:
            seq = next(self._numbers)
            if kind == UNDERRUN and self._underruns >= self._underrun_limit:
                self._dropped[kind] += 1
                return
            body = {"seq": seq, "time": time_text(self._wall_ns()), **fields}
            self._waiting[seq] = Message(seq=seq, kind=kind, payload=json.dumps(body).encode())
            self._underruns += kind == UNDERRUN
            if kind == METRICS:
                self._metrics.append(seq)
                if len(self._metrics) > self._metrics_limit:
                    del self._waiting[self._metrics.popleft()]
                    self._dropped[kind] += 1
        self.on_put()

    def after(self, seq: int, limit: int) -> list[Message]:
        """The next messages with a higher number, at most `limit`."""
        with self._lock:
            later = (message for number, message in self._waiting.items() if number > seq)
            return list(itertools.islice(later, limit))

    def confirm(self, seq: int) -> None:
        """The broker has it."""
        with self._lock:
            message = self._waiting.pop(seq, None)
            if message is None:
                return  # given up while it was under way
            self._published += 1
            self._underruns -= message.kind == UNDERRUN
            if message.kind == METRICS:
                self._metrics.remove(seq)

    def give_up(self) -> None:
        """Whatever still waits is dropped."""
        with self._lock:
            self._dropped.update(message.kind for message in self._waiting.values())
            self._waiting.clear()
            self._metrics.clear()
            self._underruns = 0

    @property
    def empty(self) -> bool:
        with self._lock:
            return not self._waiting

    def counts(self) -> Counts:
        with self._lock:
            return Counts(published=self._published, dropped=dict(self._dropped))
