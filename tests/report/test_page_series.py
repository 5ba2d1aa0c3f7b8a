"""Lines of the page: peaks stay, level stretches go, what does not belong together is not joined."""

from typing import Any

import numpy as np
import pytest

from cotenant.report.page.base import Base, read_base
from cotenant.report.page.series import line, thinned
from cotenant.verdict.options import JudgeOptions
from tests.verdict.recordings import MS, S, good_run


@pytest.fixture(scope="module")
def base() -> Base:
    # The page's time begins at 9 s.
    return read_base(good_run(utterances=1).build(), JudgeOptions())


def drawn(base: Base, times_ns: Any, values: Any, **more: Any) -> dict[str, Any]:
    return line(
        base, group="g", name="n", label="l", unit="ms",
        time_ns=np.asarray(times_ns, dtype=np.int64), value=np.asarray(values, dtype=np.float64), **more,
    )  # fmt: skip


def test_peaks_among_many_points_stay(base: Base) -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(5, 0.1, 200_000)
    peaks = generator.choice(200_000, 40, replace=False)
    values[peaks] = 100 + np.arange(40)
    found = drawn(base, 9 * S + np.arange(200_000) * MS // 2, values, most=2000)
    assert found["decimated_from"] == 200_000
    assert len(found["x"]) <= 2000
    kept = set(100.0 + np.arange(40)) & set(found["y"])
    assert len(kept) >= 36
    assert max(kept) == 139.0
    assert min(found["y"]) == pytest.approx(values.min(), abs=1e-3)
    assert found["x"] == sorted(found["x"])


def test_the_highest_and_the_lowest_of_each_stage_stay(base: Base) -> None:
    generator = np.random.default_rng(3)
    for _ in range(20):
        times = 9 * S + np.sort(generator.integers(0, 200 * S, 50_000))
        values = generator.normal(5, 1, 50_000)
        found = drawn(base, times, values, most=100)
        x, y = np.array(found["x"]), np.array(found["y"])
        assert len(x) <= 100
        for windows in base.facts.plan.lived.values():
            for window in windows:
                mine = values[(times >= window.start_ns) & (times < window.end_ns)]
                shown = y[(x >= base.second(window.start_ns)) & (x <= base.second(window.end_ns))]
                assert shown.max() == pytest.approx(mine.max(), abs=1e-3)
                assert shown.min() == pytest.approx(mine.min(), abs=1e-3)


def test_a_level_line_is_its_ends(base: Base) -> None:
    found = drawn(base, 9 * S + np.arange(1000) * MS, [1.0] * 500 + [2.0] * 500)
    assert found["y"] == [1.0, 1.0, 2.0, 2.0]
    assert found["x"] == [0.0, 0.499, 0.5, 0.999]
    assert found["decimated_from"] is None


def test_a_hole_breaks_the_line(base: Base) -> None:
    found = drawn(base, 9 * S + np.arange(6) * S, [1, 2, np.nan, np.nan, 5, 6])
    assert found["y"] == [1.0, 2.0, None, 5.0, 6.0]
    assert found["x"] == [0.0, 1.0, 1.0, 4.0, 5.0]


def test_segments_are_not_joined(base: Base) -> None:
    found = drawn(base, 9 * S + np.arange(4) * S, [1, 1, 1, 1], segment=np.array([3, 3, 7, 7]))
    assert found["y"] == [1.0, 1.0, None, 1.0, 1.0]


def test_what_lies_before_the_first_stage_is_left_out(base: Base) -> None:
    assert drawn(base, [S, 10 * S], [1, 2])["x"] == [1.0]
    assert drawn(base, [S], [1])["y"] == drawn(base, [], [])["y"] == []
    assert drawn(base, [10 * S], [np.nan])["y"] == []


def test_thinning_keeps_the_ends() -> None:
    kept = thinned(np.arange(10_000, dtype=np.int64), np.sin(np.arange(10_000.0)), 100)
    assert (kept[0], kept[-1]) == (0, 9999)
    assert len(kept) <= 100
