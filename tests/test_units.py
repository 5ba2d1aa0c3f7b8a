"""Units: what users write is read exactly, and what is written back reads as the same value."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant import units


@pytest.mark.parametrize(
    ("text", "value_ns"),
    [
        ("400ms", 400_000_000),
        ("1.5s", 1_500_000_000),
        ("20m", 1_200_000_000_000),
        ("1h", 3_600_000_000_000),
        ("0ms", 0),
        ("7ns", 7),
        ("2us", 2_000),
        (".5s", 500_000_000),
        (" 3 s ", 3_000_000_000),
        ("0.1s", 100_000_000),
    ],
)
def test_a_duration_is_read_exactly(text: str, value_ns: int) -> None:
    assert units.parse_duration_ns(text) == value_ns


@pytest.mark.parametrize(
    "text", ["", "5", "ms", "-1s", "1.s", "1e3s", "1 sec", "1s2ms", "nan s", "1" * 50 + "s", "٣s\n"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write a number and a unit"):
        units.parse_duration_ns(text)


def test_a_duration_beyond_a_year_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than a year"):
        units.parse_duration_ns("99999h")


@given(st.integers(min_value=0, max_value=366 * 24 * 3600 * units.NS_PER_S))
def test_a_duration_survives_its_text(value_ns: int) -> None:
    assert units.parse_duration_ns(units.duration_text(value_ns)) == value_ns


@pytest.mark.parametrize(
    ("value_ns", "text"),
    [
        (400_000_000, "400ms"),
        (1_500_000_000, "1500ms"),
        (0, "0ms"),
        (60 * 10**9, "1m"),
        (10**9 + 1, "1.000000001s"),
    ],
)
def test_a_duration_is_written_shortly(value_ns: int, text: str) -> None:
    assert units.duration_text(value_ns) == text


@pytest.mark.parametrize(
    ("text", "value"), [("12", 12), ("32k", 32_000), ("4Ki", 4_096), ("1.5k", 1_500), ("2M", 2 * 10**6)]
)
def test_a_size_is_read_exactly(text: str, value: int) -> None:
    assert units.parse_size(text) == value


@pytest.mark.parametrize("text", ["", "k", "-1", "1.5", "1kk", "1K", "0.1", "99999999999999999999"])
def test_what_is_no_whole_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (size|whole number)"):
        units.parse_size(text)


@pytest.mark.parametrize(
    ("text", "rate"), [("2.5/s", 2.5), ("30/m", 0.5), ("1 / h", 1 / 3600), ("1/ms", 1000.0)]
)
def test_a_rate_is_per_second_inside(text: str, rate: float) -> None:
    assert units.parse_rate_per_s(text) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize("text", ["", "2", "2/", "/s", "2/d", "-1/s", "1/s/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rate"):
        units.parse_rate_per_s(text)


@pytest.mark.parametrize(
    ("value_ms", "signed", "text"),
    [
        (None, False, "-"),
        (314.2, False, "314 ms"),
        (310.0, True, "+310 ms"),
        (-620.0, True, "-620 ms"),
        (12_345.0, False, "12.3 s"),
        (0.25, False, "0.25 ms"),
        (0.0, True, "0 ms"),
        (math.inf, False, "inf"),
        (math.inf, True, "+inf"),
        (-math.inf, False, "-inf"),
    ],
)
def test_milliseconds_as_people_read_them(value_ms: float | None, signed: bool, text: str) -> None:
    assert units.format_ms(value_ms, signed=signed) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.71, "71 %"), (1.0, "100 %"), (0.999, "99 %"), (0.0, "0 %"), (0.0001, "<1 %")],
)
def test_a_share_is_never_rounded_to_all_or_nothing(value: float | None, text: str) -> None:
    assert units.format_share(value) == text


def test_milliseconds_keep_microseconds() -> None:
    assert units.ms_from_ns(1_234_567) == 1.235
