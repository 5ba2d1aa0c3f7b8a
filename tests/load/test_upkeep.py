"""A load process watching itself: what keeps its loop from reading counts as lag, its own writing too."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.load import upkeep
from cotenant.load.desk import Desk
from cotenant.units import NS_PER_MS, NS_PER_S


class Machine:
    """A clock, a disk and the rows that were written; it ends the task after `seconds` of its time."""

    def __init__(self, *, flush_ns: int, oversleep_ns: int, seconds: int) -> None:
        self.now_ns, self.end_ns = 0, seconds * NS_PER_S
        self.flush_ns, self.oversleep_ns = flush_ns, oversleep_ns
        self.lags_ns: list[float] = []
        self.settings = SimpleNamespace(name="listeners")
        self.transport = SimpleNamespace(clock=SimpleNamespace(error_ns=0, add=lambda _pair: None))
        self.writer, self.late_audio = self, None

    def monotonic_ns(self) -> int:
        return self.now_ns

    def process_time(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * NS_PER_S) + self.oversleep_ns
        if self.now_ns >= self.end_ns:
            raise asyncio.CancelledError

    def append(self, table: str, **row: Any) -> None:
        if row["metric"] == "loop_lag_ns":
            self.lags_ns.append(row["value"])

    def flush(self) -> None:
        self.now_ns += self.flush_ns


@pytest.mark.parametrize(
    ("flush_ms", "oversleep_ms", "lag_ms"), [(0, 0, 0), (0, 2, 2), (7, 0, 7), (7, 2, 9), (40, 1, 41)]
)
def test_a_slow_disk_is_lag(
    monkeypatch: pytest.MonkeyPatch, flush_ms: int, oversleep_ms: int, lag_ms: int
) -> None:
    machine = Machine(flush_ns=flush_ms * NS_PER_MS, oversleep_ns=oversleep_ms * NS_PER_MS, seconds=5)
    monkeypatch.setattr(upkeep, "time", machine)
    monkeypatch.setattr(upkeep, "asyncio", machine)
    monkeypatch.setattr(upkeep, "read_pair", lambda: None)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(upkeep.Upkeep(cast(Desk, machine)).run())
    # The first second has no flush behind it.
    assert machine.lags_ns[0] == oversleep_ms * NS_PER_MS
    assert len(machine.lags_ns) == 4
    assert set(machine.lags_ns[1:]) == {lag_ms * NS_PER_MS}
