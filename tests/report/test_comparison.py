"""Two compared runs in words: what a verdict by values alone must not claim."""

from typing import Any, Literal

import pytest

from cotenant.report.comparison import render, verdict_line
from cotenant.report.page.compare import fallback
from cotenant.verdict.compare_runs import compare_runs
from tests.report.test_page_compare import data_of
from tests.verdict.recordings import good_run

GOOD, LATE = good_run(utterances=6).build(), good_run(utterances=6, late_ms=900.0, share=0.5).build()


def with_bounds(
    decision: Literal["interval", "point"], low: float | None, high: float | None
) -> dict[str, Any]:
    """One regression and one improvement, each with these bounds of the difference."""
    found = compare_runs(GOOD, LATE, decision)
    entries = {entry["metric"]: entry for entry in found["stages"][1]["metrics"]}
    changed = {**entries["speech.stall_ratio"], "verdict": "regression", "low": low, "high": high, "why": {}}
    stage = {**found["stages"][1], "metrics": [changed, {**changed, "verdict": "improvement"}]}
    return {**found, "verdict": "fail", "stages": [stage]}


@pytest.mark.parametrize(("low", "high"), [(-3.0, 5.0), (None, None), (None, 5.0), (-3.0, None), (0.0, 5.0)])
def test_a_value_whose_interval_leaves_it_open_is_called_one(low: float | None, high: float | None) -> None:
    text = render(with_bounds("point", low, high))
    (worse, better) = [line for line in text.splitlines() if line.startswith("crowd")]
    assert worse.endswith("WORSE by its value alone")
    assert better.endswith("better by its value alone")
    last = text.splitlines()[-1]
    assert last.startswith("WORSE   1 metric of B; the interval of 1 leaves it open (12 utterances paired, ")
    assert last.endswith(", decided by point estimates)")


@pytest.mark.parametrize(("low", "high"), [(3.0, 5.0), (-5.0, -3.0), (3.0, None), (None, -3.0)])
def test_a_value_whose_interval_agrees_is_plainly_worse(low: float | None, high: float | None) -> None:
    text = render(with_bounds("point", low, high))
    assert "alone\n" not in text
    assert "leaves it open" not in text


def test_by_intervals_nothing_is_qualified() -> None:
    found = with_bounds("interval", -3.0, 5.0)
    assert "alone" not in render(found).replace("tts-alone", "")
    assert verdict_line(found) == "WORSE   1 metric of B (12 utterances paired, 95 % intervals)"


def test_by_values_the_rest_is_not_the_same_within_an_interval_that_nobody_asked() -> None:
    for decision, said in (("point", False), ("interval", True)):
        text = render(compare_runs(GOOD, GOOD, decision))  # type: ignore[arg-type]
        assert ("within their intervals and the least" in text) is said
        assert "the least difference that matters" in text


def test_the_page_says_it_in_its_table_too() -> None:
    data = data_of(GOOD, LATE)
    assert ">WORSE by its value alone</td>" not in fallback(
        {**data, "comparison": with_bounds("point", 1, 2)}
    )
    assert ">WORSE by its value alone</td>" in fallback({**data, "comparison": with_bounds("point", -1, 2)})
