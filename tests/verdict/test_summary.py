"""The summary as a whole: same bytes, exit codes, reasons, and nothing better for being deleted."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from cotenant.errors import ExitCode, UserError
from cotenant.records import Recording
from cotenant.verdict.stats import share_bounds
from cotenant.verdict.summary import JudgeOptions, exit_code, is_decided, judge, to_json
from tests.verdict.recordings import Builder, S, good_run

POINT = JudgeOptions(decision="point")
ALL = JudgeOptions(decision="point", gates=("voice", "face", "llm.decode.tokens_per_s >= 10"))


def test_the_same_recording_gives_the_same_bytes() -> None:
    first = to_json(judge(good_run(late_ms=900, share=0.3).build(), JudgeOptions(decision="interval")))
    again = to_json(judge(good_run(late_ms=900, share=0.3).build(), JudgeOptions(decision="interval")))
    assert first == again


def test_the_order_of_rows_in_the_tables_does_not_matter() -> None:
    builder = good_run(late_ms=900, share=0.3)
    straight = judge(builder.build(), POINT)
    for name in ("streams", "host", "marks"):
        builder.rows[name].reverse()
    assert to_json(judge(builder.build(), POINT)) == to_json(straight)


def _nulls(value: Any, path: str = "") -> Iterator[str]:
    if value is None:
        yield path
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _nulls(item, f"{path}.{key}" if path else str(key))


@pytest.mark.parametrize("missing", ["", "chunks", "frames", "tokens", "marks", "streams", "host"])
def test_every_null_has_a_reason(missing: str) -> None:
    builder = good_run()
    if missing:
        builder.rows[missing].clear()
    summary = judge(builder.build(), ALL)
    entries = [
        *summary["stages"],
        summary["a_a"],
        *([summary["a_a"]["stage"]] if summary["a_a"]["stage"] else []),
    ]
    for entry in entries:
        figures = {key: value for key, value in entry.items() if key not in ("mend", "gates", "why")}
        for path in _nulls(figures):
            if path.startswith("stage."):
                continue
            steps = path.split(".")
            parents = [".".join(steps[:length]) for length in range(1, len(steps) + 1)]
            assert any(entry["why"].get(parent) for parent in parents), path
        for gate in entry.get("gates", []):
            for path in ("value", "low", "high", "margin"):
                assert gate[path] is not None or gate["why"][path], (gate, path)


# Worse is larger.
_ORDER = {"pass": 0, "inconclusive": 1, "fail": 2}


def test_streams_without_an_end_row_are_truncated() -> None:
    builder = good_run()
    for row in builder.rows["streams"]:
        row["end"] = row["done"] = None
    assert judge(builder.build(), POINT)["verdict"] == "fail"


def test_a_self_test_that_must_fail_fails() -> None:
    summary = judge(good_run(late_ms=2000, share=1.0).build(), POINT)
    assert summary["verdict"] == "fail"
    assert exit_code(summary) == ExitCode.FAIL


def test_a_run_that_was_cut_is_not_passed() -> None:
    builder = good_run()
    builder.status = "interrupted"
    summary = judge(builder.build(), POINT)
    assert summary["verdict"] == "pass"
    assert exit_code(summary) == ExitCode.INCONCLUSIVE
    assert exit_code(summary, "pass") == ExitCode.PASS
    assert exit_code(summary, "fail") == ExitCode.FAIL


def test_a_stage_that_was_never_reached_is_inconclusive() -> None:
    builder = good_run()
    builder.rows["marks"] = [row for row in builder.rows["marks"] if row["name"] == "alone"]
    builder.rows["streams"] = [row for row in builder.rows["streams"] if row["stage"] == "alone"]
    summary = judge(builder.build(), POINT)
    assert [stage["verdict"] for stage in summary["stages"]] == ["pass", "inconclusive"]
    assert summary["stages"][1]["why"]["verdict"] == "this stage was not measured"


def _summary(*stages: tuple[str, str, bool], status: str = "complete") -> dict[str, Any]:
    verdicts = [verdict for verdict, _, _ in stages]
    return {
        "status": status,
        "verdict": max(verdicts, key=lambda verdict: _ORDER[verdict]),
        "validity": "invalid" if any(validity == "invalid" for _, validity, _ in stages) else "valid",
        "stages": [
            {"verdict": verdict, "validity": validity, "baseline": baseline}
            for verdict, validity, baseline in stages
        ],
    }


@pytest.mark.parametrize(
    ("stages", "code"),
    [
        ([("pass", "valid", True), ("pass", "valid", False)], 0),
        ([("pass", "invalid", True), ("fail", "valid", False)], 4),
        ([("pass", "valid", True), ("fail", "valid", False), ("pass", "invalid", False)], 1),
        ([("pass", "valid", True), ("fail", "invalid", False)], 4),
        ([("pass", "valid", True), ("inconclusive", "valid", False)], 3),
        ([("inconclusive", "valid", True), ("pass", "invalid", False)], 4),
        ([("fail", "valid", True), ("pass", "valid", False)], 1),
    ],
)
def test_exit_codes_in_their_order(stages: list[tuple[str, str, bool]], code: int) -> None:
    assert exit_code(_summary(*stages)) == code


def test_inconclusive_is_turned_only_where_asked() -> None:
    summary = _summary(("inconclusive", "valid", True))
    assert [exit_code(summary, how) for how in (None, "pass", "fail")] == [3, 0, 1]
    invalid = _summary(("pass", "invalid", True))
    assert exit_code(invalid, "pass") == 4


def test_a_failing_baseline_is_said_first() -> None:
    builder = good_run()
    for row in builder.rows["chunks"]:
        row["arrival"] += 900_000_000
    summary = judge(builder.build(), POINT)
    assert summary["verdict_because"] == "the voice does not live here even alone"


def test_a_baseline_that_only_begins_too_late_is_not_said_to_break() -> None:
    summary = judge(good_run().build(), JudgeOptions(decision="point", lookahead_ns=3_000_000_000))
    assert summary["verdict_because"] == "with this lookahead the voice begins too late even alone"


def test_no_gate_is_no_pass() -> None:
    builder = good_run()
    builder.scenario["gate"] = []
    summary = judge(builder.build(), POINT)
    assert summary["verdict"] == "inconclusive"
    assert summary["verdict_because"] == "no gate was asked"


def test_decision_is_by_device_unless_said() -> None:
    assert judge(good_run().build(), JudgeOptions())["decision"] == "point"
    assert judge(good_run(device="gpu").build(), JudgeOptions())["decision"] == "interval"
    assert judge(good_run().build(), JudgeOptions(decision="interval"))["decision"] == "interval"
    builder = good_run(device="gpu")
    builder.scenario["decision"] = "point"
    assert judge(builder.build(), JudgeOptions())["decision"] == "point"


def test_the_closing_baseline_is_the_a_a_and_widens_the_bounds() -> None:
    builder = good_run()
    again = {row["stream"] for row in builder.rows["streams"] if row["stage"] == "alone/again"}
    plain = judge(builder.build(), POINT)["stages"][1]["vs_reference"]["chunk_gap_max_p95"]
    assert (plain["low"], plain["high"]) == (1.0, 1.0)
    for row in builder.rows["chunks"]:
        if row["stream"] in again and row["seq"] >= 10:
            row["arrival"] += 100_000_000
    summary = judge(builder.build(), POINT)
    assert summary["a_a"]["chunk_gap_max_p95_ratio"] == 2.0
    assert summary["a_a"]["stage"]["speech"]["chunk_gap_max_ms"]["p95"] == 200.0
    assert [stage["name"] for stage in summary["stages"]] == ["alone", "crowd"]
    wide = summary["stages"][1]["vs_reference"]["chunk_gap_max_p95"]
    assert (wide["ratio"], wide["low"], wide["high"]) == (1.0, 0.5, 2.0)


def test_rounds_are_pooled_and_paired_within_their_round() -> None:
    builder = good_run(faces=False)
    first = len(builder.rows["streams"])
    rows, chunks = list(builder.rows["streams"]), list(builder.rows["chunks"])
    shift = 300 * S
    for row in rows:
        number = row["stream"] + 500_000
        times = {key: row[key] + shift for key in ("due", "connected", "sent", "done")}
        builder.rows["streams"].append({**row, **times, "stream": number, "round": 1})
    builder.rows["chunks"] += [
        {**row, "stream": row["stream"] + 500_000, "arrival": row["arrival"] + shift} for row in chunks
    ]
    builder.rows["marks"] += [{**row, "t": row["t"] + shift} for row in list(builder.rows["marks"])]
    builder.stamps(300 * S, 550 * S)
    summary = judge(builder.build(), POINT)
    assert len(builder.rows["streams"]) == 2 * first
    assert [stage["speech"]["streams"] for stage in summary["stages"]] == [48, 48]
    assert summary["stages"][1]["vs_reference"]["ttfa_p95"]["n"] == 48


def test_a_scenario_without_a_baseline_says_so() -> None:
    builder = Builder()
    builder.scenario["stages"] = [{"name": "crowd", "load": ["voices"]}]
    builder.window("crowd", 10 * S, 20 * S)
    summary = judge(builder.build(), POINT)
    assert summary["a_a"]["why"]["stage"] == "the scenario has no baseline"
    assert summary["stages"][0]["why"]["vs_reference"] == "the scenario has no baseline"


def test_a_manifest_without_a_scenario_is_no_run() -> None:
    with pytest.raises(UserError, match="scenario"):
        judge(Recording(manifest={}, tables={}), POINT)


def test_the_error_level_is_split_over_the_looks() -> None:
    builder = good_run(utterances=60, every_ns=2 * S, seconds=120)
    gates = ("speech.clean_share >= 0.95",)
    once = judge(builder.build(), JudgeOptions(gates=gates, decision="interval"))
    often = judge(builder.build(), JudgeOptions(gates=gates, decision="interval", looks=4))
    assert is_decided(once, "crowd")
    # 120 clean ones in blocks of 10 prove 95 % at a level of 5 %, not at 1.25 %.
    assert not is_decided(often, "crowd")
    assert often["stages"][1]["gates"][0]["low"] < once["stages"][1]["gates"][0]["low"]
    recording = builder.build()
    manifest = {**recording.manifest, "looks": 4}
    later = judge(
        Recording(manifest=manifest, tables=recording.tables), JudgeOptions(gates=gates, decision="interval")
    )
    assert later == often


def test_measuring_on_does_not_help_a_gate_without_data() -> None:
    builder = good_run(faces=False)
    summary = judge(builder.build(), JudgeOptions(gates=("face.fps_p5 >= 24",), decision="interval"))
    assert summary["stages"][1]["gates"][0]["verdict"] == "inconclusive"
    assert is_decided(summary, "crowd")


@pytest.mark.parametrize("looks", [1, 4, 12])
def test_each_look_of_the_manifest_takes_its_part_of_the_error_level(looks: int) -> None:
    """Three rounds of four looks are twelve: a stage's gates are judged at each of them."""
    recording = good_run(utterances=60, every_ns=S).build()
    manifest = {**recording.manifest, "looks": looks}
    gates = ("speech.failed <= 0", "speech.clean_share >= 0.5")
    judged = judge(
        Recording(manifest=manifest, tables=recording.tables), JudgeOptions(gates=gates, decision="interval")
    )
    gate = judged["stages"][1]["gates"][1]
    n_eff = share_bounds(np.ones(120, dtype=np.bool_), np.repeat(np.arange(6), 20), 0.05 / looks).n_eff
    assert gate["low"] == pytest.approx((0.05 / looks) ** (1 / n_eff), rel=1e-3)
