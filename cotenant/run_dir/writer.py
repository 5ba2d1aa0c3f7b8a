"""RunWriter: appends one process's rows and audio to a run directory; a kill loses at most one flush."""

import os
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cotenant.records import TABLES

TABLES_DIR: Final = "tables"
AUDIO_DIR: Final = "audio"
TABLE_SUFFIX: Final = ".arrows"
AUDIO_SUFFIX: Final = ".pcm"

# https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format: continuation marker and a zero
# length.
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
# `streams` last: a stream's end must never be on disk before the arrivals that it speaks of.
_FLUSH_ORDER: Final = (*(name for name in TABLES if name != "streams"), "streams")


class RunWriter:
    """Rows of `cotenant.records.TABLES` -> `tables/<name>/<writer>.arrows`; audio -> `audio/<writer>.pcm`.

    Appending only fills memory; `flush` writes, and every write is one piece behind the last whole one.
    `writer` is unique in the run: an existing file is never written over (FileExistsError).
    `audio_limit_bytes` None or 0 keeps no audio. Not thread-safe.
    """

    def __init__(self, run_dir: Path, writer: str, audio_limit_bytes: int | None = 500_000_000) -> None:
        if not writer or writer.startswith(".") or "/" in writer or "\0" in writer:
            raise ValueError(f"{writer!r} cannot be the name of a file")
        self._run_dir = run_dir
        self._writer = writer
        self._columns: dict[str, dict[str, list[Any]]] = {
            table: {column: [] for column in schema.names} for table, schema in TABLES.items()
        }
        self._files: dict[str, _AppendFile] = {}
        self._audio_limit_bytes = audio_limit_bytes or 0
        self._audio_bytes = 0
        self._audio_pending: list[bytes] = []
        self._audio_file: _AppendFile | None = None
        self._closed = False

    def append(self, table: str, **row: Any) -> None:
        """Add one row; columns left out are null. Raises KeyError for an unknown table or column."""
        columns = self._columns[table]
        if not row.keys() <= columns.keys():
            raise KeyError(f"{table} has no column {', '.join(sorted(row.keys() - columns.keys()))}")
        get = row.get
        for name, values in columns.items():
            values.append(get(name))

    def append_audio(self, data: bytes | bytearray | memoryview) -> int | None:
        """Keep audio bytes; their offset in `audio/<writer>.pcm`, or None once the limit would be passed.

        After the first refusal nothing more is kept, so what is kept has no holes.
        """
        if self._audio_bytes + len(data) > self._audio_limit_bytes:
            self._audio_limit_bytes = 0
            return None
        offset = self._audio_bytes
        self._audio_pending.append(bytes(data))
        self._audio_bytes += len(data)
        return offset

    def flush(self) -> None:
        """Write what was appended: one Arrow record batch per table with rows. Call it once a second.

        Raises OSError when the disk refuses; the files then end with their last whole batch and the rows are
        still in memory. Raises ValueError for a value that its column cannot hold.
        """
        if self._closed:
            raise ValueError("the writer is closed")
        self._flush_audio()
        for table in _FLUSH_ORDER:
            self._flush_table(table)

    def close(self) -> None:
        """Flush, end the Arrow streams and close the files, which are closed also where the flush raises."""
        if self._closed:
            return
        try:
            self.flush()
            for file in self._files.values():
                file.write(_END_OF_STREAM)
        finally:
            self._closed = True
            for file in self._files.values():
                file.close()
            if self._audio_file is not None:
                self._audio_file.close()

    def _flush_audio(self) -> None:
        if not self._audio_pending:
            return
        if self._audio_file is None:
            self._audio_file = _AppendFile(self._run_dir / AUDIO_DIR / (self._writer + AUDIO_SUFFIX))
        self._audio_file.write(b"".join(self._audio_pending))
        self._audio_pending.clear()

    def _flush_table(self, table: str) -> None:
        columns = self._columns[table]
        if not next(iter(columns.values())):
            return
        schema = TABLES[table]
        arrays = [_array(table, schema.field(name), values) for name, values in columns.items()]
        batch = pa.record_batch(arrays, schema=schema)
        file = self._files.get(table)
        if file is None:
            file = _AppendFile(self._run_dir / TABLES_DIR / table / (self._writer + TABLE_SUFFIX))
            self._files[table] = file
        # The first batch goes out with the schema, in one write, so a table's file is never without rows.
        head = b"" if file.written_bytes else schema.serialize().to_pybytes()
        file.write(head + batch.serialize().to_pybytes())
        for values in columns.values():
            values.clear()


class _AppendFile:
    """A new file that only grows, by whole pieces: a piece that the disk takes in part is cut off again."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self.written_bytes = 0

    def write(self, piece: bytes) -> None:
        view = memoryview(piece)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            os.ftruncate(self._fd, self.written_bytes)
            os.lseek(self._fd, self.written_bytes, os.SEEK_SET)
            raise
        self.written_bytes += len(piece)

    def close(self) -> None:
        os.close(self._fd)


def _array(table: str, field: pa.Field, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values, type=field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ValueError(f"{table}.{field.name} ({field.type}) cannot hold a value: {error}") from error
