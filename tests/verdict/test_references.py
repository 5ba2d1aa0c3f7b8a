"""What a stage is compared with: pairs, texts, the closing baseline, solo windows, and when none will do."""

import random
from typing import Any

import pytest

from cotenant.verdict.summary import JudgeOptions, is_decided, judge
from tests.verdict.recordings import MS, Builder, S, good_run, steady

RATIO = "vs_reference.ttfa_p95.ratio <= 1.2"
CLEAN = "speech.clean_share >= 95 %"


def _judged(builder: Builder, *gates: str, decision: Any = "point") -> dict[str, Any]:
    return judge(builder.build(), JudgeOptions(gates=gates, decision=decision))


def _gate(summary: dict[str, Any], stage: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = summary["stages"][stage]["gates"][0]
    return found


def _without(builder: Builder, stage: str, *, utterances_from: int = 0) -> Builder:
    builder.rows["streams"] = [
        row for row in builder.rows["streams"] if row["stage"] != stage or row["utterance"] < utterances_from
    ]
    return builder


def _later(builder: Builder, stage: str, by_ms: int) -> Builder:
    """All that the stage's voices sent comes later."""
    ids = {row["stream"] for row in builder.rows["streams"] if row["stage"] == stage}
    for row in builder.rows["chunks"]:
        if row["stream"] in ids:
            row["arrival"] += by_ms * MS
    return builder


def _shortened(utterances_from: int) -> Builder:
    """In the crowd, the utterances from that one on end after 40 % of their text."""
    builder = good_run()
    cut = {
        row["stream"]
        for row in builder.rows["streams"]
        if row["stage"] == "crowd" and row["kind"] == "voices" and row["utterance"] >= utterances_from
    }
    builder.rows["chunks"] = [
        row for row in builder.rows["chunks"] if row["stream"] not in cut or row["seq"] < 8
    ]
    return builder


@pytest.mark.parametrize("kept", range(0, 13, 2))
def test_deleting_the_baseline_from_any_utterance_on_makes_short_ones_no_pass(kept: int) -> None:
    whole = _judged(_shortened(6), CLEAN)
    assert (whole["stages"][1]["speech"]["short"], _gate(whole)["verdict"]) == (12, "fail")
    less = _judged(_without(_shortened(6), "alone", utterances_from=kept), CLEAN)
    assert _gate(less)["verdict"] != "pass"
    assert less["verdict"] != "pass"


def test_an_utterance_without_a_pair_is_compared_by_its_text() -> None:
    # The built-in list has 20 measured texts: utterances 0 to 4 of listener 1 say what listener 0 says in
    # its 7 to 11.
    less = _judged(_without(_shortened(7), "alone", utterances_from=5), CLEAN)
    assert less["stages"][1]["speech"]["short"] == 5
    assert less["stages"][1]["vs_reference"]["ttfa_p95"]["n"] == 10


def test_what_a_load_says_comes_from_the_scenario() -> None:
    builder = _without(_shortened(3), "alone", utterances_from=3)
    builder.scenario["load"]["voices"]["text"] = ["one", "two", "three"]
    assert _judged(builder, CLEAN)["stages"][1]["speech"]["short"] == 18


def test_a_pass_stands_where_the_unknown_ones_could_not_turn_it() -> None:
    builder = _without(good_run(), "alone", utterances_from=10)
    builder.scenario["load"]["voices"]["text"] = [f"text {number}" for number in range(200)]
    for limit, verdict in (("90 %", "pass"), ("95 %", "inconclusive")):
        gate = _gate(_judged(builder, f"speech.clean_share >= {limit}"))
        # 2 of 24 have neither a pair nor a text in the baseline.
        assert (gate["value"], gate["verdict"]) == (1.0, verdict)
    assert "of 2 utterances it is not known" in gate["why"]["verdict"]
    for most, verdict in ((1, "inconclusive"), (2, "pass")):
        assert _gate(_judged(builder, f"speech.short <= {most}"))["verdict"] == verdict


@pytest.mark.parametrize("decision", ["point", "interval"])
@pytest.mark.parametrize("why", ["missing", "invalid"])
def test_a_ratio_needs_the_closing_baseline(why: str, decision: Any) -> None:
    def run() -> Builder:
        return _later(good_run(utterances=40, every_ns=1500 * MS), "alone/again", 60)

    whole = _gate(_judged(run(), RATIO, decision=decision))
    assert whole["verdict"] == ("inconclusive" if decision == "interval" else "pass")
    builder = run()
    if why == "missing":
        _without(builder, "alone/again")
        builder.rows["marks"] = [row for row in builder.rows["marks"] if row["name"] != "alone/again"]
    else:
        builder.fault("settle:alone/again", 149 * S)
    summary = _judged(builder, RATIO, decision=decision)
    gate = _gate(summary)
    assert gate["verdict"] == "inconclusive"
    assert "the closing baseline" in gate["why"]["verdict"]
    assert summary["a_a"]["ttfa_p95_ratio"] is None
    assert "the closing baseline" in summary["a_a"]["why"]["ttfa_p95_ratio"]
    # Nothing that this stage could still measure would help.
    assert gate["needs_more"] is None
    # Without the doubt it would have been worse, not unknown.
    assert _gate(_judged(_later(builder, "crowd", 400), RATIO, decision=decision))["verdict"] == "fail"


@pytest.mark.parametrize(
    "gate", ["ttfa_p95.ratio <= 1.2", "ttfa_p95.ratio >= 1.2", "clean_share.difference >= 0"]
)
@pytest.mark.parametrize("why", ["fails", "invalid"])
def test_nothing_is_claimed_against_a_baseline_that_fails_or_is_invalid(why: str, gate: str) -> None:
    builder = good_run()
    if why == "fails":
        _later(_later(builder, "alone", 900), "crowd", 900)
    else:
        builder.fault("settle:alone", 9 * S)
    summary = _judged(builder, f"vs_reference.{gate}", "voice")
    found = _gate(summary)
    assert found["verdict"] == "inconclusive"
    assert "the baseline" in found["why"]["verdict"]
    assert found["value"] is not None
    assert (summary["verdict"], summary["validity"]) == (
        ("fail", "valid") if why == "fails" else ("inconclusive", "invalid")
    )


def test_an_invalid_solo_window_is_no_reference() -> None:
    def run(streams: int) -> dict[str, Any]:
        builder = good_run()
        builder.window("solo:decode", 230 * S, 240 * S)
        for stream in range(streams):
            builder.asked("solo:decode", 230 * S, steady(0, 200, 50), done_ms=10_000, listener=stream)
        return _judged(builder, "vs_reference.llm.decode.tokens_per_s.ratio >= 0.1")

    valid, invalid = run(2), run(1)
    assert _gate(valid)["verdict"] == "pass"
    assert _gate(invalid)["verdict"] == "inconclusive"
    assert invalid["validity"] == "valid"
    compared = invalid["stages"][1]["vs_reference"]["llm"]["decode"]["tokens_per_s"]
    assert (compared["ratio"], compared["reference"]) == (None, None)
    assert compared["own"] == valid["stages"][1]["vs_reference"]["llm"]["decode"]["tokens_per_s"]["own"]
    path = "vs_reference.llm.decode.tokens_per_s.ratio"
    assert invalid["stages"][1]["why"][path].startswith("the solo window is invalid (decode: ")


def test_an_undecided_comparison_measures_on_while_the_baseline_has_pairs_left() -> None:
    undecided = "vs_reference.ttfa_p95.ratio <= 1.3"

    def run() -> Builder:
        """In the crowd a few of the utterances are up to 80 ms later than in the baseline."""
        builder, late = good_run(utterances=30, every_ns=2 * S, device="gpu"), random.Random(3)
        crowd = {row["stream"] for row in builder.rows["streams"] if row["stage"] == "crowd"}
        by_ns = {stream: round(80 * MS * late.random() ** 8) for stream in sorted(crowd)}
        for row in builder.rows["chunks"]:
            row["arrival"] += by_ns.get(row["stream"], 0)
        return builder

    even = _judged(run(), undecided, decision="interval")
    gate = _gate(even)
    assert gate["verdict"] == "inconclusive"
    assert gate["needs_more"] > 0
    assert gate["n"] == 60
    # All that the baseline said is paired: more of this stage alone gives no more pairs.
    assert is_decided(even, "crowd")
    ahead = run()
    _without(ahead, "crowd", utterances_from=20)
    growing = _judged(ahead, undecided, decision="interval")
    assert _gate(growing)["needs_more"] > 0
    assert not is_decided(growing, "crowd")


def test_too_few_blocks_for_a_comparison_ask_for_more() -> None:
    builder = good_run()
    builder.rows["streams"] = [
        row for row in builder.rows["streams"] if row["stage"] != "crowd" or row["utterance"] < 6
    ]
    gate = _gate(_judged(builder, RATIO, decision="interval"))
    assert "time blocks" in gate["why"]["verdict"]
    # 12 pairs in 3 blocks of 10 s: 6 are needed.
    assert gate["needs_more"] == 12


def test_a_warning_does_not_keep_a_stage_open() -> None:
    builder = good_run()
    warning = {"metric": "speech.clean_share", "op": ">=", "limit": "95 %", "level": "warn"}
    builder.scenario["gate"] = [warning]
    summary = judge(builder.build(), JudgeOptions(decision="interval"))
    assert _gate(summary)["needs_more"] > 0
    assert is_decided(summary, "crowd")
    builder.scenario["gate"] = [{**warning, "level": "fail"}]
    assert not is_decided(judge(builder.build(), JudgeOptions(decision="interval")), "crowd")
