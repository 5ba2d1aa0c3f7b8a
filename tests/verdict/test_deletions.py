"""Nothing passes because something was deleted."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cotenant.errors import ExitCode
from cotenant.records import TABLES, Recording
from cotenant.verdict.summary import JudgeOptions, exit_code, judge
from tests.verdict.recordings import MS, Builder, S, good_run, steady

Decision = Literal["point", "interval"]

GATES = (
    "voice", "face", "llm.decode.tokens_per_s >= 10", "llm.decode.prompt_tokens_per_s >= 1",
    "llm.decode.prompt_tokens_per_s <= 1k", "llm.decode.failed <= 0", "llm.decode.open <= 0",
    "llm.decode.itl_ms.p50 <= 60ms", "speech.failed <= 0", "speech.delayed <= 0", "speech.short <= 0",
    "speech.runaway <= 0", "vs_reference.ttfa_p95.ratio <= 1.3", "vs_reference.rtf_p95.ratio <= 1.3",
    "vs_reference.chunk_gap_max_p95.ratio <= 1.3", "vs_reference.clean_share.difference >= -0.05",
    "vs_reference.headroom_p5.difference_ms >= -50ms", "vs_reference.llm.decode.itl_p99.ratio <= 1.1",
    "vs_reference.llm.decode.tokens_per_s.ratio >= 0.9", "vs_reference.frame_latency_p95.ratio <= 1.1",
)  # fmt: skip
ALL = {decision: JudgeOptions(decision=decision, gates=GATES, looks=1) for decision in ("point", "interval")}
# What so short a run leaves open where intervals decide: 80 clips are worth 51, and solo windows have none.
_UNBOUNDED = {
    "face.freezes_per_minute", "face.first_frame_ms.p95", "llm.decode.prompt_tokens_per_s",
    "vs_reference.llm.decode.itl_p99.ratio", "vs_reference.llm.decode.tokens_per_s.ratio",
    "vs_reference.frame_latency_p95.ratio",
}  # fmt: skip
# What end rows alone tell, whatever the streams carried.
_FROM_END_ROWS = {"speech.failed", "speech.delayed", "llm.decode.failed", "llm.decode.open"}
# Worse is larger.
_ORDER = {"pass": 0, "inconclusive": 1, "fail": 2}


def _run(bad: bool) -> Builder:
    """Enough utterances for intervals, solo windows, and a closing baseline that differs a little."""
    builder = good_run(utterances=80, every_ns=1500 * MS, late_ms=1500 if bad else 0, share=0.5, seconds=120)
    again = {row["stream"] for row in builder.rows["streams"] if row["stage"] == "alone/again"}
    for row in builder.rows["chunks"]:
        row["arrival"] += 20 * MS * (row["stream"] in again)
    builder.window("solo:decode", 395 * S, 405 * S)
    builder.window("solo:faces", 406 * S, 416 * S)
    for stream in (0, 1):
        builder.asked("solo:decode", 395 * S, steady(0, 200, 50), done_ms=10_000, listener=stream)
    builder.face("solo:faces", 407 * S, steady(250, 80, 40))
    return builder


def _without(recording: Recording, table: str, column: str | None) -> Recording:
    rows = recording.tables[table]
    emptied = rows.drop_columns([column]) if column else TABLES[table].empty_table()
    return Recording(manifest=recording.manifest, tables={**recording.tables, table: emptied})


@cache
def _whole(bad: bool, decision: Decision) -> tuple[Recording, dict[str, Any]]:
    recording = _run(bad).build()
    return recording, judge(recording, ALL[decision])


@pytest.mark.parametrize("decision", ["point", "interval"])
def test_the_whole_run_passes_so_that_deletions_have_something_to_lose(decision: Decision) -> None:
    for stage in _whole(False, decision)[1]["stages"]:
        left = {gate["metric"]: gate["why"] for gate in stage["gates"] if gate["verdict"] != "pass"}
        assert set(left) <= _UNBOUNDED if decision == "interval" else not left, left


def _deletions() -> Iterator[tuple[str, str | None]]:
    for table in TABLES:
        yield table, None
        for column in TABLES[table].names:
            yield table, column


def _nothing_better(whole: dict[str, Any], less: dict[str, Any], bad: bool) -> None:
    for before, after in zip(whole["stages"], less["stages"], strict=True):
        gates = {(gate["metric"], gate["op"]): gate["verdict"] for gate in before["gates"]}
        for gate in after["gates"]:
            former = gates[gate["metric"], gate["op"]]
            assert gate["verdict"] != "pass" or former == "pass", (before["name"], gate)
    assert whole["verdict"] == "pass" or less["verdict"] != "pass"
    if not bad:
        assert _ORDER[less["verdict"]] >= _ORDER[whole["verdict"]]


@pytest.mark.parametrize(("table", "column"), list(_deletions()))
@pytest.mark.parametrize("decision", ["point", "interval"])
@pytest.mark.parametrize("bad", [False, True])
def test_deleting_an_input_makes_nothing_pass_that_did_not(
    table: str, column: str | None, decision: Decision, bad: bool
) -> None:
    recording, whole = _whole(bad, decision)
    _nothing_better(whole, judge(_without(recording, table, column), ALL[decision]), bad)


@pytest.mark.parametrize("kind", ["voices", "faces", "completions"])
@pytest.mark.parametrize("stage", ["alone", "crowd", "alone/again"])
@pytest.mark.parametrize("decision", ["point", "interval"])
def test_deleting_end_rows_or_rows_of_streams_makes_nothing_pass(
    kind: str, stage: str, decision: Decision
) -> None:
    """What only an end row tells, what the streams carried, and the streams: of one kind, in one stage."""
    recording, whole = _whole(False, decision)
    rows = recording.tables["streams"]
    mine = pc.and_(
        pc.equal(rows["stage"].cast(pa.string()), stage), pc.equal(rows["kind"].cast(pa.string()), kind)
    )
    gone = rows["stream"].filter(mine)
    if not len(gone):
        return
    cut = rows
    for column in ("first_byte", "done", "end", "error_kind", "status", "bytes", "output_tokens"):
        cells = pc.if_else(mine, pa.nulls(len(rows), rows[column].type), rows[column])
        cut = cut.set_column(rows.column_names.index(column), rows.schema.field(column), cells)
    table = {"voices": "chunks", "faces": "frames", "completions": "tokens"}[kind]
    carried = recording.tables[table]
    kept = carried.filter(pc.invert(pc.is_in(carried["stream"], value_set=gone.combine_chunks())))
    for tables in ({"streams": cut}, {table: kept}, {"streams": rows.filter(pc.invert(mine))}):
        less = judge(
            Recording(manifest=recording.manifest, tables={**recording.tables, **tables}), ALL[decision]
        )
        _nothing_better(whole, less, bad=False)
        if stage == "alone/again":
            continue
        entry = next(entry for entry in less["stages"] if entry["name"] == stage)
        reads = {"voices": "speech.", "faces": "face.", "completions": "llm."}[kind]
        about = [gate for gate in entry["gates"] if gate["metric"].startswith(reads)]
        assert about
        if "streams" not in tables or len(tables["streams"]) < len(rows):
            passed = {gate["metric"] for gate in about if gate["verdict"] == "pass"}
            # No utterance of the baseline is compared with itself.
            nothing = {"speech.short", "speech.runaway"} if stage == "alone" else set()
            assert passed <= _FROM_END_ROWS | nothing, passed


def _by_writers(recording: Recording, writer: str | None) -> Recording:
    """Where the audio rows tell who wrote them."""
    chunks = recording.tables["chunks"]
    if writer is not None:
        chunks = chunks.append_column("writer", pa.array([writer] * len(chunks)).dictionary_encode())
    return Recording(manifest=recording.manifest, tables={**recording.tables, "chunks": chunks})


def _host_less(recording: Recording, source: str, lost: str) -> Recording:
    """Without all host rows of a writer, one of its metrics, or one of its columns."""
    rows = recording.tables["host"]
    mine = pc.equal(rows["source"].cast(pa.string()), source)
    if lost in rows.column_names:
        cells = pc.if_else(mine, pa.nulls(len(rows), rows[lost].type), rows[lost])
        rows = rows.set_column(rows.column_names.index(lost), rows.schema.field(lost), cells)
    else:
        gone = mine if lost == "file" else pc.and_(mine, pc.equal(rows["metric"].cast(pa.string()), lost))
        rows = rows.filter(pc.invert(gone))
    return Recording(manifest=recording.manifest, tables={**recording.tables, "host": rows})


@cache
def _doubtful(writer: str | None, source: str, inexact: bool) -> tuple[Recording, dict[str, Any]]:
    """The whole run whose audio rows tell that writer, the stamps of `source` coarse or not."""
    recording = _by_writers(_whole(False, "point")[0], writer)
    if inexact:
        rows = recording.tables["host"]
        coarse = pc.if_else(pc.equal(rows["source"].cast(pa.string()), source), 50.0 * MS, rows["value"])
        host = rows.set_column(rows.column_names.index("value"), rows.schema.field("value"), coarse)
        recording = Recording(manifest=recording.manifest, tables={**recording.tables, "host": host})
    return recording, judge(recording, ALL["point"])


@pytest.mark.parametrize("writer", ["listeners", "listeners-stalled", None])
@pytest.mark.parametrize("source", ["listeners", "askers"])
@pytest.mark.parametrize(
    "lost", ["file", "loop_lag_ns", "offset_bracket_ns", *(name for name in TABLES["host"].names)]
)
@pytest.mark.parametrize("inexact", [False, True])
def test_what_a_writer_says_of_its_exactness_is_not_taken_from_another(
    writer: str | None, source: str, lost: str, inexact: bool
) -> None:
    recording, whole = _doubtful(writer, source, inexact)
    less = judge(_host_less(recording, source, lost), ALL["point"])
    _nothing_better(whole, less, bad=False)
    doubted = "speech.ttfa_ms.p95" if source == "listeners" else "llm.decode.itl_ms.p50"
    crowd = next(stage for stage in less["stages"] if stage["name"] == "crowd")
    gates = [gate for gate in crowd["gates"] if gate["metric"] == doubted]
    assert gates
    if lost != "loop_lag_ns":  # every stamp here is the kernel's
        assert all(gate["verdict"] != "pass" for gate in gates), gates


@pytest.mark.parametrize("stage", ["alone", "alone/again", "solo:decode", "solo:faces"])
@pytest.mark.parametrize("marks", [False, True])
@pytest.mark.parametrize("decision", ["point", "interval"])
@pytest.mark.parametrize("bad", [False, True])
def test_deleting_what_a_stage_is_compared_with_makes_nothing_pass(
    stage: str, marks: bool, decision: Decision, bad: bool
) -> None:
    recording, whole = _whole(bad, decision)
    table, column = ("marks", "name") if marks else ("streams", "stage")
    rows = recording.tables[table]
    kept = pc.invert(pc.equal(rows.column(column).cast(pa.string()), stage))
    less = Recording(manifest=recording.manifest, tables={**recording.tables, table: rows.filter(kept)})
    judged = judge(less, ALL[decision])
    _nothing_better(whole, judged, bad)
    about = {
        "alone": "ttfa_p95.ratio",
        "alone/again": "ttfa_p95.ratio",
        "solo:decode": "llm.decode",
        "solo:faces": "frame_latency",
    }
    concerned = [
        gate for gate in judged["stages"][1]["gates"] if f"vs_reference.{about[stage]}" in gate["metric"]
    ]
    assert concerned
    assert all(gate["verdict"] == "inconclusive" for gate in concerned)


@pytest.mark.parametrize("stage", ["alone", "crowd"])
def test_deleting_the_streams_of_a_stage_leaves_none_of_its_gates_passing(stage: str) -> None:
    builder = good_run()
    builder.rows["streams"] = [row for row in builder.rows["streams"] if row["stage"] != stage]
    summary = judge(builder.build(), ALL["point"])
    entry = next(entry for entry in summary["stages"] if entry["name"] == stage)
    assert all(gate["verdict"] != "pass" for gate in entry["gates"])
    assert summary["verdict"] == "inconclusive"
    assert exit_code(summary) in (ExitCode.INCONCLUSIVE, ExitCode.INVALID)
