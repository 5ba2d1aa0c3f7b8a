"""Gates: what may be written, to which stages it applies, and when it passes."""

from typing import Any

import pytest

from cotenant.errors import UserError
from cotenant.verdict.gates import gate_text
from cotenant.verdict.profiles import PROFILES
from cotenant.verdict.summary import JudgeOptions, judge
from cotenant.verdict.written_gates import parse_limit
from tests.verdict.recordings import Builder, good_run


def _gates(builder: Builder, *gates: str, decision: Any = "point", stage: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = judge(builder.build(), JudgeOptions(gates=gates, decision=decision))[
        "stages"
    ][stage]["gates"]
    return found


@pytest.mark.parametrize(
    ("metric", "text", "value"),
    [
        ("speech.ttfa_ms.p95", "500ms", 500.0),
        ("speech.ttfa_ms.p95", "1.5s", 1500.0),
        ("speech.ttfa_ms.p95", "250", 250.0),
        ("speech.headroom_ms.p5", "-20ms", -20.0),
        ("speech.clean_share", "95 %", 0.95),
        ("speech.clean_share", "99%", 0.99),
        ("speech.clean_share", "0.9", 0.9),
        ("llm.decode.tokens_per_s", "20/s", 20.0),
        ("llm.decode.tokens_per_s", "1k", 1000.0),
        ("vs_reference.ttfa_p95.ratio", "1.25", 1.25),
    ],
)
def test_limits_are_written_with_units(metric: str, text: str, value: float) -> None:
    assert parse_limit(metric, text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("metric", "text"),
    [("speech.ttfa_ms.p95", "fast"), ("speech.clean_share", "most"), ("speech.rtf.p95", "")],
)
def test_a_bad_limit_says_what_would_be_right(metric: str, text: str) -> None:
    with pytest.raises(UserError, match="write a"):
        parse_limit(metric, text)


@pytest.mark.parametrize(
    ("gate", "advice"),
    [
        ("speech.ttfa_ms.p96 <= 500ms", "speech.ttfa_ms.p95"),
        ("ttfa_ms.p95 <= 500ms", "speech.ttfa_ms.p95"),
        ("speech.clean <= 1", "speech.clean_share"),
        ("speech.chunk_gap_ms.p99 <= 500ms", "speech.chunk_gap_max_ms.p95"),
        ("llm.prefill.tokens_per_s >= 1", "llm.decode.tokens_per_s"),
        ("voices", "voice-strict"),
        ("speech.clean_share => 1", "speech.ttfa_ms.p95 <= 500ms"),
    ],
)
def test_an_unknown_metric_names_the_nearest(gate: str, advice: str) -> None:
    with pytest.raises(UserError, match=advice.replace(".", r"\.")):
        _gates(good_run(), gate)


@pytest.mark.parametrize(
    ("op", "limit", "verdict"),
    [("<=", 207, "pass"), ("<", 207, "fail"), (">=", 207, "pass"), (">", 207, "fail"), ("<", 208, "pass")],
)
def test_operators_mean_what_they_say(op: str, limit: float, verdict: str) -> None:
    builder = good_run()
    # No timing error, so that a margin of zero is exact.
    for row in builder.rows["host"]:
        row["value"] = 0.0
    assert _gates(builder, f"speech.ttfa_ms.p95 {op} {limit}ms")[0]["verdict"] == verdict


def test_gates_apply_where_their_load_runs() -> None:
    builder = good_run()
    gates = (
        "voice",
        "face.fps_p5 >= 24",
        "llm.decode.tokens_per_s >= 1",
        "vs_reference.ttfa_p95.ratio <= 1.25",
    )
    alone, crowd = _gates(builder, *gates), _gates(builder, *gates, stage=1)
    assert {gate["metric"].split(".")[0] for gate in alone} == {"speech"}
    assert {gate["metric"].split(".")[0] for gate in crowd} == {"speech", "face", "llm", "vs_reference"}
    assert {gate["verdict"] for gate in crowd} == {"pass"}


def test_a_gate_of_named_stages_and_one_that_only_warns() -> None:
    builder = good_run()
    builder.scenario["gate"] = [
        {"metric": "speech.ttfa_ms.p95", "op": "<=", "limit": "1ms", "stages": ["crowd"], "level": "warn"}
    ]
    stages = judge(builder.build(), JudgeOptions(decision="point"))["stages"]
    assert stages[0]["gates"] == []
    assert stages[1]["gates"][0]["verdict"] == "fail"
    assert stages[1]["verdict"] == "pass"


def test_too_few_decide_nothing_and_say_how_many_are_missing() -> None:
    few = _gates(good_run(), "speech.clean_share >= 0.95", decision="interval")[0]
    assert few["verdict"] == "inconclusive"
    # 24 clean ones: 59 are needed.
    assert few["n"] == 24
    assert few["needs_more"] == 35
    many = _gates(
        good_run(utterances=30, every_ns=2_000_000_000), "speech.clean_share >= 0.95", decision="interval"
    )[0]
    assert many["verdict"] == "pass"
    assert many["needs_more"] is None
    assert many["low"] >= 0.95


def test_a_p95_needs_59_too() -> None:
    gate = "speech.ttfa_ms.p95 <= 500ms"
    assert _gates(good_run(), gate, decision="interval")[0]["verdict"] == "inconclusive"
    many = _gates(good_run(utterances=30, every_ns=2_000_000_000), gate, decision="interval")[0]
    assert many["verdict"] == "pass"
    assert many["high"] == 207.0


def test_a_clear_failure_needs_few() -> None:
    builder = good_run(late_ms=4000, share=1.0)
    gate = _gates(builder, "speech.clean_share >= 0.95", decision="interval", stage=1)[0]
    assert gate["verdict"] == "fail"
    assert gate["high"] < 0.95


def test_infinities_are_compared() -> None:
    builder = good_run()
    gates = ("speech.headroom_ms.p50 >= 100ms", "speech.ttfa_ms.p99 <= 500ms")
    for row in builder.rows["streams"]:
        if row["stage"] == "crowd" and row["load"] == "voices":
            row.update(end="error", error_kind="server_error")
    builder.rows["chunks"] = []
    found = _gates(builder, *gates, stage=1)
    assert [gate["verdict"] for gate in found] == ["fail", "fail"]
    assert [gate["value"] for gate in found] == [None, None]
    assert [gate["why"]["value"] for gate in found] == ["-inf", "+inf"]


def test_counts_are_exact_and_need_no_interval() -> None:
    gate = _gates(good_run(), "speech.failed <= 0", decision="interval")[0]
    assert gate["verdict"] == "pass"
    assert gate["low"] == gate["high"] == 0


def test_a_comparison_is_judged_by_its_own_interval() -> None:
    builder = good_run(utterances=30, every_ns=2_000_000_000, late_ms=300, share=1.0)
    found = _gates(
        builder,
        "vs_reference.chunk_gap_max_p95.ratio <= 1.25",
        "vs_reference.ttfa_p95.ratio <= 1.25",
        decision="interval",
        stage=1,
    )
    assert [gate["verdict"] for gate in found] == ["fail", "pass"]


def test_every_profile_names_metrics_that_exist() -> None:
    builder = good_run()
    for name in PROFILES:
        assert judge(builder.build(), JudgeOptions(gates=(name,)))["stages"][1]["gates"], name


def test_a_gate_reads_back_as_it_was_written() -> None:
    gate = _gates(good_run(), "speech.ttfa_ms.p95<=0.5s")[0]
    assert gate_text(gate) == "speech.ttfa_ms.p95 <= 500 ms"
