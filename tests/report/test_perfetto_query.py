"""The trace's query of chunks that overlap a prefill, by a database of ours and by the reader itself."""

import importlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from cotenant.records import Recording
from cotenant.report.perfetto import CHUNKS_THAT_OVERLAP_A_PREFILL, trace
from tests.report.traces import Event, crowd_run, events_of, options


@pytest.fixture(scope="module")
def crowd() -> Recording:
    return crowd_run()


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
