"""What stands under `why`."""

import xml.etree.ElementTree as ElementTree
from functools import cache
from typing import Any

import pytest

from cotenant.report import junit, markdown
from cotenant.report.banner import banner_line, first_clause
from cotenant.report.console import render
from cotenant.report.markdown import escape
from cotenant.report.why import MOST_LINES, first_cause, why_lines
from cotenant.verdict.summary import JudgeOptions, judge
from cotenant.verdict.typed import summary_of
from tests.verdict import prefills
from tests.verdict.recordings import good_run

POINT = JudgeOptions(decision="point")


@cache
def _judged() -> tuple[dict[str, Any], dict[str, Any]]:
    recording = prefills.run("prefill", 3, voices=4)
    return judge(recording, POINT), dict(recording.manifest)


def _changed(**evidence: Any) -> dict[str, Any]:
    """The summary with other evidence of the first cause, of a GPU that was half in use."""
    summary = dict(_judged()[0])
    stages = [dict(stage) for stage in summary["stages"]]
    causes = [dict(cause) for cause in stages[1]["causes"]]
    causes[0]["evidence"] = {**causes[0]["evidence"], **evidence}
    stages[1] |= {"causes": causes, "gpu": {**stages[1]["gpu"], "sm_percent": {"mean": 47.0, "coverage": 1}}}
    return {**summary, "stages": stages}


def test_the_first_cause_is_said_first_and_lines_are_few() -> None:
    summary, manifest = _judged()
    lines = why_lines(summary)
    assert lines[0].startswith("crowd: ")
    assert "while the LLM read prompts of prefill" in lines[0]
    assert "95 % interval" in lines[0]
    assert 1 <= len(lines) <= MOST_LINES
    text = render(summary, manifest, 80)
    assert "\nwhy    crowd: " in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_canary_and_the_use_of_the_sms_stand_beside_a_tenant() -> None:
    evidence = {"gpu_processes": 11, "canary_longest_ms": 17.2, "gpu_processes_how": "from this run"}
    (line, *_) = why_lines(_changed(**evidence))
    assert line.endswith("; the GPU switched between about 11 processes (canary 17 ms); SM use only 47 %")
    (line, *_) = why_lines(_changed(gpu_processes=None, canary_longest_ms=17.2))
    assert "switched" not in line


def test_nothing_stands_there_where_the_run_passed() -> None:
    recording = prefills.run("none", 1, voices=2)
    assert why_lines(judge(recording, POINT)) == []


def test_the_causes_are_typed() -> None:
    stage = summary_of(_judged()[0]).stage("crowd")
    cause = stage.causes[0]
    assert (cause.what, cause.who, cause.of) == ("llm_prefill", "prefill", "voice")
    assert cause.risk_ratio is not None
    assert cause.risk_ratio["low"] > 1
    assert first_cause(stage.raw) == cause.text


def test_a_pull_request_and_a_job_see_the_first_cause() -> None:
    summary, _ = _judged()
    said = "the LLM read prompts of prefill"
    assert f"- why crowd: {escape(first_cause(summary['stages'][1]), 600)}" in markdown.render(summary)
    assert said in markdown.render(summary)
    suite = ElementTree.fromstring(junit.render(summary))
    texts = [failure.text or "" for failure in suite.iter("failure")]
    assert texts
    assert all("\nwhy: " in text and said in text for text in texts)


def _slow_crowd() -> dict[str, Any]:
    """Nothing stalls, but the crowd's voices come later than a gate allows."""
    gates = ("speech.headroom_ms.p5 >= 10s",)
    summary = judge(good_run(late_ms=150.0, share=0.5).build(), JudgeOptions(decision="point", gates=gates))
    assert summary["verdict"] == "fail"
    return summary


def test_where_no_cause_is_found_that_is_said_before_what_was_compared() -> None:
    summary = _slow_crowd()
    crowd = dict(summary["stages"][1])
    crowd["vs_reference"] = {"ttfa_p95": {"ratio": 2.4, "low": 2.1, "high": 2.7, "n": 7}}
    compared = {**summary, "stages": [{**summary["stages"][0], "verdict": "pass"}, crowd]}
    said = "no cause found (no stall): TTFA p95 2.4 times the baseline's (2.1 to 2.7)"
    assert why_lines(compared) == [f"crowd: {said}; 7 pairs of utterances compared"]
    assert banner_line(compared) == said
    crowd["vs_reference"] = {}
    assert why_lines(compared) == ["crowd: no cause found (no stall)"]
    # What is only left open has failed nothing that a cause could be asked of.
    crowd["verdict"] = compared["verdict"] = "inconclusive"
    assert why_lines(compared) == []


def test_the_banner_holds_the_first_cause_without_its_interval() -> None:
    summary, _ = _judged()
    assert banner_line(summary) is None, "its load was not delivered: the word is INVALID"
    valid = [{**stage, "validity": "valid"} for stage in summary["stages"]]
    line = banner_line({**summary, "validity": "valid", "stages": valid})
    assert line is not None
    assert "while the LLM read prompts of prefill" in line
    assert "interval" not in line
    assert not line.startswith("crowd: ")
    assert banner_line(judge(prefills.run("none", 1, voices=2), POINT)) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("twice as long (95 % interval 1.34 to 1.38, 18 pairs); the GPU", "twice as long"),
        ("word " * 60, ("word " * 23) + "word …"),
        ("a clause of words, " * 12, ", ".join(["a clause of words"] * 6) + " …"),
        ("x" * 200, "x" * 120 + " …"),
    ],
)
def test_a_clause_is_one_short_line(text: str, said: str) -> None:
    assert first_clause(text) == said


def test_an_undecided_run_says_what_most_of_its_gates_lack() -> None:
    summary = judge(good_run(late_ms=1300.0, share=0.5).build(), JudgeOptions())
    stage = {**summary["stages"][1], "verdict": "inconclusive"}
    few = {"verdict": "inconclusive", "value": None, "why": {"verdict": "too few blocks"}}
    other = {**few, "why": {"verdict": "another reason"}}
    gates = [{**gate, **few} for gate in stage["gates"]]
    assert len(gates) >= 3
    gates[0] |= other
    undecided = {**summary, "verdict": "inconclusive", "stages": [{**stage, "gates": gates}]}
    assert banner_line(undecided) == "too few blocks"
    warned = [{**gate, "level": "warn"} for gate in gates[1:]]
    assert banner_line({**undecided, "stages": [{**stage, "gates": [gates[0], *warned]}]}) == "another reason"
