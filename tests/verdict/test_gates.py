"""Gates: what may be written, to which stages it applies, and when it passes."""

from typing import Any

import pytest

from cotenant.errors import ExitCode, UserError
from cotenant.verdict.gates import gate_text
from cotenant.verdict.paths import kinds_of
from cotenant.verdict.profiles import PROFILES
from cotenant.verdict.sample import look_up
from cotenant.verdict.summary import JudgeOptions, exit_code, judge
from cotenant.verdict.written_gates import parse_limit
from tests.verdict.recordings import Builder, good_run


def _gates(builder: Builder, *gates: str, decision: Any = "point", stage: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = judge(builder.build(), JudgeOptions(gates=gates, decision=decision))[
        "stages"
    ][stage]["gates"]
    return found


def _long_run() -> Builder:
    """12 blocks of 10 utterances: worth 63 independent ones."""
    return good_run(utterances=60, every_ns=2_000_000_000, seconds=120)


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
    # 24 clean ones in blocks of 4: 59 are needed, and 1.3 times as many if those of a block go together.
    assert few["n"] == 24
    assert few["needs_more"] == 52
    many = _gates(_long_run(), "speech.clean_share >= 0.95", decision="interval")[0]
    assert many["verdict"] == "pass"
    assert many["needs_more"] is None
    assert many["low"] >= 0.95


def test_none_of_something_passes_from_59_on_where_none_is_tolerated() -> None:
    gates = ("speech.stall_ratio <= 0", "speech.stall_ratio <= 0.5 %")
    few = _gates(good_run(), *gates, decision="interval")
    assert [(gate["verdict"], gate["needs_more"]) for gate in few] == [
        ("inconclusive", 52),
        ("inconclusive", 48),
    ]
    many = _gates(_long_run(), *gates, decision="interval")
    assert [gate["verdict"] for gate in many] == ["pass", "pass"]
    # 63 independent ones without a stall: 4.6 % may have one, of a tenth of their time.
    assert many[0]["high"] == pytest.approx(0.0046, abs=1e-4)


def test_a_p95_needs_59_too() -> None:
    gate = "speech.ttfa_ms.p95 <= 500ms"
    assert _gates(good_run(), gate, decision="interval")[0]["verdict"] == "inconclusive"
    many = _gates(_long_run(), gate, decision="interval")[0]
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


@pytest.mark.parametrize(
    "gate",
    [
        "face.fps_p5 >= 24",
        "vs_reference.frame_latency_p95.ratio <= 1.2",
        "llm.idle.tokens_per_s >= 1",
        "vs_reference.llm.idle.tokens_per_s.ratio >= 0.5",
        {"metric": "llm.decode.tokens_per_s", "op": ">=", "limit": 1, "stages": ["crowd", "alone"]},
        {"metric": "vs_reference.ttfa_p95.ratio", "op": "<=", "limit": 1.2, "stages": ["alone"]},
    ],
)
def test_a_limit_that_no_stage_has_anything_for_is_an_error(gate: Any) -> None:
    builder = good_run()
    builder.scenario["load"]["idle"] = dict(builder.scenario["load"]["decode"])
    builder.scenario["stages"][1]["load"] = ["voices", "decode"]
    builder.scenario["gate"] = ["voice", gate]
    with pytest.raises(UserError, match=r"cannot be judged in (any|the) stage"):
        judge(builder.build(), JudgeOptions())


def test_a_comparison_without_a_baseline_is_an_error() -> None:
    builder = good_run()
    del builder.scenario["stages"][0]
    with pytest.raises(UserError, match="the scenario has no baseline"):
        _gates(builder, "vs_reference.ttfa_p95.ratio <= 1.2")


@pytest.mark.parametrize("gates", [("face",), ("llm", "face")])
def test_profiles_about_what_is_not_there_judge_nothing(gates: tuple[str, ...]) -> None:
    builder = good_run(faces=False)
    del builder.scenario["load"]["faces"], builder.scenario["load"]["decode"]
    builder.scenario["stages"][1]["load"] = ["voices"]
    summary = judge(builder.build(), JudgeOptions(gates=gates))
    assert (summary["verdict"], exit_code(summary)) == ("inconclusive", ExitCode.INCONCLUSIVE)
    assert summary["verdict_because"] == "no gate was judged: no stage has what the gates are about"
    both = judge(builder.build(), JudgeOptions(gates=(*gates, "voice")))
    assert (both["verdict"], exit_code(both)) == ("pass", ExitCode.PASS)


@pytest.mark.parametrize(
    ("path", "load"),
    [
        ("llm.decode.v1.tokens_per_s", "decode.v1"),
        ("llm.a.b.c.prompt_tokens_per_s", "a.b.c"),
        ("llm.a.ttft_ms.itl_ms.p50", "a.ttft_ms"),
        ("vs_reference.llm.decode.v1.itl_p99.ratio", "decode.v1"),
        ("vs_reference.llm.decode.tokens_per_s.difference", "decode"),
    ],
)
def test_the_name_of_a_load_may_hold_dots(path: str, load: str) -> None:
    assert kinds_of(path) == ("completions", load)


def test_a_number_is_found_below_a_name_with_dots() -> None:
    entry = {
        "llm": {"decode": {"open": 3}, "decode.v1": {"ttft_ms": {"p50": None}, "open": 1}},
        "why": {"llm.decode.v1.ttft_ms.p50": "+inf"},
    }
    assert look_up(entry, "llm.decode.open") == (3.0, "")
    assert look_up(entry, "llm.decode.v1.open") == (1.0, "")
    assert look_up(entry, "llm.decode.v1.ttft_ms.p50")[0] == float("inf")
    assert look_up(entry, "llm.decode.v2.open")[0] is None


@pytest.mark.parametrize(
    ("metric", "limit", "right"),
    [
        ("speech.clean_share", "95", "95 %"),
        ("speech.clean_share", 95, "95 %"),
        ("speech.clean_share", "110 %", "95 % or 0.95"),
        ("speech.stall_ratio", "5", "5 %"),
        ("speech.stall_ratio", "0.5k", "95 % or 0.95"),
        ("face.dropped_share", -0.1, "95 % or 0.95"),
        ("face.skew_outside.accept", "2", "2 %"),
        ("speech.continuity.c100", "99.5", "99.5 %"),
        ("llm.decode.delivered_share", "95", "95 %"),
        ("gpu.sm_percent.coverage", "50", "50 %"),
        ("vs_reference.clean_share.difference", "-5", "95 % or 0.95"),
    ],
)
def test_a_share_outside_0_to_1_is_an_error(metric: str, limit: str | float, right: str) -> None:
    with pytest.raises(UserError, match=f"is no share .*; write {right}$"):
        parse_limit(metric, limit)
    builder = good_run()
    builder.scenario["gate"] = [{"metric": metric, "op": "<=", "limit": limit}]
    with pytest.raises(UserError, match="is no share"):
        judge(builder.build(), JudgeOptions())


@pytest.mark.parametrize(
    ("metric", "limit", "value"),
    [
        ("speech.clean_share", "100 %", 1.0),
        ("speech.clean_share", 0, 0.0),
        ("vs_reference.clean_share.difference", "-5 %", -0.05),
        ("gpu.sm_percent.mean", "50", 50.0),
        ("speech.rtf.p95", "5", 5.0),
    ],
)
def test_what_is_within_its_range_is_read(metric: str, limit: str | float, value: float) -> None:
    assert parse_limit(metric, limit) == pytest.approx(value)


@pytest.mark.parametrize("decision", ["point", "interval"])
def test_silence_fails_whatever_asks_for_sound(decision: Any) -> None:
    builder = good_run()
    crowd = {row["stream"] for row in builder.rows["streams"] if row["stage"] == "crowd"}
    builder.rows["chunks"] = [row for row in builder.rows["chunks"] if row["stream"] not in crowd]
    for row in builder.rows["streams"]:
        if row["stream"] in crowd and row["kind"] == "voices":
            row.update(end="error", error_kind="server_error")
    gates = (
        "speech.stall_ratio <= 0.5 %", "speech.stall_ms.total <= 10s", "speech.underruns <= 100",
        "speech.ttfa_ms.p50 <= 10s", "speech.headroom_ms.p50 >= -10s", "speech.clean_share >= 50 %",
    )  # fmt: skip
    found = _gates(builder, *gates, decision=decision, stage=1)
    assert {gate["metric"]: gate["verdict"] for gate in found} == {gate["metric"]: "fail" for gate in found}


@pytest.mark.parametrize(
    "gate", ["speech.stall_ratio <= 1", "speech.clean_share >= 0", "face.dropped_share <= 100 %"]
)
def test_a_limit_that_cannot_fail_is_an_error(gate: str) -> None:
    with pytest.raises(UserError, match="can never fail; write a share in per cent"):
        _gates(good_run(), gate)


@pytest.mark.parametrize(
    "gate", ["speech.clean_share >= 1", "speech.stall_ratio <= 0", "speech.stall_ratio < 1"]
)
def test_the_strictest_limits_are_no_mistake(gate: str) -> None:
    assert _gates(good_run(), gate)[0]["verdict"] == "pass"
