"""Schedules and turns as tables."""

from itertools import islice, pairwise
from random import Random

import pytest

from cotenant.load.pacing import (
    every_from_rate_ns,
    in_window,
    next_closed,
    next_turn,
    schedule,
    shows,
    text_line,
)
from cotenant.units import NS_PER_S

EVERY = 4 * NS_PER_S


def first(count: int, key: str = "7/voices", start: int = 0, index: int = 0, of: int = 1) -> list[int]:
    return list(islice(schedule(key, start, EVERY, index=index, count=of), count))


def test_the_same_seed_gives_the_same_schedule_shifted_by_its_start() -> None:
    assert first(50) == first(50)
    assert first(50, start=1000) == [due + 1000 for due in first(50)]
    assert first(50, key="8/voices") != first(50)


def test_gaps_stay_within_thirty_per_cent_and_average_the_period() -> None:
    gaps = [b - a for a, b in pairwise(first(2000))]
    assert min(gaps) >= 0.7 * EVERY
    assert max(gaps) <= 1.3 * EVERY
    assert abs(sum(gaps) / len(gaps) / EVERY - 1) < 0.02
    assert max(gaps) - min(gaps) > 0.5 * EVERY


def test_starts_are_staggered_and_each_listener_has_jitter_of_its_own() -> None:
    plans = [first(10, index=v, of=4) for v in range(4)]
    assert [plan[0] for plan in plans] == [v * EVERY // 4 for v in range(4)]
    assert len({plan[1] - plan[0] for plan in plans}) == 4


@pytest.mark.parametrize(
    ("scheduled", "end", "pause", "due", "delayed"),
    [
        (100, None, 50, 100, 0),
        (100, 20, 50, 100, 0),
        (100, 50, 50, 100, 0),
        (100, 60, 50, 110, 10),
        (100, 500, 0, 500, 400),
    ],
)
def test_turns(scheduled: int, end: int | None, pause: int, due: int, delayed: int) -> None:
    assert next_turn(scheduled, end, pause) == (due, delayed)


def test_a_closed_loop_does_not_run_hot_on_a_dead_server() -> None:
    assert next_closed(1000, failed=False) == 1000
    assert next_closed(1000, failed=True) == 1000 + NS_PER_S // 2


@pytest.mark.parametrize(("rate", "every"), [(0.5, 2 * NS_PER_S), (4.0, NS_PER_S // 4), (3e9, 1)])
def test_rates(rate: float, every: int) -> None:
    assert every_from_rate_ns(rate) == every


def test_texts_are_the_same_for_the_same_listener_and_utterance() -> None:
    assert [text_line(v, k, 18) for v, k in ((0, 0), (0, 1), (1, 0), (2, 5), (0, 18))] == [0, 1, 7, 1, 0]


@pytest.mark.parametrize(
    ("due", "start", "end", "expected"),
    [
        (5, None, None, False), (5, 6, 9, False), (6, 6, 9, True), (8, 6, 9, True), (9, 6, 9, False),
        (9, 6, None, True),
    ],
)  # fmt: skip
def test_windows(due: int, start: int | None, end: int | None, expected: bool) -> None:
    assert in_window(due, start, end) is expected


@pytest.mark.parametrize("real_time_factor", [0.08, 0.5, 0.86, 0.97, 1.0, 1.35, 5.0])
def test_a_head_behind_a_closed_loop_is_asked_for_real_time(real_time_factor: float) -> None:
    lengths_ns = Random(3)
    due_ns = shown_until_ns = last_ns = asked_ns = 0
    while due_ns < 600 * NS_PER_S:
        length_ns = lengths_ns.randrange(2 * NS_PER_S, 8 * NS_PER_S)
        if shows(due_ns, shown_until_ns, last_ns):
            shown_until_ns = max(shown_until_ns, due_ns) + length_ns
            asked_ns += length_ns
        assert shown_until_ns - due_ns <= 12 * NS_PER_S  # half a long one ahead, and this one
        last_ns = length_ns
        due_ns += round(length_ns * real_time_factor)
    assert asked_ns / due_ns == pytest.approx(min(1, 1 / real_time_factor), rel=0.1)
