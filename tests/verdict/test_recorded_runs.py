"""Runs that were recorded on a real GPU, judged again: the figures and the reasons that were seen there."""

from typing import Any

import pytest

from cotenant.resources import data_dir
from tests.verdict.recorded import judged


def stages(name: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    summary = judged(name)
    return summary, {stage["name"]: stage for stage in summary["stages"]}


LADDER = ["tts-alone", "talking-head", "llm-decode", "llm-long-prefill", "all-together"]


def test_eight_voices_apart_live_alone_and_break_beside_each_neighbour() -> None:
    summary, by_name = stages("h200-voices-apart")
    assert summary["validity"] == "valid"
    assert list(by_name) == LADDER
    assert [by_name[name]["verdict"] for name in LADDER] == ["pass", "fail", "fail", "fail", "fail"]
    assert [by_name[name]["speech"]["underruns"] for name in LADDER] == [0, 122, 124, 151, 179]
    crowd = by_name["all-together"]
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


@pytest.mark.parametrize(
    ("run", "stage", "busy"),
    [
        ("h200-voices-apart", "talking-head", 9),
        ("h200-voices-apart", "llm-decode", 9),
        ("h200-voices-apart", "llm-long-prefill", 9),
        ("h200-voices-apart", "all-together", 10),
        ("h200-voices-batched", "all-together", 3),
        # With a canary that rests after each wait.
        ("h200-voices-apart-512", "all-together", 10),
    ],
)
def test_the_canary_counts_the_busy_processes_to_one(run: str, stage: str, busy: int) -> None:
    """Eight voices or one server of them, a head, a vLLM: what worked in that stage is known."""
    _, by_name = stages(run)
    counted = by_name[stage]["causes"][0]["evidence"]["gpu_processes"]
    assert abs(counted - busy) <= 1


def test_batched_in_one_server_no_voice_stalls_beside_the_same_neighbours() -> None:
    summary, by_name = stages("h200-voices-batched")
    assert summary["validity"] == "valid"
    assert list(by_name) == LADDER
    assert all(stage["speech"]["underruns"] == 0 for stage in by_name.values())
    assert by_name["all-together"]["speech"]["headroom_ms"]["p5"] > 300
    assert by_name["talking-head"]["face"]["fps_p5"] >= 24
    assert by_name["all-together"]["face"]["fps_p5"] < 24


def test_under_mps_with_a_limit_for_the_llm_no_voice_stalls() -> None:
    summary, by_name = stages("h200-voices-apart-mps")
    assert summary["validity"] == "valid"
    crowd = by_name["all-together"]
    assert crowd["speech"]["underruns"] == 0
    assert crowd["speech"]["clean_share"] == 1.0
    assert crowd["face"]["fps_p5"] < 24
    assert crowd["canary_ms"]["p99"] < 2


def test_low_priority_under_mps_keeps_the_voices_and_not_the_head() -> None:
    summary, by_name = stages("h200-voices-apart-mps-low")
    assert (summary["verdict"], summary["validity"]) == ("fail", "valid")
    crowd = by_name["all-together"]
    assert crowd["speech"]["underruns"] == 0
    assert crowd["face"]["fps_p5"] < 5
    # Its kernels wait behind those of the LLM that have begun, longer than beside a limit of threads.
    half = stages("h200-voices-apart-mps")[1]["all-together"]
    assert crowd["canary_ms"]["p99"] > 2 * half["canary_ms"]["p99"]


def test_shorter_prefill_steps_help_the_llm_and_not_the_voices() -> None:
    summary, by_name = stages("h200-voices-apart-512")
    assert (summary["verdict"], summary["validity"]) == ("fail", "valid")
    short, whole = by_name["all-together"], stages("h200-voices-apart")[1]["all-together"]
    assert (short["speech"]["underruns"], whole["speech"]["underruns"]) == (200, 179)
    assert short["llm"]["decode"]["tokens_per_s"] > 5 * whole["llm"]["decode"]["tokens_per_s"]


def test_batched_voices_under_mps_with_a_quarter_for_the_llm_live_with_the_head() -> None:
    summary, by_name = stages("h200-voices-batched-mps")
    assert (summary["verdict"], summary["validity"]) == ("pass", "valid")
    crowd = by_name["all-together"]
    assert crowd["speech"]["underruns"] == 0
    assert crowd["face"]["fps_p5"] >= 24
    # The LLM pays for it.
    assert crowd["llm"]["decode"]["tokens_per_s"] < 10


@pytest.mark.parametrize("name", sorted(path.name for path in (data_dir("fixtures") / "runs").glob("h200-*")))
def test_a_recorded_run_names_no_machine(name: str) -> None:
    text = (data_dir("fixtures") / "runs" / name / "manifest.json").read_text()
    assert "/tmp/" not in text
    assert "/root" not in text
