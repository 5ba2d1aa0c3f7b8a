"""A player that keeps its clock, at every start at once: which silences it has, how much it loses.

With `s` the start after the first arrival, a chunk with need x and length d is lost for min(max(x - s, 0),
d): not at all from s >= x on, wholly up to s <= x - d. Everything below is a count or a sum over such
thresholds.
"""

from dataclasses import dataclass

import numpy as np

from cotenant.playback.arrivals import MINUS_INF_NS, Int64Array
from cotenant.playback.blocks import Block
from cotenant.playback.options import CLEAN_STALL_NS, COUNTED_SILENCE_NS
from cotenant.playback.thresholds import Thresholds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """A block's rows; one more at the end of a truncated stream, for the chunk that never came."""

    need: Int64Array
    whole: Int64Array  # latest start at which all of it is lost
    ends: Int64Array
    begins: Int64Array
    owner: Int64Array
    stop: Int64Array
    base: Int64Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DropCurve:
    """`clean_from`: the least start of each stream at which no silence is over 100 ms."""

    clean_from: Int64Array
    partly: Thresholds
    wholly: Thresholds
    opens: Thresholds
    closes: Thresholds

    def silent(self, owner: Int64Array, start: Int64Array) -> Int64Array:
        """Total silence of each (stream of the block, start)."""
        return self.partly.excess(owner, start) - self.wholly.excess(owner, start)

    def count(self, owner: Int64Array, start: Int64Array) -> Int64Array:
        """Underruns of each (stream of the block, start)."""
        return self.closes.above(owner, start) - self.opens.above(owner, start)


def drop_curve(block: Block) -> DropCurve:
    """Everything about `drop` without resync that depends on the start alone."""
    rows = _rows(block)
    streams = block.first.size
    clean_from = np.zeros(streams, np.int64)
    longest = _silent_beyond(rows, CLEAN_STALL_NS)
    np.maximum.at(clean_from, rows.owner, longest + 1)
    before = np.full(rows.need.size, MINUS_INF_NS, np.int64)
    before[1:] = rows.whole[:-1]
    before[np.concatenate(([0], rows.stop[:-1]))] = MINUS_INF_NS
    # A silence that counts begins at this row for every start in (before, until].
    until = _silent_beyond(rows, COUNTED_SILENCE_NS - 1)
    counts = (until >= 0) & (until > before)
    return DropCurve(
        clean_from=clean_from,
        partly=Thresholds.of(rows.owner, rows.need, streams),
        wholly=Thresholds.of(rows.owner, rows.whole, streams),
        opens=Thresholds.of(rows.owner[counts], np.maximum(before[counts], -1) + 1, streams),
        closes=Thresholds.of(rows.owner[counts], until[counts] + 1, streams),
    )


def _rows(block: Block) -> _Rows:
    need, media, counts = block.need, block.media, block.stop - block.first
    owner = np.repeat(np.arange(counts.size), counts)
    cut = np.flatnonzero(block.truncated)
    if cut.size:
        missing = block.missing_need_ns()[cut]
        at = block.stop[cut]
        need, media = np.insert(need, at, missing), np.insert(media, at, np.maximum(missing, 1))
        owner, counts = np.insert(owner, at, cut), counts + block.truncated
    stop = np.cumsum(counts)
    ends = np.cumsum(media)
    base = ends[stop - counts] - media[stop - counts]
    return _Rows(
        need=need,
        whole=need - media,
        ends=ends,
        begins=ends - media,
        owner=owner,
        stop=stop,
        base=base,
    )


def _silent_beyond(rows: _Rows, length_ns: int) -> Int64Array:
    """The latest start at which a silence that begins at each row is longer than this; negative if at none.

    It is if every chunk within the length is wholly lost and the one in which it ends is lost beyond that
    point.
    """
    latest = np.full(rows.need.size, MINUS_INF_NS, np.int64)
    row = np.flatnonzero(rows.need > 0)
    beyond = rows.begins[row] + length_ns
    last = np.searchsorted(rows.ends, beyond, side="right")
    inside = last < rows.stop[rows.owner[row]]
    row, beyond, last = row[inside], beyond[inside], last[inside]
    value = rows.need[last] - (beyond - rows.begins[last]) - 1
    step = row.copy()
    live = np.flatnonzero(value >= 0)
    while live.size:
        live = live[step[live] < last[live]]
        value[live] = np.minimum(value[live], rows.whole[step[live]])
        step[live] += 1
        live = live[value[live] >= 0]
    latest[row] = value
    return latest
