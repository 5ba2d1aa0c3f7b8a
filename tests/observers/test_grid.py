"""The sampling grid: absolute, and without ticks that were missed."""

import threading

import pytest

from cotenant.observers import grid
from cotenant.observers.grid import next_tick_ns, ticks


@pytest.mark.parametrize(("now_ns", "tick_ns"), [(100, 110), (109, 110), (110, 120), (134, 140), (95, 100)])
def test_next_tick(now_ns: int, tick_ns: int) -> None:
    assert next_tick_ns(now_ns, 100, 10) == tick_ns


class Clock:
    def __init__(self) -> None:
        self.now_ns = 1000

    def monotonic_ns(self) -> int:
        return self.now_ns


def test_late_ticks_do_not_shift_the_grid_and_missed_ones_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(grid, "time", clock)

    def wait_s(seconds: float) -> bool:
        clock.now_ns += round(seconds * 1e9) + (7 if seconds else 0)  # each sleep is 7 ns late
        return clock.now_ns > 1700

    seen = []
    for due_ns in ticks(100, wait_s):
        seen.append((due_ns, clock.now_ns))
        clock.now_ns += 250 if due_ns == 1200 else 10
    assert seen == [(1100, 1107), (1200, 1207), (1500, 1507), (1600, 1607)]


def test_told_to_stop_before_the_first_tick() -> None:
    stop = threading.Event()
    stop.set()
    assert list(ticks(10**12, stop.wait)) == []
