"""What makes a stage INVALID, and what our own timing error does to a gate."""

from typing import Any

import numpy as np
import pytest

from cotenant.errors import UserError
from cotenant.verdict.summary import JudgeOptions, judge
from cotenant.verdict.timing import Timing, error_of
from tests.verdict.recordings import MS, Builder, S, good_run, steady

POINT = JudgeOptions(decision="point")


def _stages(builder: Builder) -> dict[str, dict[str, Any]]:
    return {stage["name"]: stage for stage in judge(builder.build(), POINT)["stages"]}


def _stamps(builder: Builder, metric: str, value: float) -> None:
    for row in builder.rows["host"]:
        if row["metric"] == metric:
            row["value"] = value


def test_a_clean_run_is_valid() -> None:
    summary = judge(good_run().build(), POINT)
    assert summary["validity"] == "valid"
    assert summary["invalid_because"] == []


def test_a_wide_clock_bracket_is_invalid() -> None:
    builder = good_run()
    _stamps(builder, "offset_bracket_ns", 11.0 * MS)
    stages = _stages(builder)
    assert stages["alone"]["validity"] == "invalid"
    assert "voices: our own timing error is 11.0 ms" in stages["alone"]["invalid_because"][0]


def test_an_error_of_nothing_is_one_that_is_known() -> None:
    builder = good_run()
    for metric in ("offset_bracket_ns", "loop_lag_ns"):
        _stamps(builder, metric, 0.0)
    stages = _stages(builder)
    assert {stage["validity"] for stage in stages.values()} == {"valid"}
    assert stages["crowd"]["timing"]["voices"]["p99_ms"] == 0.0
    assert stages["crowd"]["timing"]["faces"]["p99_ms"] == 0.0


@pytest.mark.parametrize(("late", "validity"), [(1, "valid"), (2, "invalid")])
def test_one_late_stamp_of_few_is_no_p99(late: int, validity: str) -> None:
    few = np.full(54, 1e6)
    few[:late] = 40e6
    timing = Timing(
        offsets=np.array([0, 54], dtype=np.int64), arrival_error_ns=few, send_error_ns=np.zeros(1)
    )
    error = error_of(timing, np.array([0]), np.array([0]))
    assert error.p99_ns == 40e6  # of so few the p99 is the largest, and gates know of it
    assert error.spoils("voices") == (validity == "invalid")


def test_when_an_llms_tokens_came_spoils_no_stage_but_when_they_were_asked_for_does() -> None:
    late, exact = np.full(200, 40e6), np.zeros(200)
    offsets = np.arange(201, dtype=np.int64)
    rows = np.arange(200)
    came = error_of(Timing(offsets=offsets, arrival_error_ns=late, send_error_ns=exact), rows, rows)
    sent = error_of(Timing(offsets=offsets, arrival_error_ns=exact, send_error_ns=late), rows, rows)
    assert not came.spoils("completions")
    assert came.spoils("voices")
    assert came.p99_ns == 40e6
    assert sent.spoils("completions")


def test_the_loop_lag_counts_for_stamps_of_the_read_only() -> None:
    builder = good_run()
    _stamps(builder, "loop_lag_ns", 30.0 * MS)
    stages = _stages(builder)
    assert stages["alone"]["validity"] == "valid"
    assert stages["crowd"]["invalid_because"] == ["faces: our own timing error is 30.0 ms at p99, over 10 ms"]


def test_a_shared_read_is_as_uncertain_as_the_time_since_the_read_before() -> None:
    builder = good_run()
    for row in builder.rows["chunks"]:
        row["shared_read"] = row["seq"] == 3
    # 1 of 20 chunks: their error is the p99. A loop that lagged by 0.01 ms would have read it within that.
    assert _stages(builder)["alone"]["timing"]["voices"]["p99_ms"] == 5.01
    _stamps(builder, "loop_lag_ns", 1000.0 * MS)
    assert _stages(builder)["alone"]["timing"]["voices"]["p99_ms"] == 100.0
    for row in builder.rows["chunks"]:
        row["shared_read"] = False
    assert _stages(builder)["alone"]["timing"]["voices"]["p99_ms"] == 0.01


def test_messages_of_one_read_share_the_read_before() -> None:
    builder = good_run(faces=False)
    by_stream: dict[int, list[dict[str, Any]]] = {}
    for row in builder.rows["chunks"]:
        by_stream.setdefault(row["stream"], []).append(row)
    for rows in by_stream.values():
        for row in rows[4:8]:
            row["arrival"] = rows[7]["arrival"]
            row["shared_read"] = row is not rows[7]
    _stamps(builder, "loop_lag_ns", 1000.0 * MS)
    # The read before is that of chunk 3, 400 ms earlier.
    assert _stages(builder)["alone"]["timing"]["voices"]["p99_ms"] == 400.0


def test_a_late_send_is_our_fault_but_a_late_connection_is_not() -> None:
    builder = good_run()
    for row in builder.rows["streams"]:
        row["connected"] = row["sent"] = row["due"] + 40 * MS
    assert _stages(builder)["alone"]["validity"] == "valid"
    for row in builder.rows["streams"]:
        row["connected"] = row["due"] - 40 * MS
    assert _stages(builder)["alone"]["validity"] == "invalid"


@pytest.mark.parametrize("what", ["host", "stamp", "shared_read"])
def test_an_unknown_error_is_said_and_passes_nothing(what: str) -> None:
    builder = good_run()
    if what == "host":
        builder.rows["host"].clear()
    for row in [*builder.rows["streams"], *builder.rows["chunks"]]:
        row.pop(what, None)
    stage = _stages(builder)["alone"]
    assert stage["timing"]["voices"]["p99_ms"] is None
    assert stage["why"]["timing.voices.p99_ms"] == "unknown"
    unknown = stage["caveats"][0]
    assert unknown["kind"] == "timing-unknown"
    assert unknown["unknown_share"] > 0
    assert f"is unknown for {100 * unknown['unknown_share']:.1f} % of the stamps" in unknown["text"]
    assert {gate["verdict"] for gate in stage["gates"]} == {"inconclusive"}


def test_a_margin_within_our_own_error_decides_nothing() -> None:
    builder = good_run()
    _stamps(builder, "offset_bracket_ns", 5.0 * MS)
    options = JudgeOptions(
        gates=("speech.ttfa_ms.p95 <= 210ms", "speech.ttfa_ms.p95 <= 215ms"), decision="point"
    )
    gates = judge(builder.build(), options)["stages"][0]["gates"]
    assert [gate["verdict"] for gate in gates] == ["inconclusive", "pass"]
    assert "timing error of 5 ms" in gates[0]["why"]["verdict"]


def test_a_load_that_did_not_settle() -> None:
    builder = good_run()
    builder.fault("settle:crowd", 79 * S)
    stages = _stages(builder)
    assert stages["alone"]["validity"] == "valid"
    assert "settle limit" in stages["crowd"]["invalid_because"][0]


def test_last_utterances_that_were_given_up_spoil_the_stage_that_they_belong_to() -> None:
    builder = good_run()
    builder.fault("follow:crowd", 142 * S)
    told = {name: stage["invalid_because"] for name, stage in _stages(builder).items()}
    assert told == {
        "alone": [], "crowd": ["the last utterances had not ended when they were given up"],
    }  # fmt: skip


def test_our_own_load_process_ended() -> None:
    builder = good_run()
    builder.fault("load:listeners", 100 * S)
    assert _stages(builder)["crowd"]["invalid_because"] == ["our own load process listeners ended"]
    assert _stages(builder)["alone"]["validity"] == "valid"


def test_a_tenant_that_ended_is_a_caveat_and_so_is_one_still_busy() -> None:
    builder = good_run()
    builder.fault("tenant:llm", 100 * S)
    builder.fault("idle:alone", 71 * S)
    stage = _stages(builder)["crowd"]
    assert stage["validity"] == "valid"
    assert [caveat["kind"] for caveat in stage["caveats"]] == ["not-idle", "tenant-ended"]
    assert stage["caveats"][1]["advice"] == "see logs/llm.log"


def test_each_replica_of_a_tenant_has_a_log_of_its_own() -> None:
    builder = good_run()
    builder.scenario["tenants"]["tts"]["replicas"] = 2
    builder.fault("tenant:tts", 100 * S)
    told = [c["advice"] for c in _stages(builder)["crowd"]["caveats"] if c["kind"] == "tenant-ended"]
    assert told == ["see logs/tts@*.log"]


def test_a_baseline_without_a_voice_is_none() -> None:
    builder = good_run()
    builder.rows["streams"] = [row for row in builder.rows["streams"] if row["stage"] != "alone"]
    summary = judge(builder.build(), POINT)
    assert "baseline is missing" in summary["invalid_because"][0]


def test_writers_tell_whose_bracket_it_is() -> None:
    import pyarrow as pa

    from cotenant.records import Recording

    builder = Builder()
    builder.scenario["stages"] = [{"name": "alone", "load": ["voices"], "baseline": True}]
    builder.window("alone", 10 * S, 70 * S)
    builder.voice("alone", 20 * S, steady(100, 10), [160] * 10)
    for t in range(0, 80, 1):
        for source, value in (("listeners", 1000.0), ("askers", 50.0 * MS)):
            builder.rows["host"].append(
                {"t": t * S, "source": source, "metric": "offset_bracket_ns", "value": value}
            )
    recording = builder.build()
    assert judge(recording, POINT)["stages"][0]["timing"]["voices"]["p99_ms"] == 50.0
    chunks = recording.tables["chunks"]
    names = pa.array(["listeners-stalled", *["listeners"] * 9]).dictionary_encode()
    tables = {**recording.tables, "chunks": chunks.append_column("writer", names)}
    named = Recording(manifest=recording.manifest, tables=tables)
    assert judge(named, POINT)["stages"][0]["timing"]["voices"]["p99_ms"] == 0.001


@pytest.mark.parametrize(
    ("at_s", "still_s", "invalid"),
    [(85, 1.5, "crowd"), (81, 7.0, "crowd"), (85, 0.9, None), (60, 1.5, "alone"), (76, 1.5, None)],
)
def test_a_load_process_that_stood_still_spoils_the_stage_it_did_so_in(
    at_s: int, still_s: float, invalid: str | None
) -> None:
    builder = good_run()
    builder.rows["host"].append(
        {"t": at_s * S, "source": "listeners", "metric": "loop_lag_ns", "value": still_s * S}
    )
    stages = _stages(builder)
    told = {name: stage["invalid_because"] for name, stage in stages.items() if stage["invalid_because"]}
    assert list(told) == ([] if invalid is None else [invalid])


def test_a_mark_from_another_century_is_damage_and_no_window() -> None:
    builder = good_run()
    (end,) = [
        row
        for row in builder.rows["marks"]
        if (row["what"], row["edge"], row["name"]) == ("measure", "end", "crowd")
    ]
    end["t"] = 10**18
    with pytest.raises(UserError, match="marks is damaged: crowd lasts for months"):
        judge(builder.build(), POINT)
