"""CSV text -> columns of exact nanoseconds and of words: fast where all is well, by the row where not."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from cotenant.errors import UserError
from cotenant.playback.arrivals import Int64Array
from cotenant.playback.csv_cells import choices, exact_ns, is_text, shown
from cotenant.units import NS_PER_MS

# Below this float64 milliseconds round to the nanosecond that was written: two roundings of 2^-53 each.
_FLOAT_IS_EXACT_NS: Final = 2.0**51

# What is looked at in one go when something is wrong.
_PIECE_BYTES: Final = 1 << 22

_BOM: Final = b"\xef\xbb\xbf"
_SOMETHING: Final = re.compile(rb"\S")
_LINE_END: Final = re.compile(rb"\r\n?|\n")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Words:
    """A column of words: `values[codes[i]]` is that of row i; in order of first appearance, each once."""

    codes: Int64Array
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """The columns that were asked for. `times_ns` by name; `words` only those that the file has."""

    rows: int
    times_ns: Mapping[str, Int64Array]
    words: Mapping[str, Words]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Where things are: names by column number, the byte after the header and the header's line."""

    times: Mapping[str, int]
    words: Mapping[str, int]
    allowed: Mapping[str, frozenset[str] | None]
    width: int
    body_at: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Some whole lines of the data, and the numbers of the first row and line in it."""

    begin: int
    stop: int
    row: int
    line: int


def read_columns(
    data: bytes, times: Sequence[str], words: Mapping[str, frozenset[str] | None], *, source: str
) -> Columns:
    """The columns `times` (decimal milliseconds, never negative) and, where the file has them, `words`.

    `words` says which values a column may have (None: any but an empty one). A byte-order mark, any line
    end, blank lines, further columns and any order of columns are accepted. Times below 26 days are exact to
    the nanosecond by float64, longer ones by decimal arithmetic; digits below a nanosecond are rounded.
    Raises UserError, with the row and the line, for what is not such a table; `source` names it there.
    """
    layout = _layout(data, times, words, source)
    if _SOMETHING.search(data, layout.body_at) is None:
        none = np.zeros(0, np.int64)
        return Columns(
            rows=0,
            times_ns={name: none for name in times},
            words={name: Words(codes=none, values=()) for name in layout.words},
        )
    body = _Piece(begin=layout.body_at, stop=len(data), row=1, line=layout.line)
    columns = _read_fast(data, layout, body)
    if columns is None:
        for piece in _suspects(data, layout):
            _read_by_row(data, layout, piece, source)
        columns = _read_by_row(data, layout, body, source)
    return columns


def _layout(
    data: bytes, times: Sequence[str], words: Mapping[str, frozenset[str] | None], source: str
) -> _Layout:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise UserError(f"{source} is UTF-16 text; save it as UTF-8")
    start = len(_BOM) if data.startswith(_BOM) else 0
    something = _SOMETHING.search(data, start)
    if something is None:
        raise UserError(f"{source} is empty; its first line must name the columns: {','.join(times)}")
    before = [match.end() for match in _LINE_END.finditer(data, start, something.start())]
    begin = before[-1] if before else start
    end = _LINE_END.search(data, begin)
    stop = end.start() if end else len(data)
    text = (
        data[begin : min(stop, begin + 65_536)]
        .decode("utf-8", "replace")
        .replace("\0", "\N{REPLACEMENT CHARACTER}")
    )
    header = [name.strip().strip('"') for name in next(csv.reader([text]), [])]
    for name in times:
        if name not in header:
            found = ascii(", ".join(header))[:200]
            hint = "" if "," in text else "; columns are separated by commas"
            raise UserError(f"{source} has no column {name!r}; its first line is {found}{hint}")
    for name in (*times, *words):
        if header.count(name) > 1:
            raise UserError(f"{source} has the column {name!r} {header.count(name)} times")
    return _Layout(
        times={name: header.index(name) for name in times},
        words={name: header.index(name) for name in words if name in header},
        allowed=words,
        width=len(header),
        body_at=stop,
        line=len(before) + 1,
    )


def _suspects(data: bytes, layout: _Layout) -> Iterator[_Piece]:
    """The pieces of which some row needs a closer look: what is wrong is found without a slow pass over all.

    A piece ends with a line, and with as many quotes opened as closed.
    """
    begin, row, line = layout.body_at, 1, layout.line
    while begin < len(data):
        stop = _line_end(data, begin + _PIECE_BYTES)
        quotes = data.count(b'"', begin, stop)
        while quotes % 2 and stop < len(data):
            after = _line_end(data, stop)
            quotes += data.count(b'"', stop, after)
            stop = after
        piece = _Piece(begin=begin, stop=stop, row=row, line=line)
        columns = _read_fast(data, layout, piece)
        if columns is None:
            yield piece
            row += sum(1 for _ in _rows(data, piece, ""))
        else:
            row += columns.rows
        line += sum(1 for _ in _LINE_END.finditer(data, begin, stop))
        begin = stop


def _line_end(data: bytes, at: int) -> int:
    """The byte after the first line feed from `at` on, or the end."""
    return data.find(b"\n", min(at, len(data))) + 1 or len(data)


def _read_fast(data: bytes, layout: _Layout, piece: _Piece) -> Columns | None:
    """All at once; None where any row needs a closer look."""
    names = [f"c{number}" for number in range(layout.width)]
    wanted = {names[at]: pa.float64() for at in layout.times.values()}
    wanted |= {names[at]: pa.dictionary(pa.int32(), pa.string()) for at in layout.words.values()}
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(pa.py_buffer(data)[piece.begin : piece.stop]),
            read_options=pa_csv.ReadOptions(column_names=names, block_size=1 << 24),
            convert_options=pa_csv.ConvertOptions(
                column_types=wanted, include_columns=list(wanted), null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    times_ns = {}
    for name, at in layout.times.items():
        with np.errstate(over="ignore"):  # an infinity is refused below
            value_ns = table[names[at]].to_numpy() * NS_PER_MS
        # NaN fails both comparisons.
        if not bool(((value_ns >= 0) & (value_ns < _FLOAT_IS_EXACT_NS)).all()):
            return None
        times_ns[name] = np.rint(value_ns).astype(np.int64)
    words = {}
    for name, at in layout.words.items():
        column = table[names[at]].unify_dictionaries()
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])
        found = _words(codes, column.chunk(0).dictionary.to_pylist())
        if not all(_may_be(word, layout.allowed[name]) for word in found.values):
            return None
        words[name] = found
    return Columns(rows=table.num_rows, times_ns=times_ns, words=words)


def _words(codes: np.ndarray[tuple[int, ...], np.dtype[np.int32]], values: Sequence[str]) -> Words:
    numbers: dict[str, int] = {}
    new = np.array([numbers.setdefault(word.strip(), len(numbers)) for word in values], np.int64)
    return Words(codes=new[codes], values=tuple(numbers))


def _may_be(word: str, allowed: frozenset[str] | None) -> bool:
    return bool(word) if allowed is None else word in allowed


def _read_by_row(data: bytes, layout: _Layout, piece: _Piece, source: str) -> Columns:
    """The same, one row after the other: finds the first that is wrong, or parses what needs decimals."""
    times: dict[str, list[int]] = {name: [] for name in layout.times}
    codes: dict[str, list[int]] = {name: [] for name in layout.words}
    numbers: dict[str, dict[str, int]] = {name: {} for name in layout.words}
    row = 0
    for row, (line, fields) in enumerate(_rows(data, piece, source), start=piece.row):
        where = f"{source}, row {row} (line {line})"
        if len(fields) != layout.width:
            raise UserError(f"{where}: {len(fields)} fields, but the first line names {layout.width} columns")
        for name, at in layout.times.items():
            times[name].append(exact_ns(fields[at].strip(), name, where))
        for name, at in layout.words.items():
            word = fields[at].strip()
            if not _may_be(word, layout.allowed[name]) or not is_text(word):
                raise UserError(f"{where}: {name} is {shown(word)}{choices(layout.allowed[name])}")
            codes[name].append(numbers[name].setdefault(word, len(numbers[name])))
    return Columns(
        rows=max(0, row - piece.row + 1),
        times_ns={name: np.array(values, np.int64) for name, values in times.items()},
        words={
            name: Words(codes=np.array(values, np.int64), values=tuple(numbers[name]))
            for name, values in codes.items()
        },
    )


def _rows(data: bytes, piece: _Piece, source: str) -> Iterator[tuple[int, list[str]]]:
    """(Line in the file, fields) of every row that is not blank."""
    body = io.BytesIO(data[piece.begin : piece.stop])
    reader = csv.reader(io.TextIOWrapper(body, "utf-8", "surrogateescape", newline=""))
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise UserError(f"{source}, line {piece.line + reader.line_num - 1}: {error}") from None
        if fields is None:
            return
        if len(fields) > 1 or (fields and fields[0].strip()):
            yield piece.line + reader.line_num - 1, fields
