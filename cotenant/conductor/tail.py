"""The rows of a run directory as they are written, each whole batch once; no writer takes part in it."""

from pathlib import Path

import pyarrow as pa

from cotenant.run_dir.writer import TABLE_SUFFIX, TABLES_DIR


class Tail:
    """One table of a run that goes on, over all its writers."""

    def __init__(self, run_dir: Path, table: str) -> None:
        self._folder = run_dir / TABLES_DIR / table
        self._files: dict[str, _File] = {}

    def read(self) -> list[pa.RecordBatch]:
        """What was written since the last call, in each writer's order; a batch half written comes next time.

        Raises OSError, and ArrowException for what is no table.
        """
        try:
            names = sorted(path.name for path in self._folder.iterdir() if path.name.endswith(TABLE_SUFFIX))
        except FileNotFoundError:
            return []
        batches = []
        for name in names:
            file = self._files.setdefault(name, _File(self._folder / name))
            batches += file.read()
        return batches


class _File:
    """One Arrow stream and how far it has been read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset_bytes = 0
        self._schema: pa.Schema | None = None

    def read(self) -> list[pa.RecordBatch]:
        with self._path.open("rb") as file:
            file.seek(self._offset_bytes)
            data = file.read()
        source, batches = pa.BufferReader(data), []
        whole_bytes = 0
        while whole_bytes < len(data):
            try:
                message = pa.ipc.read_message(source)
            except (EOFError, OSError, pa.ArrowInvalid):
                break  # its end is not written yet, or it is the end of all
            if message.type == "schema":
                self._schema = pa.ipc.read_schema(message)
            elif self._schema is not None:
                batches.append(pa.ipc.read_record_batch(message, self._schema))
            whole_bytes = source.tell()
        self._offset_bytes += whole_bytes
        return batches
