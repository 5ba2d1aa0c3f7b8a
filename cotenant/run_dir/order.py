"""Which rows of a recorded table stay, and in what order, as index arrays (numpy, no row loops)."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

IntArray = npt.NDArray[np.int64]
_RADIX_LIMIT = 1 << 16


def last_per_stream(stream: pa.Array) -> IntArray:
    """Indices [streams] of the last row of each stream, by ascending stream."""
    ids = _int64(stream)
    order = np.argsort(ids, kind="stable")
    grouped = ids[order]
    last = np.append(grouped[1:] != grouped[:-1], True) if len(ids) else np.zeros(0, dtype=bool)
    kept: IntArray = order[last]
    return kept


def by_stream(
    stream: pa.Array, seq: pa.Array, arrival: pa.Array, *, known: pa.Array, unique: bool
) -> IntArray:
    """Indices of the rows whose stream is in `known`, by (stream, arrival, seq).

    With `unique` only the last row of each (stream, seq) stays. Rows written in the order of their arrival,
    the usual case, cost one linear-time sort over the stream; only streams that have rows out of order are
    sorted fully.
    """
    if len(stream) == 0:
        return np.zeros(0, dtype=np.int64)
    codes, ids = _codes(stream)
    order = _stable_by_code(codes, len(ids))
    order = _repair(order, codes, _int64(seq), _int64(arrival), unique=unique)
    is_known = np.isin(ids, known.to_numpy(zero_copy_only=False))
    return order if is_known.all() else order[is_known[codes[order]]]


def by_time(time: pa.Array) -> IntArray:
    """Indices of the rows by ascending time; rows of one time keep their order."""
    return np.argsort(_int64(time), kind="stable")


def _int64(array: pa.Array) -> IntArray:
    """The values with -1 for null (no stream, seq or time is negative)."""
    values: IntArray = np.asarray(array.fill_null(-1)).astype(np.int64, copy=False)
    return values


def _codes(stream: pa.Array) -> tuple[npt.NDArray[np.int32], IntArray]:
    """Each row's stream as its rank among the streams, and the streams in ascending order."""
    encoded = pc.dictionary_encode(stream.fill_null(-1))
    ids: IntArray = encoded.dictionary.to_numpy()
    ascending = np.argsort(ids)
    rank = np.empty(len(ids), dtype=np.int32)
    rank[ascending] = np.arange(len(ids), dtype=np.int32)
    return rank[encoded.indices.to_numpy()], ids[ascending]


def _stable_by_code(codes: npt.NDArray[np.int32], count: int) -> IntArray:
    """Stable argsort of codes in [0, count): numpy sorts 16 bits by radix, wider codes take two passes."""
    order = np.argsort((codes % _RADIX_LIMIT).astype(np.uint16), kind="stable")
    if count > _RADIX_LIMIT:
        high = (codes // _RADIX_LIMIT).astype(np.uint16)
        order = order[np.argsort(high[order], kind="stable")]
    return order


def _repair(
    order: IntArray, codes: npt.NDArray[np.int32], seq: IntArray, arrival: IntArray, *, unique: bool
) -> IntArray:
    """Sort the streams not yet in the order (arrival, seq) and drop the rows that a later one replaces."""
    code, number, time = codes[order], seq[order], arrival[order]
    wrong = (code[1:] == code[:-1]) & ((number[1:] <= number[:-1]) | (time[1:] < time[:-1]))
    if not wrong.any():
        return order
    bad_streams = np.zeros(int(code[-1]) + 1, dtype=bool)
    bad_streams[code[1:][wrong]] = True
    bad = bad_streams[code]
    rows, code, number, time = order[bad], code[bad], number[bad], time[bad]
    replaced = np.zeros(len(rows), dtype=bool)
    if unique:
        grouped = np.lexsort((rows, number, code))  # the rows' own index is the order of writing
        same = (code[grouped][1:] == code[grouped][:-1]) & (number[grouped][1:] == number[grouped][:-1])
        replaced[grouped[:-1][same]] = True
    # Replaced rows go to the end of their stream, so that each stream keeps its place in `order`.
    within = np.lexsort((number, time, replaced, code))
    repaired = order.copy()
    repaired[bad] = np.where(replaced[within], -1, rows[within])
    return repaired[repaired >= 0]
