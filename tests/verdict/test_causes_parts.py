"""Spans of time, and the risk ratio."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from cotenant.verdict.causes.blame import compare
from cotenant.verdict.causes.ratio import RiskRatio, risk_ratio
from cotenant.verdict.causes.slow import Slower, slower
from cotenant.verdict.causes.time import Cover, Level, Series
from cotenant.verdict.causes.units import Units
from cotenant.verdict.causes.work import Beside, Work
from cotenant.verdict.facts import Paired


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


def test_a_second_work_is_told_by_the_ratio_that_it_is_named_by() -> None:
    """Where the first is not, the second makes stalls; it is there mostly where the first is not, and so
    looks harmless as long as the first is not held fixed."""
    rng = np.random.default_rng(5)
    size = 6000
    first = rng.random(size) < 0.5
    second = rng.random(size) < np.where(first, 0.1, 0.7)
    late = rng.random(size) < np.where(first, 0.4, 0.02) * np.where(second, 2.0, 1.0)
    stream = np.arange(size) // 20
    start_ns = np.arange(size)
    units = Units(
        stream=stream, start_ns=start_ns, end_ns=start_ns + 1, stall_ns=late.astype(np.int64),
        part=np.zeros(size, dtype=np.int64), usual_ns=1,
    )  # fmt: skip
    beside = [
        Beside(
            work=Work(what="w", who=who, during=f"{who} was at work"), beside=there,
            known=np.ones(size, dtype=np.bool_), cycle=np.arange(size) // 10,
        )
        for who, there in (("first", first), ("second", second))
    ]  # fmt: skip
    ratios, named = compare("voice", units, beside)
    assert named == ("w:first", "w:second")
    alone = risk_ratio(late, second, units.part, (stream, np.arange(size) // 10), 2)
    assert isinstance(alone, RiskRatio)
    assert alone.high < 1
    told = ratios["w:second"]
    assert isinstance(told, RiskRatio)
    assert told.low > 1


def _pairs(logs: np.typing.NDArray[np.float64], blocks: np.typing.NDArray[np.int64]) -> Paired:
    rows = np.arange(len(logs))
    own = SimpleNamespace(values={"rtf": np.exp(logs)}, blocks=blocks)
    reference = SimpleNamespace(values={"rtf": np.ones(len(logs))})
    return cast(Paired, SimpleNamespace(own=own, reference=reference, matched=(rows, rows)))


def test_utterances_that_are_slow_together_are_not_as_many_witnesses() -> None:
    rng, held = np.random.default_rng(11), 0
    blocks = np.arange(48) // 8
    for _ in range(200):
        logs = 0.3 + rng.normal(0, 0.1, 6)[blocks] + rng.normal(0, 0.02, 48)
        found = slower(_pairs(logs, blocks), 1.0)
        assert isinstance(found, Slower)
        held += found.low <= np.exp(0.3) <= found.high
    assert held >= 180
    alike = slower(_pairs(np.tile([0.2, 0.4], 24), blocks), 1.0)
    assert isinstance(alike, Slower)
    assert alike.low == pytest.approx(np.exp(0.3 - 2.012 * 0.1 / np.sqrt(47)), rel=1e-3)
