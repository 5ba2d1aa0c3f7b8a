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
    changed = {**entries["speech.stall_ratio"], "low": low, "high": high, "why": {}}
    words = ("regression", "improvement")
    stage = {
        **found["stages"][1],
        "metrics": [{**changed, "verdict": word, "by_value": word} for word in words],
    }
    return {**found, "verdict": "fail", "stages": [stage]}


@pytest.mark.parametrize(("low", "high"), [(-3.0, 5.0), (None, None), (None, 5.0), (-3.0, None), (0.0, 5.0)])
def test_a_value_whose_interval_leaves_it_open_is_called_one(low: float | None, high: float | None) -> None:
    text = render(with_bounds("point", low, high))
    (worse, better) = [line for line in text.splitlines() if line.startswith("crowd")]
    assert worse.endswith("WORSE by its value alone")
    assert better.endswith("better by its value alone")
    last = text.splitlines()[-1]
    said = "WORSE   1 metric of B, by its value alone: no interval confirms it; 1 looks better"
    assert last == f"{said} (12 utterances paired, decided by point estimates)"


@pytest.mark.parametrize(("low", "high"), [(3.0, 5.0), (-5.0, -3.0), (3.0, None), (None, -3.0)])
def test_a_value_whose_interval_agrees_is_plainly_worse(low: float | None, high: float | None) -> None:
    text = render(with_bounds("point", low, high))
    assert "alone\n" not in text
    assert "no interval" not in text
    assert "WORSE   1 metric of B; 1 looks better (" in text


def test_by_intervals_nothing_is_qualified() -> None:
    found = with_bounds("interval", -3.0, 5.0)
    assert "alone" not in render(found).replace("tts-alone", "")
    assert (
        verdict_line(found) == "WORSE   1 metric of B; 1 looks better (12 utterances paired, 95 % intervals)"
    )


@pytest.mark.parametrize("decision", ["point", "interval"])
def test_what_the_table_leaves_out_is_the_same_or_only_looks_otherwise(
    decision: Literal["interval", "point"],
) -> None:
    text = render(compare_runs(GOOD, GOOD, decision))
    assert "\n26 metrics are the same within the least difference that matters\n" in text
    found = compare_runs(LATE, GOOD, decision)
    better = sum(
        entry["by_value"] == "improvement" for stage in found["stages"] for entry in stage["metrics"]
    )
    told = f"{better} metrics look better by their values, which no interval confirms"
    assert (told in render(found)) is (decision == "interval")


def test_a_value_that_its_interval_leaves_open_is_not_called_the_same() -> None:
    data = data_of(GOOD, LATE)
    comparison = with_bounds("interval", -1, 2)
    for entry, verdict in zip(comparison["stages"][0]["metrics"], ("inconclusive", "same"), strict=True):
        entry["verdict"] = verdict
    page = fallback({**data, "comparison": comparison})
    assert ">looks worse, no interval confirms it</td>" in page
    assert ">looks better, no interval confirms it</td>" in page
    assert "looks worse, no interval confirms it\n" in render(comparison)


def unclear(*words: tuple[str, str | None], low: float = -3.0, **changes: Any) -> str:
    """The last line of a comparison of one stage, its metrics' verdicts by interval and by value; the first
    one's interval begins at `low`, the others hold zero."""
    found = compare_runs(GOOD, LATE, "interval")
    entry = {**found["stages"][1]["metrics"][0], "low": -3.0, "high": 5.0, "why": {}}
    metrics = [{**entry, "verdict": verdict, "by_value": by_value} for verdict, by_value in words]
    metrics[:1] = [{**one, "low": low} for one in metrics[:1]]
    stage = {**found["stages"][1], "metrics": metrics, "why": {}, **changes}
    return verdict_line({**found, "verdict": "inconclusive", "paired": False, "stages": [stage]})


def test_an_unclear_comparison_says_how_it_looks_and_what_is_missing() -> None:
    better, worse, unknown = ("same", "improvement"), ("inconclusive", "regression"), ("inconclusive", None)
    how = " (not paired, 95 % intervals)"
    assert unclear(*[better] * 24, unknown) == (
        "UNCLEAR B looks better in 24 metrics, worse in none; no interval confirms it; 1 metric could not be "
        + "told"
        + how
    )
    assert unclear(better, worse) == (
        "UNCLEAR B looks better in 1 metric, worse in 1; no interval confirms it" + how
    )
    proven = ("improvement", "improvement")
    assert unclear(proven, worse, low=3.0) == (
        "UNCLEAR B looks better in 1 metric, worse in 1; no interval confirms 1 of these" + how
    )
    assert unclear(proven, unknown, low=3.0) == (
        "UNCLEAR B looks better in 1 metric, worse in none; 1 metric could not be told" + how
    )
    assert unclear(worse) == "UNCLEAR B looks worse in 1 metric; no interval confirms it" + how
    assert unclear(why={"verdict": "A: it was not measured"}) == (
        "UNCLEAR nothing is known to be worse; crowd could not be compared" + how
    )
    assert unclear() == "UNCLEAR nothing is known to be worse; nothing could be compared" + how


def test_the_page_says_it_in_its_table_too() -> None:
    data = data_of(GOOD, LATE)
    assert ">WORSE by its value alone</td>" not in fallback(
        {**data, "comparison": with_bounds("point", 1, 2)}
    )
    assert ">WORSE by its value alone</td>" in fallback({**data, "comparison": with_bounds("point", -1, 2)})
