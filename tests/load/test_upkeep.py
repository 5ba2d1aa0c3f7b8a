"""A load process watching itself: what keeps its loop from reading counts as lag, its own writing too."""

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.load import upkeep
from cotenant.load.desk import Desk
from cotenant.units import NS_PER_MS, NS_PER_S


class Machine:
    """A clock, a disk and the rows that were written; it ends the task after `seconds` of its time."""

    def __init__(
        self,
        *,
        seconds: int,
        flush_ns: int = 0,
        oversleep_ns: int = 0,
        late_at: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self.now_ns, self.end_ns, self.slept = 0, seconds * NS_PER_S, 0
        self.flush_ns, self.oversleep_ns, self.late_at = flush_ns, oversleep_ns, late_at
        self.lags_ns: list[tuple[int, float]] = []
        self.settings = SimpleNamespace(name="listeners")
        self.transport = SimpleNamespace(clock=SimpleNamespace(error_ns=0, add=lambda _pair: None))
        self.writer, self.late_audio = self, None

    def monotonic_ns(self) -> int:
        return self.now_ns

    def process_time(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * NS_PER_S) + self.oversleep_ns + self.late_at.get(self.slept, 0)
        self.slept += 1
        if self.now_ns >= self.end_ns:
            raise asyncio.CancelledError

    def append(self, table: str, **row: Any) -> None:
        if row["metric"] == "loop_lag_ns":
            self.lags_ns.append((row["t"], row["value"]))

    def flush(self) -> None:
        self.now_ns += self.flush_ns


def watched(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> list[tuple[int, int]]:
    """(time, lag) of each row, ms."""
    monkeypatch.setattr(upkeep, "time", machine)
    monkeypatch.setattr(upkeep, "asyncio", machine)
    monkeypatch.setattr(upkeep, "read_pair", lambda: None)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(upkeep.Upkeep(cast(Desk, machine)).run())
    return [(at_ns // NS_PER_MS, round(lag_ns / NS_PER_MS)) for at_ns, lag_ns in machine.lags_ns]


@pytest.mark.parametrize("oversleep_ms", [0, 2])
def test_a_sleeps_lateness_is_told_20_times_a_second(
    monkeypatch: pytest.MonkeyPatch, oversleep_ms: int
) -> None:
    machine = Machine(oversleep_ns=oversleep_ms * NS_PER_MS, seconds=3)
    rows = watched(monkeypatch, machine)
    assert {lag_ms for _, lag_ms in rows} == {oversleep_ms}
    assert max(later - sooner for (sooner, _), (later, _) in pairwise(rows)) <= 50 + 5 + oversleep_ms


@pytest.mark.parametrize("flush_ms", [7, 40, 300])
def test_a_slow_disk_is_lag_of_its_own_time_alone(monkeypatch: pytest.MonkeyPatch, flush_ms: int) -> None:
    rows = watched(monkeypatch, Machine(flush_ns=flush_ms * NS_PER_MS, seconds=5))
    late = [at_ms for at_ms, lag_ms in rows if lag_ms]
    assert {lag_ms for _, lag_ms in rows} == {0, flush_ms}
    # Told within 50 ms of its end, and once more where it ended with the row.
    assert 4 <= len(late) <= 2 * 4
    for at_ms in late:
        assert any(0 <= at_ms - ended_ms <= 110 for ended_ms in (1000 * n + flush_ms for n in range(1, 6)))


def test_a_standstill_that_ends_with_a_row_is_told_in_the_next_one_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The loop reads what came meanwhile after the row, or before it.
    rows = watched(monkeypatch, Machine(late_at={9: 30 * NS_PER_MS}, seconds=1))
    assert [lag_ms for _, lag_ms in rows[:4]] == [30, 30, 0, 0]
