"""Spans of time, and the risk ratio."""

import numpy as np
import pytest

from cotenant.verdict.causes_ratio import RiskRatio, risk_ratio
from cotenant.verdict.causes_time import Cover, Level, Series


def _ints(*values: int) -> np.typing.NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def test_a_cover_is_the_union_of_its_spans() -> None:
    cover = Cover.of(_ints(50, 0, 10, 20, 70), _ints(60, 10, 15, 30, 70))
    assert cover.start_ns.tolist() == [0, 20, 50]
    assert cover.end_ns.tolist() == [15, 30, 60]
    assert cover.within(_ints(-5, 5, 25, 0, 100), _ints(5, 25, 55, 100, 200)).tolist() == [5, 15, 10, 35, 0]
    assert Cover.of(_ints(), _ints()).within(_ints(1), _ints(9)).tolist() == [0]


def test_a_cover_agrees_with_counting() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        start = rng.integers(0, 200, 12)
        end = start + rng.integers(0, 30, 12)
        there = np.zeros(300, dtype=bool)
        for low, high in zip(start, end, strict=True):
            there[low:high] = True
        left = rng.integers(0, 250, 20)
        right = left + rng.integers(0, 50, 20)
        expected = [int(there[low:high].sum()) for low, high in zip(left, right, strict=True)]
        assert Cover.of(start, end).within(left, right).tolist() == expected


def test_a_level_sums_what_is_in_flight() -> None:
    level = Level.of(_ints(0, 10), _ints(20, 30), np.array([2.0, 4.0]))
    assert level.at(_ints(-1, 0, 15, 25, 30)).tolist() == [0, 2, 6, 4, 0]
    assert level.mean(_ints(0, 5, 40), _ints(20, 15, 50)).tolist() == [4, 4, 0]


def test_a_series_answers_for_the_windows_that_it_meets() -> None:
    series = Series.ticked(_ints(10, 20, 30), np.array([1.0, np.nan, 5.0]), 15)
    assert series.largest(_ints(0, 12, 100), _ints(8, 18, 110)).tolist()[:2] == [1.0, 5.0]
    assert np.isnan(series.largest(_ints(100), _ints(110)))[0]
    assert series.holes(_ints(10), _ints(20))[0] == pytest.approx(0.5)


def _units(rng: np.random.Generator, rates: tuple[float, float], size: int = 4000) -> RiskRatio | str:
    beside = rng.random(size) < 0.3
    late = rng.random(size) < np.where(beside, *rates)
    cluster = np.arange(size) // 20
    return risk_ratio(late, beside, np.zeros(size, dtype=np.int64), (cluster, cluster // 2))


def test_the_ratio_is_that_of_the_shares_and_its_interval_holds_it() -> None:
    held, values = 0, []
    for seed in range(100):
        found = _units(np.random.default_rng(seed), (0.12, 0.03))
        assert isinstance(found, RiskRatio)
        values.append(found.value)
        held += found.low <= 4 <= found.high
    assert np.median(values) == pytest.approx(4, rel=0.1)
    assert held >= 92


def test_no_ratio_where_there_is_nothing_to_divide_by() -> None:
    one = np.ones(100, dtype=bool)
    strata, cluster = np.zeros(100, dtype=np.int64), np.arange(100)
    late = cluster % 7 == 0
    assert isinstance(risk_ratio(late, one, strata, (cluster,)), str)
    assert isinstance(risk_ratio(~one, late, strata, (cluster,)), str)
    assert isinstance(risk_ratio(one[:0], one[:0], strata[:0], (cluster[:0],)), str)
    alone = risk_ratio(late, late, strata, (cluster,))
    assert isinstance(alone, RiskRatio)
    assert alone.without == 0
    assert np.isfinite([alone.value, alone.low, alone.high]).all()


def test_late_ones_that_come_in_one_bunch_tell_nothing() -> None:
    size = 1000
    beside = (np.arange(size) // 100) % 2 == 0
    late = (np.arange(size) >= 200) & (np.arange(size) < 230)
    found = risk_ratio(late, beside, np.zeros(size, dtype=np.int64), (np.arange(size) // 100,))
    assert found == "the stalls came in 1 bunch: too few to tell"
    ten = (np.arange(size) % 100 < 10) & beside
    bunched = risk_ratio(ten, beside, np.zeros(size, dtype=np.int64), (np.arange(size) // 100,))
    single = risk_ratio(ten, beside, np.zeros(size, dtype=np.int64), (np.arange(size),))
    assert isinstance(bunched, RiskRatio)
    assert isinstance(single, RiskRatio)
    assert bunched.high / bunched.low > single.high / single.low
