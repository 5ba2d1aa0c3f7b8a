"""The trace: its own rules (order, nesting, arrows), its counts against the run's rows."""

import gzip
import json
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.records import Recording
from cotenant.report.lanes import lanes
from cotenant.report.listening import every_voice
from cotenant.report.perfetto import trace
from cotenant.report.trace_counters import CANARY_POINTS
from cotenant.report.trace_events import TraceEvents, microseconds
from tests.report.traces import check_form, crowd_run, events_of, options, rows_of
from tests.verdict.recordings import LISTENERS, MS, Builder, S


@pytest.fixture(scope="module")
def crowd() -> Recording:
    return crowd_run()


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
