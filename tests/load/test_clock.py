"""Wall-clock stamps on the monotonic clock."""

import time

from hypothesis import given
from hypothesis import strategies as st

from cotenant.load.clock import ClockMap, Pair, read_pair

WALL = 1_800_000_000 * 10**9


def pair(mono: int, *, ppm: float = 0, offset: int = WALL, bracket: int = 100) -> Pair:
    return Pair(wall_ns=offset + mono + round(mono * ppm / 1e6), mono_ns=mono, bracket_ns=bracket)


def test_one_pair_is_a_plain_offset() -> None:
    assert ClockMap(pair(1000)).to_mono_ns(WALL + 5000) == 5000


@given(st.floats(-500, 500), st.integers(0, 10**10))
def test_a_slewing_wall_clock_is_followed_between_and_past_the_pairs(ppm: float, mono: int) -> None:
    clock = ClockMap(pair(0, ppm=ppm))
    for step in range(1, 20):
        clock.add(pair(step * 250_000_000, ppm=ppm))
    wall = WALL + mono + round(mono * ppm / 1e6)
    # Past the last pair its rounding of half a nanosecond is stretched by the distance.
    assert abs(clock.to_mono_ns(wall) - mono) <= 2 + mono // 250_000_000


def test_pairs_around_an_old_stamp_are_used() -> None:
    clock = ClockMap(pair(0))
    clock.add(Pair(wall_ns=WALL + 1000, mono_ns=1100, bracket_ns=10))
    clock.add(Pair(wall_ns=WALL + 2000, mono_ns=2100, bracket_ns=10))
    assert [clock.to_mono_ns(WALL + at) for at in (500, 1500)] == [550, 1600]


def test_error_is_the_bracket_or_what_the_line_missed() -> None:
    clock = ClockMap(pair(0, bracket=70))
    assert clock.error_ns == 70
    clock.add(pair(1000, bracket=30))
    assert clock.error_ns == 30
    clock.add(Pair(wall_ns=WALL + 2000, mono_ns=2900, bracket_ns=30))
    assert clock.error_ns == 900


def test_a_step_of_the_wall_clock_starts_anew_and_shows() -> None:
    clock = ClockMap(pair(0))
    clock.add(pair(10**9))
    clock.add(pair(2 * 10**9, offset=WALL - 3600 * 10**9))
    assert clock.error_ns == 3600 * 10**9
    assert clock.to_mono_ns(WALL - 3600 * 10**9 + 2 * 10**9 + 5) == 2 * 10**9 + 5


def test_a_reading_maps_the_present_between_its_own_bounds() -> None:
    clock = ClockMap(read_pair())
    before = time.monotonic_ns()
    wall = time.time_ns()
    after = time.monotonic_ns()
    assert before - clock.error_ns <= clock.to_mono_ns(wall) <= after + clock.error_ns
