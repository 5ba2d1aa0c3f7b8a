"""The last line of a run, and the same word in every report: what counts, and what does not."""

from typing import Any

import pytest

from cotenant.report import junit, markdown
from cotenant.report.console import render, verdict_line
from cotenant.verdict.summary import JudgeOptions, exit_code, judge
from tests.report.shown import shown
from tests.verdict.recordings import MS, Builder, S, good_run

WARNING: dict[str, Any] = {"metric": "speech.ttfa_ms.p95", "op": "<=", "limit": "1ms", "level": "warn"}


def test_verdict_line_names_stage_value_limit_and_n() -> None:
    builder = good_run(late_ms=1500, share=1.0)
    word, sentence = verdict_line(judge(builder.build(), JudgeOptions()))
    assert word == "FAIL"
    assert sentence.startswith("crowd: 0 % of utterances clean, at least 95 % asked (n = 24)")
    assert sentence.endswith("decided by point estimates")


def test_inconclusive_says_how_many_more() -> None:
    word, sentence = verdict_line(judge(good_run().build(), JudgeOptions(decision="interval")))
    assert word == "INCONCLUSIVE"
    assert "needs about 52 more utterances" in sentence


def test_invalid_says_why_first() -> None:
    builder = good_run()
    builder.fault("settle:crowd", 79 * S)
    word, sentence = verdict_line(judge(builder.build(), JudgeOptions()))
    assert word == "INVALID"
    assert sentence.startswith("crowd: not every load had its first output within the settle limit of 1m")


def test_a_valid_failure_beside_an_invalid_stage_is_a_failure() -> None:
    builder = good_run(late_ms=1500, share=1.0)
    builder.fault("settle:alone", 79 * S)
    summary = judge(builder.build(), JudgeOptions())
    assert verdict_line(summary)[0] == "INVALID"
    summary["stages"][0]["baseline"] = False
    word, sentence = verdict_line(summary)
    assert word == "FAIL"
    assert sentence.startswith("crowd: ")


def test_a_failing_baseline_is_said_and_nothing_is_claimed_against_it() -> None:
    builder = good_run()
    for row in builder.rows["chunks"]:
        row["arrival"] += 900 * MS if row["seq"] >= 10 else 0
    text = shown(builder)
    assert "the voice does not live here even alone: alone:" in text
    assert "\nwhy" not in text
    assert "untried" not in text


def test_a_warning_that_does_not_hold_is_a_note_and_not_counted_as_passed() -> None:
    builder = good_run()
    builder.scenario["gate"] = ["speech.clean_share >= 95 %", WARNING]
    text = " ".join(shown(builder, 140).split())
    assert "crowd: warning: time to first audio p95 207 ms, at most 1 ms asked (n = 24)" in text
    assert "PASS all 2 gates of 2 stages passed" in text
    undecided = " ".join(shown(builder, 140, decision="interval").split())
    assert "alone: warning: time to first audio" in undecided
    builder.scenario["gate"] = ["speech.failed <= 0", {**WARNING, "limit": "230ms"}]
    assert "warning, not decided" in " ".join(shown(builder, 140, decision="interval").split())
    builder.scenario["gate"] = ["speech.failed <= 0", {**WARNING, "limit": "300ms"}]
    assert "warning" not in shown(builder, 140)


def test_warnings_alone_are_said_to_be_no_gates() -> None:
    builder = good_run()
    builder.scenario["gate"] = [WARNING, {**WARNING, "limit": "300ms"}]
    assert "nothing that was asked can fail; 2 of 4 warnings held" in " ".join(shown(builder, 140).split())


def test_a_stage_that_nothing_was_asked_of_has_not_passed() -> None:
    builder = good_run()
    builder.scenario["gate"] = [{"metric": "speech.failed", "op": "<=", "limit": 0, "stages": ["crowd"]}]
    alone = next(line for line in shown(builder, 140).splitlines() if line.startswith("alone"))
    assert alone.endswith("no gate")
    assert "the only gate of 1 stage passed" in " ".join(shown(builder, 140).split())


def _interrupted() -> Builder:
    builder = good_run()
    builder.status = "interrupted"
    return builder


def _unmeasured() -> Builder:
    builder = good_run()
    builder.rows["marks"] = [row for row in builder.rows["marks"] if row["name"] != "crowd"]
    return builder


def _invalid_baseline() -> Builder:
    builder = good_run(late_ms=1500, share=1.0)
    builder.fault("settle:alone", 9 * S)
    return builder


def _ungated() -> Builder:
    builder = good_run()
    builder.scenario["gate"] = []
    return builder


@pytest.mark.parametrize(
    "make",
    [
        good_run,
        lambda: good_run(late_ms=1500, share=1.0),
        _interrupted,
        _unmeasured,
        _invalid_baseline,
        _ungated,
    ],
)
@pytest.mark.parametrize("decision", ["point", "interval"])
def test_every_report_says_the_word_of_the_exit_code(make: Any, decision: Any) -> None:
    recording = make().build()
    summary = judge(recording, JudgeOptions(decision=decision))
    word = {0: "PASS", 1: "FAIL", 3: "INCONCLUSIVE", 4: "INVALID"}[exit_code(summary)]
    assert verdict_line(summary)[0] == word
    assert any(line.startswith(f"{word} ") for line in render(summary, recording.manifest, 120).splitlines())
    assert markdown.render(summary).startswith(f"## {word}: ")
    assert f'<property name="verdict" value="{word.lower()}" />' in junit.render(summary)


def _invalid(stage: str) -> str:
    """A run with stages that pass, fail and pass, in one of them our own stamps 20 ms off."""
    builder = good_run()
    start = {"alone": 10, "crowd": 80}[stage] * S
    for row in builder.rows["host"]:
        if start <= row["t"] < start + 60 * S and row["source"] == "listeners":
            row["value"] = 20.0 * MS
    return verdict_line(judge(builder.build(), JudgeOptions(decision="point")))[1]


def test_of_an_invalid_stage_it_is_said_that_it_does_not_count() -> None:
    said = _invalid("crowd")
    assert said.startswith("crowd: voices: our own timing error is ")
    assert "; what the table says of crowd does not count; the other stage alone is PASS; " in said


def test_without_a_valid_baseline_nothing_counts() -> None:
    assert "; nothing that the table says counts, for the baseline does not; " in _invalid("alone")
