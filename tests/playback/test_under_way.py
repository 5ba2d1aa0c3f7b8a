"""Which utterances a window that goes on is judged by although they were due before it."""

from dataclasses import dataclass

import pytest

from cotenant.playback.under_way import Listener, Span, silences_within, under_way
from cotenant.units import NS_PER_MS as MS

SPAN = Span(start_ns=10_000 * MS, until_ns=20_000 * MS)


@dataclass(frozen=True, kw_only=True)
class One:
    listener_key: Listener = ("voices", 0)
    due_ns: int = 9_000 * MS
    pause_ns: int = 500 * MS
    began_ns: int | None = 9_500 * MS
    over_ns: int | None = None


SERVED_ELSE = {("voices", 1)}


@pytest.mark.parametrize(
    ("one", "judged"),
    [
        (One(), True),
        (One(over_ns=19_500 * MS), True),  # but for the pause it lasted
        (One(over_ns=19_499 * MS), False),
        (One(over_ns=10_000 * MS), False),
        (One(due_ns=10_000 * MS), False),
        (One(listener_key=("voices", 1)), False),
        (One(began_ns=None), True),  # not heard for 11 s
        (One(began_ns=20_000 * MS, due_ns=9_999 * MS), True),
    ],
)
def test_beside_others_it_has_to_take_the_whole_of_the_window(one: One, judged: bool) -> None:
    assert under_way([one], SERVED_ELSE, SPAN) == ([one] if judged else [])


def test_where_nothing_fell_due_all_that_reached_in_are_judged() -> None:
    short, before = One(over_ns=10_001 * MS), One(over_ns=10_000 * MS)
    assert under_way([short, before], (), SPAN) == [short]


def test_a_wait_of_less_than_a_second_says_nothing_yet() -> None:
    span = Span(start_ns=10_000 * MS, until_ns=10_100 * MS)
    waits, knows = One(due_ns=9_101 * MS, began_ns=None), One(due_ns=9_100 * MS, began_ns=None)
    assert under_way([waits, knows], (), span) == [knows]


def test_a_silence_counts_by_its_part_in_the_window() -> None:
    lengths = {
        (9_000, 1_001): 1, (9_000, 1_000): 0, (19_999, 500): 1, (20_000, 500): 0, (12_000, 1): 1,
        (5_000, 20_000): 1,
    }  # fmt: skip
    for (start, length), count in lengths.items():
        assert silences_within([(start * MS, length * MS)], SPAN) == count
    assert silences_within([(12_000 * MS, MS - 1)], SPAN) == 0
    assert silences_within([(12_000 * MS, MS), (13_000 * MS, MS)], SPAN) == 2
