"""What other lookaheads would have done for a stage, for each player, and what they would cost."""

from typing import Any

import numpy as np
import pytest

from cotenant.verdict.summary import JudgeOptions, judge
from cotenant.verdict.typed import summary_of
from tests.verdict.recordings import MS, Builder, S, good_run, steady


def _what_if(builder: Builder, *gates: str, **options: Any) -> tuple[dict[str, Any], dict[str, str]]:
    asked = JudgeOptions(gates=gates or ("voice",), decision="point", **options)
    entry = judge(builder.build(), asked)["stages"][1]
    return entry["what_if"], entry["why"]


def _late(late_ms: int, share: float = 0.2) -> Builder:
    return good_run(late_ms=late_ms, share=share, utterances=60, every_ns=2 * S, seconds=120, faces=False)


def test_the_smallest_lookahead_is_one_at_which_the_share_is_met_and_none_below() -> None:
    builder = _late(1500)
    for policy in ("resume", "drop"):
        found = _what_if(builder)[0]["policies"][policy]["keep_95"]["lookahead_ms"]
        for lookahead, enough in ((found, True), (found - 1, False)):
            options = JudgeOptions(
                lookahead_ns=round(lookahead * MS),
                after_underrun=policy,
                gates=("speech.clean_share >= 95 %",),
            )
            share = judge(builder.build(), options)["stages"][1]["speech"]["clean_share"]
            assert (share >= 0.95) is enough, (policy, lookahead, share)


def test_it_costs_what_playback_then_waits() -> None:
    builder = _late(1500)
    keep = _what_if(builder)[0]["policies"]["resume"]["keep_95"]
    options = JudgeOptions(lookahead_ns=round(keep["lookahead_ms"] * MS), gates=("voice",))
    speech = judge(builder.build(), options)["stages"][1]["speech"]
    assert speech["time_to_playback_ms"]["p95"] == keep["time_to_playback_p95_ms"]


def test_a_lookahead_that_breaks_a_gate_on_time_to_playback_is_no_cure() -> None:
    keep = _what_if(_late(1500))[0]["policies"]["resume"]["keep_95"]
    assert keep["breaks"] == ["speech.time_to_playback_ms.p95 <= 1000 ms"]
    assert not keep["cures"]
    keep = _what_if(_late(1500), "speech.time_to_playback_ms.p95 <= 5s")[0]["policies"]["resume"]["keep_95"]
    assert (keep["breaks"], keep["cures"]) == ([], True)


def test_refill_is_searched_on_a_grid() -> None:
    keep = _what_if(_late(1500))[0]["policies"]["refill"]["keep_95"]
    assert keep["lookahead_ms"] % 250 == 0
    assert keep["low_ms"] <= keep["lookahead_ms"] <= keep["high_ms"]
    with_quantum = _what_if(_late(1500), quantum_ns=20 * MS)[0]["policies"]["resume"]["keep_95"]
    assert with_quantum["lookahead_ms"] % 250 == 0


def test_bounds_hold_the_value_and_few_give_none() -> None:
    # Every fifth utterance is late: a lookahead of 0 keeps 80 %.
    policies = _what_if(_late(1500))[0]["policies"]
    keep = policies["resume"]["keep_95"]
    assert keep["low_ms"] <= keep["lookahead_ms"] <= keep["high_ms"]
    what, why = _what_if(_late(1500))
    assert what["policies"]["resume"]["keep_99"]["high_ms"] is None
    assert why["what_if.policies.resume.keep_99.high_ms"] == "+inf"
    short = good_run(late_ms=1500, share=0.2, faces=False)
    short.rows["marks"] = [
        {**row, "t": row["t"] - 20 * S} if row["what"] == "measure" and row["edge"] == "end" else row
        for row in short.rows["marks"]
    ]
    what, why = _what_if(short)
    for policy in ("resume", "refill"):
        assert what["policies"][policy]["keep_95"]["low_ms"] is None
        assert "4 time blocks" in why[f"what_if.policies.{policy}.keep_95.low_ms"]


def test_a_voice_slower_than_real_time_is_helped_by_none() -> None:
    builder = good_run(faces=False)
    for stage, start in (("alone", 10), ("crowd", 80)):
        ids = {row["stream"]: row for row in builder.rows["streams"] if row["stage"] == stage}
        builder.rows["chunks"] = [row for row in builder.rows["chunks"] if row["stream"] not in ids]
        builder.rows["streams"] = [row for row in builder.rows["streams"] if row["stream"] not in ids]
        for utterance in range(12):
            due = (start + 5 * utterance) * S
            builder.voice(stage, due, steady(200, 100, 400), [160] * 100, utterance=utterance)
    what, why = _what_if(builder)
    assert what["slower_share"] == 1.0
    assert what["policies"]["resume"]["keep_95"]["lookahead_ms"] is None
    assert not what["policies"]["resume"]["keep_95"]["cures"]
    expected = "no lookahead helps: the voice is made slower than real time"
    assert why["what_if.policies.resume.keep_95.lookahead_ms"] == expected


def test_no_lookahead_mends_what_was_cut() -> None:
    builder = good_run(faces=False)
    for row in builder.rows["streams"]:
        if row["stage"] == "crowd" and row["kind"] == "voices" and row["utterance"] < 3:
            row.update(end="truncated", error_kind="truncated")
    what, why = _what_if(builder)
    for policy in ("resume", "refill", "drop"):
        assert what["policies"][policy]["keep_95"]["lookahead_ms"] is None
        reason = why[f"what_if.policies.{policy}.keep_95.lookahead_ms"]
        assert reason == "no lookahead helps: 25 % of the utterances were cut or too short"


def test_a_stage_without_utterances_has_a_reason() -> None:
    builder = good_run(faces=False)
    builder.rows["streams"] = [row for row in builder.rows["streams"] if row["stage"] != "crowd"]
    what, why = _what_if(builder)
    assert what == {}
    assert why["what_if"] == "no voice was due in this stage's measure window"


@pytest.mark.parametrize("start", ["prefill", "delay"])
def test_it_is_typed(start: Any) -> None:
    options = JudgeOptions(start=start, decision="point")
    stage = summary_of(judge(_late(1500).build(), options)).stage("crowd")
    keep = stage.what_if["resume"].keep_99
    assert keep.lookahead_ms is not None
    assert keep.high_ms == np.inf
    assert stage.raw["what_if"]["start"] == start
