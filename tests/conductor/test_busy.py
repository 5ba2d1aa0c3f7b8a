"""Whether a run says that others are at work: by what the kernel counted, with its own share taken out."""

import os

import pytest

from cotenant.conductor import busy
from cotenant.conductor.busy import Reading, others_share, read, warning
from cotenant.units import NS_PER_S

TICKS = os.sysconf("SC_CLK_TCK")


def reading(at_s: float, busy_s: float, own_s: float) -> Reading:
    """User time and the hypervisor's steal, half each."""
    half = round(busy_s / 2 * TICKS)
    stat = f"cpu  {half} 0 0 99999 99 0 0 {half} 0 0\ncpu0 1 2\n".encode()
    return Reading(at_ns=round(at_s * NS_PER_S), stat=stat, own_s=own_s)


@pytest.mark.parametrize(
    ("busy_s", "own_s", "share"),
    [(2.0, 2.0, 0.0), (4.0, 2.0, 0.25), (6.0, 2.0, 0.5), (1.9, 2.0, 0.0), (9.0, 0.0, 1.0)],
)
def test_the_share_of_others_is_all_that_was_busy_without_our_own(
    busy_s: float, own_s: float, share: float
) -> None:
    before, after = reading(5, 100, 3), reading(7, 100 + busy_s, 3 + own_s)
    assert others_share(before, after, 4) == pytest.approx(share)


def test_a_busy_machine_is_told_in_one_line() -> None:
    before = reading(0, 0, 0)
    assert warning(before, reading(2, 4, 2), 4) is None  # a quarter
    told = warning(before, reading(2, 5, 0), 4)
    assert told is not None
    assert told.startswith("this machine is busy (others use 62 % of its CPU): stages may come out INVALID; ")
    assert "\n" not in told


def test_what_is_too_short_or_not_told_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = reading(0, 0, 0)
    assert warning(before, reading(0.29, 0.8, 0), 4) is None
    assert warning(before, reading(0.3, 0.8, 0), 4) is not None
    assert warning(before, None, 4) is None
    assert warning(None, before, 4) is None
    assert warning(before, Reading(at_ns=NS_PER_S, stat=b"intr 1", own_s=0), 4) is None
    monkeypatch.setattr(busy, "_STAT", busy._STAT / "none")
    assert read() is None


def test_our_own_is_the_cpu_time_of_us_and_of_our_children_and_not_the_time_of_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "times", lambda: os.times_result((1.0, 2.0, 4.0, 8.0, 1000.0)))
    now = read()
    assert now is not None
    assert now.own_s == 15.0


def test_this_machine_tells() -> None:
    before, after = read(), read()
    assert before is not None
    assert after is not None
    assert 0 <= after.own_s - before.own_s <= 60
    later = Reading(at_ns=before.at_ns + 10 * NS_PER_S, stat=after.stat, own_s=after.own_s)
    share = others_share(before, later, os.cpu_count() or 1)
    assert share is not None
    assert 0 <= share <= 1
