"""Recorded tables as numpy columns, and their rows grouped by stream; no loop over rows."""

from dataclasses import dataclass, fields
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cotenant.records import STREAMS_PER_PROCESS, TABLES, Recording

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.object_]

# Stands for null in an integer column: no time, size or count of a run is as low.
NULL: Final = -(2**62)

# Ids are dense enough for a look-up table up to this many load processes.
_LOOK_UP_LIMIT: Final = 64 * STREAMS_PER_PROCESS


def table(recording: Recording, name: str) -> pa.Table:
    """A table of the recording, empty where it is missing."""
    found = recording.tables.get(name)
    return TABLES[name].empty_table() if found is None else found


def ints(rows: pa.Table, name: str) -> Ints:
    """A column as int64, `NULL` where null; all `NULL` where the column is missing."""
    if name not in rows.column_names:
        return np.full(rows.num_rows, NULL, dtype=np.int64)
    column = rows.column(name)
    if column.type != pa.int64():
        column = column.cast(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, NULL)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def floats(rows: pa.Table, name: str) -> Floats:
    """A column as float64, NaN where null or missing."""
    if name not in rows.column_names:
        return np.full(rows.num_rows, np.nan)
    return np.asarray(rows.column(name).to_numpy(), dtype=np.float64)


def texts(rows: pa.Table, name: str) -> Texts:
    """A column as Python strings, `""` where null or missing."""
    if name not in rows.column_names:
        return np.full(rows.num_rows, "", dtype=np.object_)
    column = rows.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    return np.asarray(pc.fill_null(column, "").to_numpy(zero_copy_only=False), dtype=np.object_)


def flags(rows: pa.Table, name: str) -> NDArray[np.int8]:
    """A bool column as 0, 1 and -1 for null."""
    if name not in rows.column_names:
        return np.full(rows.num_rows, -1, dtype=np.int8)
    column = pc.fill_null(rows.column(name).cast(pa.int8()), -1)
    return np.asarray(column.to_numpy(), dtype=np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """The columns of `streams` that a verdict reads, one element a stream. Times in ns, `NULL` for
    unknown."""

    stream: Ints
    round: Ints
    listener: Ints
    utterance: Ints
    due: Ints
    connected: Ints
    sent: Ints
    done: Ints
    delayed: Ints
    leading_silence: Ints
    prompt_tokens: Ints
    load: Texts
    stage: Texts
    end: Texts
    error_kind: Texts
    stamp: Texts

    def __len__(self) -> int:
        return len(self.stream)

    def take(self, rows: NDArray[Any]) -> Self:
        """Those rows (indices or a mask)."""
        return type(self)(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


_TEXT_COLUMNS: Final = frozenset({"load", "stage", "end", "error_kind", "stamp"})


def read_streams(recording: Recording) -> Streams:
    """All streams of the recording, in the order of the table."""
    rows = table(recording, "streams")
    read: dict[str, Any] = {
        field.name: texts(rows, field.name) if field.name in _TEXT_COLUMNS else ints(rows, field.name)
        for field in fields(Streams)
    }
    return Streams(**read)


def group(row_stream: Ints, streams: Ints) -> tuple[Ints | slice, Ints]:
    """Rows sorted by the position of their stream in `streams`: (order of the rows, offsets[len(streams) +
    1]).

    Rows of other streams are left out; rows of one stream keep their order. The order is a slice where the
    rows lie sorted already, as a run directory is read, so that nothing is copied.
    """
    position = _positions(row_stream, streams)
    size = len(streams)
    if len(position) and position[0] >= 0 and bool((position[1:] >= position[:-1]).all()):
        counts = np.bincount(position, minlength=size)
        return slice(0, len(position)), np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    kept = np.flatnonzero(position >= 0)
    wanted = position[kept]
    counts = np.bincount(wanted, minlength=size)
    if not bool((wanted[1:] >= wanted[:-1]).all()):
        # One sort of (position, row) packed in an int64 is several times faster than a stable argsort.
        packed = (wanted.astype(np.int64) << 32) | kept
        packed.sort()
        kept = packed & 0xFFFFFFFF
    return kept, np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _positions(row_stream: Ints, streams: Ints) -> NDArray[np.int32]:
    """Index of each row's stream in `streams`, -1 for none."""
    if not len(streams) or not len(row_stream):
        return np.full(len(row_stream), -1, dtype=np.int32)
    low, high = int(streams.min()), int(streams.max())
    if high - low < _LOOK_UP_LIMIT:
        look_up = np.full(high - low + 3, -1, dtype=np.int32)
        look_up[streams - low + 1] = np.arange(len(streams), dtype=np.int32)
        return look_up[np.clip(row_stream - (low - 1), 0, high - low + 2)]
    order = np.argsort(streams, kind="stable")
    found = np.minimum(np.searchsorted(streams[order], row_stream), len(streams) - 1)
    return np.where(streams[order][found] == row_stream, order[found], -1).astype(np.int32)


def owner(offsets: Ints) -> Ints:
    """For rows grouped by `offsets`: the index of each row's group."""
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))


def rows_of(offsets: Ints, groups: Ints) -> Ints:
    """Indices of all rows of some groups, group after group."""
    counts = np.diff(offsets)[groups]
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    rows: Ints = np.arange(total, dtype=np.int64) + np.repeat(offsets[:-1][groups] - (ends - counts), counts)
    return rows


def first_of(values: Ints, offsets: Ints) -> Ints:
    """The first value of each group, `NULL` for an empty one."""
    return _at(values, offsets[:-1], offsets)


def last_of(values: Ints, offsets: Ints) -> Ints:
    """The last value of each group, `NULL` for an empty one."""
    return _at(values, offsets[1:] - 1, offsets)


def sum_of(values: Ints, offsets: Ints) -> Ints:
    """The sum of each group, 0 for an empty one."""
    total = np.concatenate(([0], np.cumsum(values)))
    return np.asarray(total[offsets[1:]] - total[offsets[:-1]], dtype=np.int64)


def max_of(values: Ints, offsets: Ints) -> Ints:
    """The largest value of each group, `NULL` for an empty one."""
    result = np.full(len(offsets) - 1, NULL, dtype=np.int64)
    some = np.flatnonzero(np.diff(offsets))
    if len(some):
        result[some] = np.maximum.reduceat(values, offsets[:-1][some])
    return result


def _at(values: Ints, rows: Ints, offsets: Ints) -> Ints:
    result = np.full(len(offsets) - 1, NULL, dtype=np.int64)
    some = np.flatnonzero(np.diff(offsets))
    result[some] = values[rows[some]]
    return result
