"""What RunWriter wrote is what the reader gives, in the order and with the endings that it promises."""

import random
from pathlib import Path
from typing import Any

import pytest

from cotenant.records import TABLES, Recording
from cotenant.run_dir import manifest, reader
from cotenant.run_dir.writer import RunWriter


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    manifest.write(tmp_path, {"schema": 1, "tool": "cotenant", "run_id": "r"})
    return tmp_path


def rows(recording: Recording, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in recording.tables[table].to_pylist()]


def test_a_run_without_tables_has_every_table_empty(run_dir: Path) -> None:
    recording = reader.read(run_dir)
    assert recording.manifest["run_id"] == "r"
    for name, schema in TABLES.items():
        assert len(recording.tables[name]) == 0
        assert recording.tables[name].select(schema.names).schema == schema
    assert recording.tables["chunks"].schema.names == [*TABLES["chunks"].names, "writer"]


def test_every_column_of_every_table_comes_back_and_what_was_left_out_is_null(run_dir: Path) -> None:
    samples: dict[str, Any] = {
        "int64": 2**62,
        "int32": 7,
        "double": 0.1,
        "string": "a\u00e9\n",
        "bool": True,
    }
    writer = RunWriter(run_dir, "w")
    full = {name: {f.name: samples[str(f.type)] for f in schema} for name, schema in TABLES.items()}
    for name, row in full.items():
        writer.append(name, **row)
    writer.append("host", t=2**62 + 1)
    writer.close()
    recording = reader.read(run_dir)
    for name, row in full.items():
        read = recording.tables[name].to_pylist()[0]
        assert {column: read[column] for column in row} == row
    assert rows(recording, "host", "source", "metric", "value")[1] == (None, None, None)


def test_flush_writes_one_batch_a_table_and_nothing_when_there_is_nothing(run_dir: Path) -> None:
    writer = RunWriter(run_dir, "w")
    writer.flush()
    assert not (run_dir / "tables").exists()
    for t in (1, 2):
        writer.append("host", t=t)
        writer.flush()
        assert rows(reader.read(run_dir), "host", "t") == [(k,) for k in range(1, t + 1)]
    size = (run_dir / "tables/host/w.arrows").stat().st_size
    writer.flush()
    assert (run_dir / "tables/host/w.arrows").stat().st_size == size
    writer.close()
    writer.close()


def test_unknown_names_and_wrong_values_raise(run_dir: Path) -> None:
    writer = RunWriter(run_dir, "w")
    with pytest.raises(KeyError, match="host has no column speed"):
        writer.append("host", t=1, speed=3)
    with pytest.raises(KeyError):
        writer.append("nothing", t=1)
    writer.append("host", t=1)
    writer.flush()
    writer.append("host", t="late")
    with pytest.raises(ValueError, match=r"host\.t \(int64\) cannot hold"):
        writer.flush()
    with pytest.raises(ValueError, match="cannot hold"):
        writer.close()
    assert rows(reader.read(run_dir), "host", "t") == [(1,)]
    with pytest.raises(ValueError, match="closed"):
        writer.flush()


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a\0"])
def test_a_writer_needs_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="name of a file"):
        RunWriter(tmp_path, name)


def test_a_recorded_file_is_never_written_over(run_dir: Path) -> None:
    for _ in range(2):
        writer = RunWriter(run_dir, "w")
        writer.append("host", t=1)
        if (run_dir / "tables/host/w.arrows").exists():
            with pytest.raises(FileExistsError):
                writer.close()
        else:
            writer.close()
    assert rows(reader.read(run_dir), "host", "t") == [(1,)]


def test_the_last_row_of_a_stream_wins_and_streams_ascend(run_dir: Path) -> None:
    writer = RunWriter(run_dir, "w")
    for stream in (5, 3, 4):
        writer.append("streams", stream=stream, sent=stream, stage="one")
    writer.flush()
    for stream in (3, 5, 4):
        writer.append("streams", stream=stream, sent=stream, end="eos", done=stream + 10)
    writer.close()
    read = rows(reader.read(run_dir), "streams", "stream", "stage", "end", "error_kind", "done")
    assert read == [(s, None, "eos", None, s + 10) for s in (3, 4, 5)]


def test_a_stream_without_an_end_is_truncated_when_its_own_writer_was_last_seen(run_dir: Path) -> None:
    first, second = RunWriter(run_dir, "first"), RunWriter(run_dir, "second")
    first.append("streams", stream=1, due=10**9, sent=10)
    first.append("chunks", stream=1, seq=0, arrival=20)
    first.append("host", t=35, source="first", metric="cpu_s", value=0.5)
    second.append("streams", stream=1_000_001, sent=15)
    second.append("streams", stream=1_000_002, sent=16, end="error", error_kind="refused", done=17)
    second.append("tokens", stream=1_000_001, seq=0, arrival=90, tokens=1)
    first.flush()
    second.flush()
    read = rows(reader.read(run_dir), "streams", "stream", "end", "error_kind", "done", "sent")
    assert read == [
        (1, "truncated", "truncated", 35, 10),
        (1_000_001, "truncated", "truncated", 90, 15),
        (1_000_002, "error", "refused", 17, 16),
    ]
    first.close()
    second.close()


def test_chunks_are_by_stream_arrival_seq_and_a_later_row_replaces_an_earlier(run_dir: Path) -> None:
    rng = random.Random(3)
    model: dict[tuple[int, int], tuple[int, int, str]] = {}
    writers = {name: RunWriter(run_dir, name) for name in ("a", "b")}
    for index, (name, writer) in enumerate(writers.items()):
        for n in range(600):
            stream, seq = index * 1_000_000 + rng.randrange(5), rng.randrange(60)
            # Streams 0 and 1 arrive in order of time, the others in any order and with equal times.
            arrival = n if stream % 1_000_000 < 2 else rng.randrange(40)
            writer.append("chunks", stream=stream, seq=seq, arrival=arrival, bytes=n)
            model[stream, seq] = (arrival, n, name)
            if n % 97 == 0:
                writer.flush()
        for k in range(5):
            writer.append("streams", stream=index * 1_000_000 + k, sent=1, end="eos")
        writer.close()
    expected = sorted((s, a, q, n, name) for (s, q), (a, n, name) in model.items())
    assert rows(reader.read(run_dir), "chunks", "stream", "arrival", "seq", "bytes", "writer") == expected


def test_more_streams_than_one_radix_pass_holds(run_dir: Path) -> None:
    writer = RunWriter(run_dir, "w")
    count = (1 << 16) + 10
    for seq in (0, 1):
        for stream in range(count):
            writer.append("tokens", stream=(stream * 7919) % count, seq=seq, arrival=seq)
    for stream in range(count):
        writer.append("streams", stream=stream, end="eos")
    writer.close()
    table = reader.read(run_dir).tables["tokens"]
    assert table["stream"].to_pylist() == [s for s in range(count) for _ in (0, 1)]
    assert table["seq"].to_pylist() == [0, 1] * count


def test_repeated_frames_stay_and_rows_of_unnamed_streams_do_not(run_dir: Path) -> None:
    writer = RunWriter(run_dir, "w")
    writer.append("streams", stream=2, end="eos")
    for stream in (9, 2, 1):
        for seq in (1, 0, 0):
            writer.append("frames", stream=stream, seq=seq, arrival=5)
        writer.append("chunks", stream=stream, seq=0, arrival=5)
    writer.close()
    recording = reader.read(run_dir)
    assert rows(recording, "frames", "stream", "seq") == [(2, 0), (2, 0), (2, 1)]
    assert rows(recording, "chunks", "stream") == [(2,)]


def test_tables_without_streams_are_by_time_over_all_writers(run_dir: Path) -> None:
    for name, times in (("b", (3, 1)), ("a", (2, 1))):
        writer = RunWriter(run_dir, name)
        for t in times:
            writer.append("marks", t=t, name=f"{name}{t}")
            writer.append("gpu", t0=t, t1=t + 1, gpu=name)
        writer.close()
    recording = reader.read(run_dir)
    assert rows(recording, "marks", "name") == [("a1",), ("b1",), ("a2",), ("b3",)]
    assert rows(recording, "gpu", "t0") == [(1,), (1,), (2,), (3,)]


def test_audio_is_joined_by_whole_samples(run_dir: Path) -> None:
    writer = RunWriter(run_dir, "w", audio_limit_bytes=100)
    for stream, kept in ((1, True), (2, True), (3, False)):
        writer.append("streams", stream=stream, end="eos", rate_hz=24_000, sample_format="s16")
        writer.append("chunks", stream=stream, seq=0, arrival=0, media=0, bytes=44)  # a WAV header
        for seq in (1, 2):
            # 3 samples, handed over with one byte of a header or of the sample before.
            offset = writer.append_audio(bytes([0, *([stream * 16 + seq] * 6)])) if kept else None
            at = None if offset is None else offset + 1
            writer.append(
                "chunks", stream=stream, seq=seq, arrival=seq, media=125_000, bytes=7, audio_offset=at
            )
    writer.append("streams", stream=4, end="eos", rate_hz=24_000, sample_format="s16")
    writer.append(
        "chunks", stream=4, seq=0, arrival=0, media=125_000, bytes=6, audio_offset=28
    )  # beyond the file
    writer.close()
    recording = reader.read(run_dir)
    assert reader.read_audio(run_dir, recording, 1) == bytes([17] * 6 + [18] * 6)
    assert reader.read_audio(run_dir, recording, 2) == bytes([33] * 6 + [34] * 6)
    assert [reader.read_audio(run_dir, recording, stream) for stream in (3, 4, 5)] == [None] * 3
    (run_dir / "audio/w.pcm").unlink()
    assert reader.read_audio(run_dir, recording, 1) is None


def test_audio_ends_at_the_limit_and_has_no_holes(run_dir: Path) -> None:
    writer = RunWriter(run_dir, "w", audio_limit_bytes=10)
    assert [writer.append_audio(bytes(n)) for n in (6, 4, 1)] == [0, 6, None]
    writer.close()
    assert (run_dir / "audio/w.pcm").stat().st_size == 10
    writer = RunWriter(run_dir, "x", audio_limit_bytes=10)
    assert [writer.append_audio(bytes(n)) for n in (6, 5, 1)] == [0, None, None]
    writer.close()
    off = RunWriter(run_dir, "off", audio_limit_bytes=None)
    assert off.append_audio(b"ab") is None
    off.close()
    assert not (run_dir / "audio/off.pcm").exists()


def test_audio_kept_after_the_fact_replaces_the_rows_without(run_dir: Path) -> None:
    writers = [
        RunWriter(run_dir, "w", audio_limit_bytes=4),
        RunWriter(run_dir, "w-late", audio_limit_bytes=40),
    ]
    samples = [b"aabb", b"cc"]
    for writer in writers:
        for seq, data in enumerate(samples):
            writer.append(
                "chunks", stream=1, seq=seq, arrival=seq, media=len(data) // 2 * 10**6, bytes=len(data),
                audio_offset=writer.append_audio(data),
            )  # fmt: skip
    writers[0].append("streams", stream=1, end="eos", rate_hz=1000, sample_format="s16")
    for writer in reversed(writers):
        writer.close()
    recording = reader.read(run_dir)
    assert rows(recording, "chunks", "seq", "audio_offset", "writer") == [(0, 0, "w-late"), (1, 4, "w-late")]
    assert reader.read_audio(run_dir, recording, 1) == b"aabbcc"
