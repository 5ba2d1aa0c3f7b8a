"""The trace: its own rules (order, nesting, arrows), its counts against the run's rows, its query."""

import gzip
import importlib
import json
import shutil
import sqlite3
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.playback.options import PlayerOptions
from cotenant.records import Recording
from cotenant.report.lanes import lanes
from cotenant.report.listening import every_voice
from cotenant.report.perfetto import CHUNKS_THAT_OVERLAP_A_PREFILL, trace
from cotenant.report.trace_counters import CANARY_POINTS
from cotenant.report.trace_events import TraceEvents, microseconds
from tests.verdict.recordings import LISTENERS, MS, Builder, S, good_run

Event = dict[str, Any]


def options(lookahead_ms: int = 400, **more: Any) -> PlayerOptions:
    return PlayerOptions(lookahead_ns=lookahead_ms * MS, **more)


def events_of(data: bytes) -> list[Event]:
    """Read as the strictest reader does: ns cut off behind the point."""
    events = json.loads(gzip.decompress(data))["traceEvents"]
    for event in events:
        for name in ("ts", "dur"):
            if name in event:
                event[name] = int(event[name] * 1000.0)
    return list(events)


def rows_of(events: list[Event], category: str) -> list[Event]:
    return [event for event in events if event.get("cat") == category and event["ph"] in "Xi"]


def check_form(events: list[Event]) -> None:
    timed = [event for event in events if event["ph"] != "M"]
    assert [event["ts"] for event in timed] == sorted(event["ts"] for event in timed)
    assert all(event["ts"] >= 0 for event in timed)
    named = {(event["name"], event["pid"], event["tid"]) for event in events if event["ph"] == "M"}
    assert {event["ph"] for event in events} <= set("MXCistf")
    numbers = [
        (event["tid"], event["name"]) for event in events if event["ph"] == "M" and "name" in event["args"]
    ]
    # A number is one process or one thread: readers take threads of equal number for one.
    assert len({number for number, _ in numbers}) == len(numbers)
    open_slices: dict[tuple[int, int], list[Event]] = defaultdict(list)
    arrows: dict[int, list[tuple[str, Event]]] = defaultdict(list)
    for event in timed:
        assert ("process_name", event["pid"], event["pid"]) in named
        if event["ph"] == "C":
            continue
        assert ("thread_name", event["pid"], event["tid"]) in named
        track = open_slices[event["pid"], event["tid"]]
        if event["ph"] == "X":
            while track and track[-1]["ts"] + track[-1]["dur"] <= event["ts"]:
                track.pop()
            for parent in track:
                assert event["ts"] + event["dur"] <= parent["ts"] + parent["dur"], (parent, event)
            track.append(event)
        elif event["ph"] in "stf":
            # Bound to the slice that was added last on its track, which must hold the moment.
            assert track[-1]["ts"] <= event["ts"] <= track[-1]["ts"] + track[-1]["dur"]
            assert event["ph"] == "s" or event["bp"] == "e"
            arrows[event["id"]].append((event["ph"], track[-1]))
    for steps in arrows.values():
        assert "".join(phase for phase, _ in steps) in ("st", "stf")
        assert [on["cat"] for _, on in steps] in (["request", "chunk"], ["request", "chunk", "playing"])
        assert len({on["args"]["stream"] for _, on in steps}) == 1


@pytest.fixture(scope="module")
def crowd() -> Recording:
    """Voices (some late), faces, an LLM that decodes and one that prefills, GPU, canary, engine, host."""
    builder = good_run(late_ms=1300.7, share=0.5, device="gpu", utterances=6, seconds=30)
    builder.scenario["load"]["prefill"] = {
        "tenant": "llm", "kind": "completions", "mode": "rate", "rate": "1/s", "prompt": 4096, "output": 1,
    }  # fmt: skip
    builder.scenario["stages"][1]["load"].append("prefill")
    for index in range(8):
        due = 50 * S + index * 2 * S + 123_457
        builder.asked("crowd", due, [700.0], load="prefill", done_ms=700.5, prompt_tokens=4096)
    builder.asked("crowd", 70 * S, [], load="prefill", done_ms=400.0, end="error", error_kind="timeout")
    for index in range(20):
        for metric in ("sm_percent", "sm_clock_mhz", "dram_percent"):
            lost = metric == "dram_percent" and 5 <= index < 9
            builder.rows["gpu"].append(
                {
                    "t0": index * S,
                    "t1": (index + 1) * S,
                    "gpu": "GPU-1",
                    "metric": metric,
                    "value": None if lost else 40.0 + index // 2,
                    "status": "stale" if lost else "ok",
                }
            )
        builder.rows["canary"].append({"t": index * S, "latency": MS + index, "device": "cuda:0"})
        builder.rows["engine"].append(
            {"t": index * S, "tenant": "llm", "metric": "running", "value": float(index)}
        )
    return builder.build()


@pytest.mark.parametrize("after", ["resume", "refill", "drop"])
@pytest.mark.parametrize("lookahead_ms", [0, 400, 5000])
def test_its_form_is_right_whatever_the_player(after: Any, lookahead_ms: int, crowd: Recording) -> None:
    check_form(events_of(trace(crowd, options(lookahead_ms, after_underrun=after))))


def test_it_holds_every_row_of_the_run(crowd: Recording) -> None:
    data = trace(crowd, options())
    events = events_of(data)
    assert trace(crowd, options()) == data
    rows = {name: table.num_rows for name, table in crowd.tables.items()}
    counts = Counter(event["cat"] for event in events if event["ph"] in "Xi")
    assert counts["request"] == rows["streams"]
    assert counts["chunk"] == rows["chunks"]
    assert counts["frame"] == rows["frames"]
    completions = [row for row in crowd.tables["streams"].to_pylist() if row["kind"] == "completions"]
    assert counts["prefill"] == len(completions)
    assert counts["decode"] == len(completions) - 1
    voices = list(every_voice(crowd, options()))
    assert counts["playback"] == sum(v.playback is not None and v.playback.began for v in voices)
    underruns = [event for v in voices if v.playback is not None for event in v.playback.events]
    assert counts["underrun"] == counts["stall"] == len(underruns) > 0
    t0 = json.loads(gzip.decompress(data))["otherData"]["t0_ns"]
    shown = sorted((event["ts"] + t0, event["dur"]) for event in rows_of(events, "stall"))
    assert shown == sorted((event.start_ns, event.duration_ns) for event in underruns)
    arrows = Counter(event["ph"] for event in events if event["ph"] in "stf")
    assert arrows == {"s": rows["chunks"], "t": rows["chunks"], "f": rows["chunks"]}
    heard = sum(event["dur"] for event in rows_of(events, "playing"))
    assert heard == sum(v.playback.heard_ns for v in voices if v.playback is not None)
    assert {event["name"] for event in rows_of(events, "stage")} == {"alone", "crowd", "alone/again"}
    assert len(rows_of(events, "measure")) == 3


def test_counters_have_units_and_gaps_are_shown(crowd: Recording) -> None:
    events = events_of(trace(crowd, options()))
    counters = [event for event in events if event["ph"] == "C"]
    assert {(event["name"], *event["args"]) for event in counters} >= {
        ("sm", "percent"), ("sm clock", "MHz"), ("dram", "percent"), ("canary latency", "ms"),
        ("engine running", "value"), ("listeners loop lag", "ms"),
    }  # fmt: skip
    # A value that repeats is written once.
    assert sum(event["name"] == "sm" for event in counters) == 10
    (gap,) = rows_of(events, "missing")
    assert (gap["name"], gap["dur"], gap["args"]) == ("stale", 4 * S, {"metric": "dram_percent", "rows": 4})


def test_what_an_engine_counted_is_shown_over_the_time_in_which_it_did() -> None:
    builder = Builder()
    for index in range(1, 5):
        for metric in ("running", "prompt_tokens"):
            builder.rows["engine"].append(
                {"t": index * S, "tenant": "llm", "metric": metric, "value": float(index)}
            )
    data = trace(builder.build(), options())
    t0 = json.loads(gzip.decompress(data))["otherData"]["t0_ns"]
    shown: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for event in events_of(data):
        if event["ph"] == "C":
            ((unit, value),) = event["args"].items()
            shown[event["name"], unit].append(((event["ts"] + t0) // S, value))
    assert shown["engine running", "value"] == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert shown["engine prompt_tokens", "tokens"] == [(0, 1), (1, 2), (2, 3), (3, 4)]


def table_of(events: list[Event]) -> sqlite3.Connection:
    """The slices as trace_processor lays them out, with its EXTRACT_ARG."""
    args: list[dict[str, Any]] = []

    def extract(number: int, name: str) -> Any:
        return args[number].get(name.removeprefix("args."))

    database = sqlite3.connect(":memory:")
    database.create_function("EXTRACT_ARG", 2, extract)
    database.execute("CREATE TABLE slice (ts INT, dur INT, category TEXT, name TEXT, arg_set_id INT)")
    for event in events:
        if event["ph"] == "X":
            row = (event["ts"], event["dur"], event["cat"], event["name"], len(args))
            database.execute("INSERT INTO slice VALUES (?, ?, ?, ?, ?)", row)
            args.append(event["args"])
    return database


def overlaps_of(recording: Recording) -> list[tuple[int, int]]:
    """(stream, seq) of the chunks that were made while a prefill ran, once for each prefill: by hand."""
    streams = {row["stream"]: row for row in recording.tables["streams"].to_pylist()}
    first: dict[int, int] = {}
    for row in recording.tables["tokens"].to_pylist():
        first[row["stream"]] = min(first.get(row["stream"], row["arrival"]), row["arrival"])
    prefills = [
        (row["sent"], first.get(row["stream"], row["done"]))
        for row in streams.values()
        if row["kind"] == "completions"
    ]
    found, before = [], {number: row["sent"] for number, row in streams.items()}
    for row in recording.tables["chunks"].to_pylist():
        start, end = before[row["stream"]], row["arrival"]
        found += [(row["stream"], row["seq"]) for begin, stop in prefills if begin < end and start < stop]
        before[row["stream"]] = end
    return found


def test_the_query_of_chunks_that_overlap_a_prefill(crowd: Recording) -> None:
    with table_of(events_of(trace(crowd, options()))) as database:
        found = database.execute(CHUNKS_THAT_OVERLAP_A_PREFILL).fetchall()
    database.close()
    assert found
    assert sorted((stream, seq) for _, stream, seq, *_ in found) == sorted(overlaps_of(crowd))
    assert all(0 < both <= made for *_, made, both, _ in found)


def test_trace_processor_reads_it_without_a_fault(crowd: Recording, tmp_path: Path) -> None:
    pytest.importorskip("perfetto", reason="the perfetto package is not installed")
    shell = shutil.which("trace_processor_shell")
    if shell is None:
        pytest.skip("trace_processor_shell is not on the PATH; the perfetto package would download it")
    processor = importlib.import_module("perfetto.trace_processor")
    path = tmp_path / "trace.json.gz"
    path.write_bytes(trace(crowd, options()))
    reader = processor.TraceProcessor(trace=str(path), config=processor.TraceProcessorConfig(bin_path=shell))
    try:
        lost = "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"
        assert [(row.name, row.value) for row in reader.query(lost)] == []
        count = "SELECT category, COUNT(*) AS n FROM slice GROUP BY category"
        counted = {row.category: row.n for row in reader.query(count)}
        assert counted["chunk"] == crowd.tables["chunks"].num_rows
        assert counted["request"] == crowd.tables["streams"].num_rows
        (arrows,) = reader.query("SELECT COUNT(*) AS n FROM flow")
        assert arrows.n == 2 * crowd.tables["chunks"].num_rows
        found = [(row.stream, row.seq) for row in reader.query(CHUNKS_THAT_OVERLAP_A_PREFILL)]
        assert sorted(found) == sorted(overlaps_of(crowd))
    finally:
        reader.close()


def test_a_big_run_shows_the_voices_that_stalled_in_full(crowd: Recording) -> None:
    data = trace(crowd, options(), detail_limit=200)
    events = events_of(data)
    check_form(events)
    kept = {event["args"]["stream"] for event in rows_of(events, "chunk")}
    stalled = sorted(
        (v for v in every_voice(crowd, options()) if v.playback is not None),
        key=lambda v: -(v.playback.stall_total_ns or 0) if v.playback is not None else 0,
    )
    assert kept == {v.row["stream"] for v in stalled[:10]}
    streams = len(
        set(crowd.tables["chunks"]["stream"].to_pylist() + crowd.tables["frames"]["stream"].to_pylist())
    )
    assert json.loads(gzip.decompress(data))["otherData"]["streams_without_chunk_slices"] == streams - 10
    # The voices themselves stay.
    assert len(rows_of(events, "request")) == crowd.tables["streams"].num_rows


def test_a_long_canary_keeps_the_slowest_of_each_tenth_of_a_second() -> None:
    builder = Builder()
    builder.rows["canary"] = [
        {"t": index * MS, "latency": MS * (1 + index % 7) + (index == 4321) * S, "device": "cuda:0"}
        for index in range(CANARY_POINTS + 1000)
    ]
    events = events_of(trace(builder.build(), options()))
    values = [event["args"]["ms"] for event in events if event["ph"] == "C"]
    assert len(values) <= (CANARY_POINTS + 1000) / 100 + 1
    assert max(values) == 1000.0 + 1 + 4321 % 7


def test_a_run_of_nothing_is_a_trace() -> None:
    builder = Builder()
    check_form(events_of(trace(builder.build(), options())))
    builder.voice("alone", 0, [], [], end="error")
    builder.voice("alone", S, [0.0, 1.0], [0.0, 100.0])
    builder.rows["streams"].append({"stream": LISTENERS + 99, "kind": "voices"})
    events = events_of(trace(builder.build(), options()))
    check_form(events)
    assert len(rows_of(events, "chunk")) == 2
    # A header is no audio: no arrow goes from it.
    assert Counter(event["ph"] for event in events if event["ph"] in "stf") == {"s": 1, "t": 1, "f": 1}


def test_hostile_names_are_text_and_no_longer_than_a_line() -> None:
    builder = Builder()
    evil = '</script>"\\\x00\u2028\ud800' + "x" * 5000
    number = builder.voice("alone", 0, [0.0], [100.0], error=evil)
    for row in builder.rows["streams"]:
        row.update(error=evil.replace("\ud800", ""), stage="<b>", load="=1+1")
    data = trace(builder.build(), options())
    assert b"</script>" in gzip.decompress(data)
    (request,) = rows_of(events_of(data), "request")
    assert request["args"]["stream"] == number
    assert len(request["args"]["error"]) == 200


def test_ten_thousand_underruns_in_one_voice() -> None:
    builder = Builder()
    builder.voice("alone", 0, (np.arange(10_000) * 20.0).tolist(), [10.0] * 10_000)
    events = events_of(trace(builder.build(), options(0)))
    check_form(events)
    assert len(rows_of(events, "underrun")) == 9_999


@given(st.integers(0, 10**14))
def test_no_nanosecond_is_lost_however_a_reader_rounds(value_ns: int) -> None:
    written = json.loads(json.dumps(microseconds(value_ns)))
    assert int(written * 1000.0) == value_ns
    assert round(written * 1000.0) == value_ns
    assert written == pytest.approx(value_ns / 1000, abs=2e-3)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=30))
def test_lanes_never_overlap_and_are_as_few_as_can_be(found: list[tuple[int, int]]) -> None:
    spans = sorted((start, start + length) for start, length in found)
    lane_of = lanes(spans)
    last: dict[int, int] = {}
    for lane, (start, end) in zip(lane_of, spans, strict=True):
        assert last.get(lane, 0) <= start
        last[lane] = end
    most = max((sum(a <= at < b for a, b in spans) for at, _ in spans), default=0)
    assert len(set(lane_of)) <= max(most, 1) if spans else not lane_of


def test_numbers_that_json_has_not_are_left_out() -> None:
    events = TraceEvents()
    pid = events.process("p")
    assert events.counter(pid, "x", "ms", [1, 2, 3, 4], [float("nan"), 1.0, float("inf"), 1.0]) == 1
    assert json.loads(gzip.decompress(events.gzipped({})))["traceEvents"][-1]["args"] == {"ms": 1.0}
