"""The speech part of a stage, by hand."""

from typing import Any

import pytest

from cotenant.playback.csv_arrivals import read_arrivals
from cotenant.playback.options import PlayerOptions
from cotenant.verdict.simulation import simulate, to_dict
from cotenant.verdict.summary import JudgeOptions, judge
from tests.verdict.recordings import MS, Builder, S, good_run, steady

POINT = JudgeOptions(decision="point")


def _run() -> Builder:
    """A scenario of voices only, with a baseline window [10 s, 70 s) and a stage window [80 s, 140 s)."""
    builder = Builder()
    builder.scenario["stages"] = [
        {"name": "alone", "load": ["voices"], "baseline": True},
        {"name": "crowd", "load": ["voices"]},
    ]
    builder.window("alone", 10 * S, 70 * S)
    builder.window("crowd", 80 * S, 140 * S)
    builder.stamps(0, 150 * S)
    return builder


def _stages(builder: Builder, options: JudgeOptions = POINT) -> dict[str, dict[str, Any]]:
    return {stage["name"]: stage for stage in judge(builder.build(), options)["stages"]}


def test_one_utterance_by_hand() -> None:
    builder = _run()
    # 4 chunks of 200 ms at 100, 150, 900, 902: prefill 400 ms starts at 150, dry at 550, heard again at 900.
    builder.voice("alone", 20 * S, [100, 150, 900, 902], [200] * 4, done_ms=950)
    speech = _stages(builder)["alone"]["speech"]
    assert speech["streams"] == 1
    assert speech["ttfa_ms"]["p95"] == 100.0
    assert speech["time_to_playback_ms"]["p50"] == 150.0
    assert speech["underruns"] == 1
    assert speech["stall_ms"] == {"total": 350.0, "longest": 350.0}
    assert speech["stall_ratio"] == pytest.approx(350 / 1150, abs=1e-6)
    assert speech["clean_share"] == 0.0
    # x = 100, -50, 500, 302; headroom = 150 - 500; R = 500 - 100.
    assert speech["headroom_ms"]["p5"] == -350.0
    assert speech["required_lookahead_ms"]["p95"] == 400.0
    assert speech["audio_underrun_ms"]["p95"] == 400.0
    assert speech["rtf"]["p50"] == pytest.approx(902 / 800, abs=1e-3)
    # 900 and 902 are one burst.
    assert speech["chunk_gap_ms"] == {"p50": 50.0, "p95": 750.0, "p99": 750.0, "n": 2}
    assert speech["chunk_gap_max_ms"]["p95"] == 750.0
    assert speech["continuity"] == {"c50": 0.0, "c100": 0.0, "c200": 0.0}


def test_only_what_is_due_in_the_window_is_measured() -> None:
    builder = _run()
    for due_s, first in ((9, 1000), (10, 100), (69, 100), (70, 1000)):
        builder.voice("alone", due_s * S, steady(first, 5), [160] * 5)
    assert _stages(builder)["alone"]["speech"]["ttfa_ms"]["p99"] == 100.0
    assert _stages(builder)["alone"]["speech"]["streams"] == 2


def test_a_stream_without_audio_is_infinitely_bad() -> None:
    builder = _run()
    for utterance in range(9):
        builder.voice("alone", (11 + utterance) * S, steady(100, 5), [160] * 5, utterance=utterance)
    builder.voice("alone", 30 * S, [], [], end="error", utterance=9)
    stage = _stages(builder)["alone"]
    speech = stage["speech"]
    assert speech["failed"] == 1
    assert speech["errors"] == {"truncated": 1}
    assert speech["clean_share"] == 0.9
    assert speech["ttfa_ms"]["p50"] == 100.0
    assert speech["ttfa_ms"]["p95"] is None
    assert stage["why"]["speech.ttfa_ms.p95"] == "+inf"
    assert speech["headroom_ms"]["p5"] is None
    assert stage["why"]["speech.headroom_ms.p5"] == "-inf"
    verdicts = {gate["metric"]: gate["verdict"] for gate in stage["gates"]}
    assert verdicts["speech.ttfa_ms.p95"] == "fail"
    assert verdicts["speech.headroom_ms.p5"] == "fail"
    assert verdicts["speech.clean_share"] == "fail"


def test_a_truncated_stream_keeps_its_start_and_is_never_clean() -> None:
    builder = _run()
    builder.voice("alone", 20 * S, steady(100, 10), [160] * 10, end="truncated", done_ms=1000 + 4000)
    speech = _stages(builder)["alone"]["speech"]
    assert speech["ttfa_ms"]["p95"] == 100.0
    assert speech["time_to_playback_ms"]["p95"] == 300.0
    assert speech["clean_share"] == 0.0
    # Played from 300 to 1900, then silent until it was given up.
    assert speech["stall_ms"]["total"] == 3100.0


def test_one_cut_before_playback_began_is_infinitely_late() -> None:
    builder = _run()
    builder.voice("alone", 20 * S, [100], [160], end="truncated", done_ms=1000)
    stage = _stages(builder)["alone"]
    assert stage["speech"]["ttfa_ms"]["p95"] == 100.0
    assert stage["why"]["speech.time_to_playback_ms.p95"] == "+inf"
    assert stage["why"]["speech.headroom_ms.p5"] == "-inf"
    assert stage["why"]["speech.stall_ratio"] == "+inf"


def test_unlimited_headroom_stays_in_the_quantile() -> None:
    builder = _run()
    builder.voice("alone", 20 * S, [100], [1000])
    builder.voice("alone", 30 * S, steady(100, 8), [160] * 8, utterance=1)
    stage = _stages(builder)["alone"]
    assert stage["speech"]["headroom_ms"]["unlimited"] == 1
    assert stage["speech"]["headroom_ms"]["p50"] == 380.0
    assert stage["speech"]["continuity"]["c50"] == 1.0


def test_short_and_runaway_against_the_pair_in_the_baseline() -> None:
    builder = _run()
    for utterance, length in enumerate((10, 10, 10, 10)):
        builder.voice(
            "alone", (11 + utterance * 5) * S, steady(100, length), [160] * length, utterance=utterance
        )
    for utterance, length in enumerate((10, 7, 6, 16)):
        builder.voice(
            "crowd", (81 + utterance * 5) * S, steady(100, length), [160] * length, utterance=utterance
        )
    speech = _stages(builder)["crowd"]["speech"]
    assert speech["short"] == 1
    assert speech["runaway"] == 1
    assert speech["clean_share"] == 0.75


def test_without_a_pair_clean_cannot_pass() -> None:
    builder = _run()
    builder.voice("alone", 11 * S, steady(100, 10), [160] * 10, utterance=0)
    builder.voice("crowd", 81 * S, steady(100, 10), [160] * 10, utterance=5)
    stage = _stages(builder)["crowd"]
    assert stage["speech"]["clean_share"] == 1.0
    assert stage["speech"]["short"] is None
    gate = next(gate for gate in stage["gates"] if gate["metric"] == "speech.clean_share")
    assert gate["verdict"] == "inconclusive"
    assert "pair" in gate["why"]["verdict"]


def test_rows_out_of_order_are_sorted_and_said() -> None:
    builder = _run()
    builder.voice("alone", 20 * S, steady(100, 10), [160] * 10)
    in_order = _stages(builder)["alone"]["speech"]
    builder.rows["chunks"].reverse()
    stage = _stages(builder)["alone"]
    assert stage["speech"] == in_order
    assert stage["caveats"][0]["kind"] == "reordered"


def test_a_row_without_samples_is_no_audio() -> None:
    builder = _run()
    builder.voice("alone", 20 * S, [50, *steady(100, 10)], [0, *[160] * 10])
    assert _stages(builder)["alone"]["speech"]["ttfa_ms"]["p95"] == 100.0


def test_more_lookahead_from_the_same_recording() -> None:
    recording = good_run(late_ms=900, share=0.5).build()
    small = judge(recording, JudgeOptions(lookahead_ns=200 * MS))["stages"][1]["speech"]
    large = judge(recording, JudgeOptions(lookahead_ns=1500 * MS))["stages"][1]["speech"]
    assert small["clean_share"] < large["clean_share"]
    assert small["time_to_playback_ms"]["p95"] < large["time_to_playback_ms"]["p95"]


def test_the_cure_is_proven_by_replaying() -> None:
    recording = good_run(late_ms=1013, share=0.5).build()
    stage = judge(recording, JudgeOptions(lookahead_ns=100 * MS))["stages"][1]
    assert stage["verdict"] == "fail"
    mend = stage["mend"]
    again = judge(recording, JudgeOptions(lookahead_ns=round(mend["lookahead_ms"] * MS)))["stages"][1]
    assert again["verdict"] == "pass"
    assert mend["cures"]
    assert again["speech"]["time_to_playback_ms"]["p95"] == mend["time_to_playback_p95_ms"]
    less = judge(recording, JudgeOptions(lookahead_ns=round(mend["lookahead_ms"] * MS) - 50 * MS))["stages"][
        1
    ]
    assert less["verdict"] == "fail"


def test_a_lookahead_that_starts_too_late_is_no_cure() -> None:
    mend = judge(good_run(late_ms=3000, share=0.5).build(), POINT)["stages"][1]["mend"]
    assert not mend["cures"]
    assert any("time_to_playback" in text for text in mend["breaks"]) or mend["lookahead_ms"] is None


def test_an_unknown_delay_is_not_none() -> None:
    builder = _run()
    for utterance in range(3):
        builder.voice("alone", (11 + utterance) * S, [100], [160], utterance=utterance)
    builder.rows["streams"][0]["delayed"] = 5
    assert _stages(builder)["alone"]["speech"]["delayed"] == 1
    builder.rows["streams"][1]["delayed"] = None
    stage = _stages(builder)["alone"]
    assert stage["speech"]["delayed"] is None
    assert "of 1 utterance " in stage["why"]["speech.delayed"]
    assert stage["speech"]["delay_ms"] == {"p50": None, "p95": None}
    assert "of 1 utterance " in stage["why"]["speech.delay_ms.p95"]


def test_how_long_turns_waited_is_a_metric_of_its_own_and_in_no_ttfa() -> None:
    builder = _run()
    for utterance, waited in enumerate((0, 0, 2500)):
        due = (11 + utterance) * S
        builder.voice("alone", due, [100], [160], utterance=utterance, delayed=waited * MS)
    options = JudgeOptions(gates=("speech.delay_ms.p95 <= 1s",), decision="point")
    stage = judge(builder.build(), options)["stages"][0]
    assert stage["speech"]["delayed"] == 1
    assert stage["speech"]["delay_ms"] == {"p50": 0.0, "p95": 2500.0}
    assert stage["speech"]["ttfa_ms"]["p95"] == 100.0
    assert [gate["verdict"] for gate in stage["gates"]] == ["fail"]


@pytest.mark.parametrize(
    "arrivals", [[100, 102, 104, 106], [100, 200, 203, 900], [100, 100, 100], [100, 101], [100]]
)
def test_the_gap_of_a_random_instant_is_that_of_a_simulation(arrivals: list[float]) -> None:
    builder = _run()
    builder.voice("alone", 20 * S, arrivals, [160] * len(arrivals))
    rows = "".join(f"{at},160\n" for at in arrivals)
    csv = read_arrivals(f"arrival_ms,duration_ms\n{rows}".encode(), give_up_ns=None, source="x.csv")
    simulated = to_dict(simulate(csv, PlayerOptions(lookahead_ns=0)))["streams"][0]["gap_time_weighted_ms"]
    stage = _stages(builder)["alone"]
    assert stage["speech"]["chunk_gap_time_weighted_ms"] == simulated
    assert ("speech.chunk_gap_time_weighted_ms.p50" in stage["why"]) == (len(arrivals) == 1)


def test_the_first_sound_is_later_than_the_first_sample() -> None:
    builder = _run()
    for number, (first, silence_ms) in enumerate(((100, 50), (200, 0), (300, 400))):
        builder.voice("alone", (20 + number) * S, steady(first, 5), [160] * 5)
        builder.rows["streams"][-1]["leading_silence"] = silence_ms * MS
    speech = _stages(builder)["alone"]["speech"]
    assert speech["ttfa_ms"]["p95"] == 300.0
    assert speech["audible_ttfa_ms"] == {"p50": 200.0, "p95": 700.0}


def test_a_recording_without_silences_says_so() -> None:
    builder = _run()
    builder.voice("alone", 20 * S, steady(100, 5), [160] * 5)
    stage = _stages(builder)["alone"]
    assert stage["speech"]["audible_ttfa_ms"]["p95"] is None
    assert "silent at their beginning" in stage["why"]["speech.audible_ttfa_ms.p95"]
