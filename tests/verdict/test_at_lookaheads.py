"""Verdicts at many lookaheads: those of `judge`, at every one of them."""

import copy
from typing import Any

import pytest

from cotenant.verdict.at_lookaheads import judge_at
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.summary import judge
from tests.verdict.recordings import MS, Builder, S, good_run

SAME_OF_A_RUN = (
    "status", "scenario", "verdict", "verdict_because", "validity", "invalid_because", "decision",
    "lookahead_ms",
)  # fmt: skip
SAME_OF_A_STAGE = ("name", "baseline", "verdict", "validity", "invalid_because", "gates", "speech", "face")


def check(builder: Builder, lookaheads_ms: list[int], **options: Any) -> set[str]:
    """Every verdict and gate is that of `judge`; returns the run's verdicts."""
    recording, verdicts = builder.build(), set()
    grid = [at * MS for at in lookaheads_ms]
    for lookahead_ns, found in zip(grid, judge_at(recording, JudgeOptions(**options), grid), strict=True):
        whole = judge(recording, JudgeOptions(**{**options, "lookahead_ns": lookahead_ns}))
        assert {name: found[name] for name in SAME_OF_A_RUN} == {name: whole[name] for name in SAME_OF_A_RUN}
        for stage, expected in zip(found["stages"], whole["stages"], strict=True):
            for name in SAME_OF_A_STAGE:
                assert stage.get(name) == expected.get(name), (lookahead_ns, stage["name"], name)
        verdicts.add(found["verdict"])
    return verdicts


def test_every_position_of_a_slider_says_what_judge_says() -> None:
    builder = good_run(late_ms=900.0, share=0.5)
    builder.scenario["gate"] = ["voice", "face"]
    assert check(builder, [*range(0, 5001, 50)], decision="point") == {"fail", "inconclusive", "pass"}


def test_verdicts_change_with_the_lookahead() -> None:
    builder = good_run(late_ms=900.0, share=0.5, faces=False)
    builder.scenario["gate"] = ["speech.clean_share >= 95 %", "speech.ttfa_ms.p95 <= 400 ms"]
    assert check(builder, [0, 400, 900, 1500], decision="point") == {"fail", "pass"}


@pytest.mark.parametrize("start", ["prefill", "delay"])
@pytest.mark.parametrize("after_underrun", ["resume", "refill", "drop"])
def test_every_player_and_intervals(start: str, after_underrun: str) -> None:
    builder = good_run(late_ms=900.0, share=0.25, utterances=6)
    builder.scenario["gate"] = [
        "voice", "face", "vs_reference.time_to_playback_p95.ratio <= 1.2",
        "vs_reference.ttfa_p95.ratio <= 1.2", "llm.decode.tokens_per_s >= 1", "speech.rtf.p95 <= 1",
    ]  # fmt: skip
    check(builder, [0, 170, 400, 1000, 4000], decision="interval", start=start, after_underrun=after_underrun)


def test_a_failing_baseline_withholds_what_is_claimed_against_it() -> None:
    builder = good_run(late_ms=900.0, share=0.5)
    for row in builder.rows["chunks"]:
        if row["stream"] % 2 and row["seq"] >= 10:
            row["arrival"] += 700 * MS
    builder.scenario["gate"] = ["speech.clean_share >= 95 %", "vs_reference.ttfa_p95.ratio <= 1.2"]
    check(builder, [0, 400, 1200, 3000], decision="point")


def test_a_stage_that_was_not_measured_and_voices_that_were_cut() -> None:
    builder = good_run(utterances=4)
    builder.scenario["stages"].append({"name": "later", "load": ["voices"]})
    builder.status = "interrupted"
    builder.rows["streams"][0] |= {"end": "truncated", "error_kind": "truncated"}
    builder.rows["streams"][1] |= {"end": "error", "error_kind": "refused", "done": None}
    check(builder, [0, 400, 2000])


def test_what_the_gpu_did_to_a_stage_counts_at_every_lookahead() -> None:
    builder = good_run(late_ms=900.0, share=0.5, device="gpu")
    # Clocks a third lower from the baseline on, and the closing baseline with them.
    for second in range(215):
        clock_mhz = 1980.0 if second < 75 else 1300.0
        row = {"t0": second * S, "t1": (second + 1) * S, "gpu": "GPU-1", "metric": "sm_clock_mhz"}
        builder.rows["gpu"].append({**row, "value": clock_mhz, "status": "ok"})
    builder.scenario["gate"] = ["voice", "vs_reference.ttfa_p95.ratio <= 1.2"]
    assert judge(builder.build(), JudgeOptions(decision="point"))["validity"] == "invalid"
    check(builder, [0, 400, 3000], decision="point")


def test_the_recording_is_left_as_it_is() -> None:
    builder = good_run(utterances=3)
    before = copy.deepcopy(builder.rows)
    assert [*judge_at(builder.build(), JudgeOptions(), [])] == []
    assert builder.rows == before
