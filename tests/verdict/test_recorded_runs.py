"""Runs that were recorded on a real GPU, judged again: the figures and the reasons that were seen there."""

from typing import Any

import pytest

from cotenant.resources import data_dir
from cotenant.run_dir.reader import read
from cotenant.verdict.summary import JudgeOptions, judge


def stages(name: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    summary = judge(read(data_dir("fixtures") / "runs" / name), JudgeOptions())
    return summary, {stage["name"]: stage for stage in summary["stages"]}


def test_eight_voices_apart_live_alone_and_break_beside_an_llm() -> None:
    summary, by_name = stages("h200-voices-apart")
    assert summary["validity"] == "valid"
    alone, crowd = by_name["tts-alone"], by_name["all-together"]
    assert (alone["verdict"], alone["speech"]["underruns"]) == ("pass", 0)
    assert (crowd["verdict"], crowd["speech"]["underruns"]) == ("fail", 194)
    assert crowd["speech"]["clean_share"] == 0.0


def test_the_whole_of_the_neighbours_is_named_and_the_use_of_the_gpu_is_not() -> None:
    _, by_name = stages("h200-voices-apart")
    crowd = by_name["all-together"]
    cause = crowd["causes"][0]
    assert cause["what"] == "co_tenancy"
    assert cause["evidence"]["slower_than_baseline_low"] > 1.3
    # It reads low while every voice breaks: the canary tells, not the use.
    assert crowd["gpu"]["sm_percent"]["mean"] < 50
    assert crowd["canary_ms"]["p99"] > 15


def test_under_mps_with_a_limit_for_the_llm_no_voice_stalls() -> None:
    summary, by_name = stages("h200-voices-apart-mps")
    assert summary["status"] == "interrupted"
    crowd = by_name["all-together"]
    assert crowd["speech"]["underruns"] == 0
    assert crowd["speech"]["clean_share"] == 1.0
    assert crowd["face"]["fps_p5"] < 24
    assert crowd["canary_ms"]["p99"] < 2


@pytest.mark.parametrize("name", ["h200-voices-apart", "h200-voices-apart-mps"])
def test_a_recorded_run_names_no_machine(name: str) -> None:
    text = (data_dir("fixtures") / "runs" / name / "manifest.json").read_text()
    assert "/tmp/" not in text
    assert "/root" not in text
