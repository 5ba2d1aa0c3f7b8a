"""Run directory -> Recording: every whole batch that was written; a torn tail is left out."""

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cotenant.errors import UserError
from cotenant.records import TABLES, Recording
from cotenant.run_dir import manifest as manifest_file
from cotenant.run_dir import order
from cotenant.run_dir.writer import AUDIO_DIR, AUDIO_SUFFIX, TABLE_SUFFIX, TABLES_DIR
from cotenant.units import NS_PER_S

_BYTES_PER_SAMPLE: Final = {"s16": 2, "f32": 4}
_ARRIVAL_TABLES: Final = ("chunks", "frames", "tokens")
# Columns that say a writer was alive then; `due` is none of them, it may lie ahead.
_SEEN_COLUMNS: Final = ("sent", "first_byte", "done", "arrival", "t", "t1")
_WRITER_TYPE: Final = pa.dictionary(pa.int32(), pa.string())
_CONTINUATION: Final = b"\xff\xff\xff\xff"

_ByWriter = Mapping[str, pa.Table]


def read(path: Path) -> Recording:
    """Read a run directory, running, killed or complete.

    Where a later row wins, it is later in its file, or in the file of a writer whose name sorts later.
    `streams` has one row a stream, ascending; one without an end row has end and error_kind `truncated` and
    `done` the last time its writer is known to have been alive. `chunks` (one row a (stream, seq), and a
    dictionary column `writer`), `frames` and `tokens` are ordered by (stream, arrival, seq) and hold rows of
    known streams only: what a killed writer had not yet named is left out. Other tables are ordered by time.
    Raises UserError for what is not a run of this schema.
    """
    manifest = manifest_file.read(path)
    written = {name: _read_table(path, name) for name in TABLES}
    streams = _streams(written)
    tables: dict[str, pa.Table] = {}
    for name in TABLES:
        if name == "streams":
            tables[name] = streams
        elif name in _ARRIVAL_TABLES:
            tables[name] = _arrivals(name, written[name], streams["stream"].combine_chunks())
        else:
            tables[name] = _timed(name, written[name])
        del written[name]
    return Recording(manifest=manifest, tables=tables)


def read_audio(path: Path, recording: Recording, stream: int) -> bytes | None:
    """A stream's samples as received, in its own rate and format; None where not all of them were kept or
    can be read."""
    streams, chunks = recording.tables["streams"], recording.tables["chunks"]
    row = streams.filter(pc.equal(streams["stream"], stream)).to_pylist()
    if not row or row[0]["rate_hz"] is None or row[0]["sample_format"] not in _BYTES_PER_SAMPLE:
        return None
    rate_hz, sample_bytes = row[0]["rate_hz"], _BYTES_PER_SAMPLE[row[0]["sample_format"]]
    rows = chunks.filter(
        pc.and_(pc.equal(chunks["stream"], stream), pc.greater(chunks["media"], 0))
    ).to_pylist()
    if not rows or any(row["audio_offset"] is None for row in rows):
        return None
    pieces = []
    with contextlib.ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for row in rows:
            writer = row["writer"]
            # Not `bytes`: a message may begin with a header or within a sample.
            size = round(row["media"] * rate_hz / NS_PER_S) * sample_bytes
            try:
                if writer not in files:
                    audio = path / AUDIO_DIR / (writer + AUDIO_SUFFIX)
                    if not audio.is_file():  # a pipe would be waited for, for ever
                        return None
                    files[writer] = stack.enter_context(audio.open("rb"))
                piece = os.pread(files[writer].fileno(), size, row["audio_offset"])
            except (OSError, ValueError, OverflowError):
                return None
            if len(piece) < size:
                return None
            pieces.append(piece)
    return b"".join(pieces)


def _read_table(path: Path, name: str) -> _ByWriter:
    folder = path / TABLES_DIR / name
    try:
        found = [file for file in folder.iterdir() if file.name.endswith(TABLE_SUFFIX)]
    except FileNotFoundError:
        found = []
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror}") from None
    files = {file.name.removesuffix(TABLE_SUFFIX): file for file in found}
    # By the writers' names, not the files': which of two rows is the later one must not hang on the suffix.
    return {writer: _read_file(files[writer], TABLES[name]) for writer in sorted(files)}


def _read_file(file: Path, schema: pa.Schema) -> pa.Table:
    """The whole batches of one Arrow stream, memory-mapped: no column is copied before it is sorted."""
    try:
        # Anything but a file may be there for ever without a byte to read.
        if not stat.S_ISREG(file.stat().st_mode):
            raise UserError(f"{file} cannot be read as a table of a run: it is not a file")
        if _has_no_schema_yet(file):
            return schema.empty_table()
        with pa.memory_map(str(file)) as source:
            reader = pa.ipc.open_stream(source)
            missing = _missing_columns(file, reader.schema, schema)
            batches = _whole_batches(reader)
            table = pa.Table.from_batches(batches, schema=reader.schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read as a table of a run: {error}") from None
    for name in missing:
        table = table.append_column(schema.field(name), pa.nulls(len(table), schema.field(name).type))
    return pa.Table.from_arrays([table[name] for name in schema.names], schema=schema)


def _whole_batches(reader: pa.RecordBatchReader) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = []
    while True:
        try:
            batch = reader.read_next_batch()
            batch.validate(full=True)
        except (StopIteration, pa.ArrowException, OSError, ValueError):
            return batches
        batches.append(batch)


def _has_no_schema_yet(file: Path) -> bool:
    """Whether a writer was killed within its first write: the file ends inside the schema's message."""
    with file.open("rb") as source:
        head = source.read(8)
        size = os.fstat(source.fileno()).st_size
    if len(head) < 8:
        return head[:4] == _CONTINUATION[: len(head)]
    return head[:4] == _CONTINUATION and size < 8 + int.from_bytes(head[4:8], "little") < 1 << 20


def _missing_columns(file: Path, found: pa.Schema, expected: pa.Schema) -> list[str]:
    """Columns that were added after the file was recorded. Raises UserError if the file is another table."""
    for field in found:
        if field.name not in expected.names or expected.field(field.name).type != field.type:
            raise UserError(
                f"{file} is not a table that this version knows: column {field.name} ({field.type})"
            )
    if len(set(found.names)) < len(found.names) or expected.names[0] not in found.names:
        raise UserError(
            f"{file} is not a table that this version knows: no single column {expected.names[0]}"
        )
    return [name for name in expected.names if name not in found.names]


def _take(table: pa.Table, rows: order.IntArray) -> pa.Table:
    """`table.take(rows)` by columns: one copy of one column is the most that is held beside the result."""
    if len(rows) == len(table) and bool((rows[1:] > rows[:-1]).all()):
        return table
    indices = pa.array(rows)
    columns = [table[name].combine_chunks().take(indices) for name in table.column_names]
    return pa.table(columns, schema=table.schema)


def _streams(written: Mapping[str, _ByWriter]) -> pa.Table:
    writers = list(written["streams"])
    if not writers:
        return TABLES["streams"].empty_table()
    table = pa.concat_tables(written["streams"].values())
    lengths = [len(part) for part in written["streams"].values()]
    last_seen = np.array([_last_seen_ns(written, writer) for writer in writers], dtype=np.int64)
    table = table.append_column("last_seen", pa.array(np.repeat(last_seen, lengths)))
    table = _take(table, order.last_per_stream(table["stream"].combine_chunks()))
    cut = pc.is_null(table["end"])
    for name, value in (("end", "truncated"), ("error_kind", "truncated"), ("done", table["last_seen"])):
        column = pc.if_else(cut, value, table[name])
        table = table.set_column(table.schema.get_field_index(name), TABLES["streams"].field(name), column)
    return table.select(TABLES["streams"].names)


def _last_seen_ns(written: Mapping[str, _ByWriter], writer: str) -> int:
    times = [0]
    for by_writer in written.values():
        table = by_writer.get(writer)
        if table is not None:
            times += [
                pc.max(table[name]).as_py() or 0 for name in _SEEN_COLUMNS if name in table.column_names
            ]
    return max(times)


def _arrivals(name: str, by_writer: _ByWriter, known: pa.Array) -> pa.Table:
    table = pa.concat_tables([TABLES[name].empty_table(), *by_writer.values()])
    if name == "chunks":
        lengths = [len(part) for part in by_writer.values()]
        indices = pa.array(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths))
        names = pa.array(list(by_writer), type=pa.string())
        table = table.append_column(
            "writer", pa.DictionaryArray.from_arrays(indices, names).cast(_WRITER_TYPE)
        )
    keys = (table[key].combine_chunks() for key in ("stream", "seq", "arrival"))
    return _take(table, order.by_stream(*keys, known=known, unique=name == "chunks"))


def _timed(name: str, by_writer: _ByWriter) -> pa.Table:
    table = pa.concat_tables([TABLES[name].empty_table(), *by_writer.values()])
    return _take(table, order.by_time(table[TABLES[name].names[0]].combine_chunks()))
