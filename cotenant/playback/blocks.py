"""Many streams at once: rows in pieces, with the sums and maxima that every question needs.

All sums over a stream are taken by one pass over its whole piece: a running sum less the sum at the
stream's first row, and a running maximum over values lifted so that each stream lies above all before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS, BoolArray, Int64Array, as_int64

# Rows in a piece: a dozen temporary arrays of this many int64 stay under 100 MB.
BLOCK_ROWS: Final = 1 << 19


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrivals:
    """The chunks of S streams, one after the other: stream i has rows offsets[i] to offsets[i + 1].

    `arrival_ns`, `media_ns`: a row a chunk (empty rows and any order within a stream are allowed). Per
    stream: `ended` whether it came to its end, at `done_ns`; otherwise it was given up at `give_up_ns` (the
    other of the two is not read). Raises ValueError where the sizes do not match or a duration is negative.
    """

    offsets: Int64Array
    arrival_ns: Int64Array
    media_ns: Int64Array
    done_ns: Int64Array
    ended: BoolArray
    give_up_ns: Int64Array

    def __post_init__(self) -> None:
        for name in ("offsets", "arrival_ns", "media_ns", "done_ns", "give_up_ns"):
            object.__setattr__(self, name, as_int64(getattr(self, name), name))
        object.__setattr__(self, "ended", np.asarray(self.ended, np.bool_))
        streams, rows = self.offsets.size - 1, self.arrival_ns.size
        if (
            streams < 0
            or self.offsets[0] != 0
            or self.offsets[-1] != rows
            or (np.diff(self.offsets) < 0).any()
        ):
            raise ValueError("offsets must rise from 0 to the number of rows")
        if self.media_ns.size != rows:
            raise ValueError(f"{rows} arrivals but {self.media_ns.size} durations")
        if not self.done_ns.size == self.ended.size == self.give_up_ns.size == streams:
            raise ValueError(
                f"done_ns, ended and give_up_ns must have one value for each of {streams} streams"
            )
        if rows and int(self.media_ns.min()) < 0:
            raise ValueError(f"row {int(self.media_ns.argmin())}: the duration is negative")

    @property
    def streams(self) -> int:
        """How many streams there are."""
        return int(self.offsets.size) - 1


def part_of(arrivals: Arrivals, rows: Int64Array) -> Arrivals:
    """The arrivals of some of the streams, in that order; a stream may come several times."""
    counts = np.diff(arrivals.offsets)[rows]
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    index = np.arange(int(offsets[-1]), dtype=np.int64) + np.repeat(
        arrivals.offsets[:-1][rows] - offsets[:-1], counts
    )
    return replace(
        arrivals,
        offsets=offsets,
        arrival_ns=arrivals.arrival_ns[index],
        media_ns=arrivals.media_ns[index],
        done_ns=arrivals.done_ns[rows],
        ended=arrivals.ended[rows],
        give_up_ns=arrivals.give_up_ns[rows],
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """A run of streams, without empty rows and without the streams that had nothing else.

    Per stream: `stream` its number, `first`/`stop` its rows here, `first_ns` its first arrival, `limit_ns`
    its end or when it was given up (never before its last arrival), `truncated`, `audio_ns`, `reordered`.
    Per row: `arrival`, `media`, `ends` (running sum over the block; less `base` of its stream, the stream's
    own), `need` = x - first arrival: how long after the first arrival playback had to start for this chunk
    to be in time.
    """

    stream: Int64Array
    first: Int64Array
    stop: Int64Array
    first_ns: Int64Array
    limit_ns: Int64Array
    truncated: BoolArray
    audio_ns: Int64Array
    reordered: BoolArray
    arrival: Int64Array
    media: Int64Array
    ends: Int64Array
    base: Int64Array
    need: Int64Array
    required_ns: Int64Array = field(repr=False)

    def per_row(self, values: Int64Array) -> Int64Array:
        """One value a stream -> one value a row."""
        return np.repeat(values, self.stop - self.first)

    def begins(self) -> Int64Array:
        """Media position at which each row begins."""
        return self.ends - self.media - self.per_row(self.base)

    def owner(self, rows: Int64Array) -> Int64Array:
        """Which stream of the block each row belongs to."""
        return np.searchsorted(self.first, rows, side="right") - 1

    def missing_need_ns(self) -> Int64Array:
        """`need` of the chunk that a truncated stream still owed when it was given up."""
        return self.limit_ns - self.first_ns - self.audio_ns


def blocks_of(arrivals: Arrivals, rows: int = BLOCK_ROWS) -> Iterator[Block]:
    """The streams that have audio, in pieces of about `rows` rows (a longer stream is a piece of its own)."""
    low = 0
    while low < arrivals.streams:
        limit = int(arrivals.offsets[low]) + rows
        high = max(low + 1, int(np.searchsorted(arrivals.offsets, limit, side="right")) - 1)
        yield from _split(arrivals, low, min(high, arrivals.streams))
        low = high


def _split(arrivals: Arrivals, low: int, high: int) -> Iterator[Block]:
    block = _block(arrivals, low, high)
    if block is None:
        return
    # Times lifted stream above stream must fit int64.
    span = (block.limit_ns - block.first_ns).astype(np.float64)
    if block.stream.size > 1 and float(span.sum()) > PLUS_INF_NS:
        middle = (low + high) // 2
        yield from _split(arrivals, low, middle)
        yield from _split(arrivals, middle, high)
    else:
        yield block


def _block(arrivals: Arrivals, low: int, high: int) -> Block | None:
    begin, end = int(arrivals.offsets[low]), int(arrivals.offsets[high])
    arrival, media = arrivals.arrival_ns[begin:end], arrivals.media_ns[begin:end]
    offsets = arrivals.offsets[low : high + 1] - begin
    if media.size and not media.all():
        arrival, media, offsets = without_empty(arrival, media, offsets)
    filled = np.flatnonzero(np.diff(offsets))
    if filled.size == 0:
        return None
    first, stop = offsets[:-1][filled], offsets[1:][filled]
    counts = stop - first
    arrival, media, reordered = in_order(arrival, media, offsets)
    stream = low + filled
    ended = arrivals.ended[stream]
    limit = np.where(ended, arrivals.done_ns[stream], arrivals.give_up_ns[stream])
    ends = np.cumsum(media)
    base = ends[first] - media[first]
    need = arrival - ends
    need += media
    need += np.repeat(base - arrival[first], counts)
    return Block(
        stream=stream,
        first=first,
        stop=stop,
        first_ns=arrival[first],
        limit_ns=np.maximum(limit, arrival[stop - 1]),
        truncated=~ended,
        audio_ns=ends[stop - 1] - base,
        reordered=reordered[filled],
        arrival=arrival,
        media=media,
        ends=ends,
        base=base,
        need=need,
        required_ns=np.maximum.reduceat(need, first),
    )


def without_empty(
    arrival: Int64Array, media: Int64Array, offsets: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The rows that hold audio, and the streams' offsets among them."""
    kept = media > 0
    before = np.concatenate(([0], np.cumsum(kept))).astype(np.int64)
    return arrival[kept], media[kept], before[offsets]


def in_order(
    arrival: Int64Array, media: Int64Array, offsets: Int64Array
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """The rows of each stream by arrival (rows of one instant as they are), and which streams were not."""
    counts = np.diff(offsets)
    falls = np.zeros(arrival.size, np.bool_)
    np.less(arrival[1:], arrival[:-1], out=falls[1:])
    falls[offsets[:-1][counts > 0]] = False
    reordered = np.zeros(counts.size, np.bool_)
    if falls.any():
        owner = np.repeat(np.arange(counts.size), counts)
        reordered[owner[falls]] = True
        order = np.lexsort((arrival, owner))
        arrival, media = arrival[order], media[order]
    return arrival, media, reordered


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Records:
    """The rows at which `need` reaches a new height in its stream, the first row of a stream not among them.

    `row`, `owner` (index in the block), `before` and `height`: the greatest need before and at it. A player
    that starts `s` after the first arrival and resumes at once is silent there for max(height, s) -
    max(before, s).
    """

    row: Int64Array
    owner: Int64Array
    before: Int64Array
    height: Int64Array


def records_of(block: Block) -> Records:
    """The strict records of each stream, in order."""
    lift = np.cumsum(block.required_ns + 1) - block.required_ns - 1
    top = np.maximum(block.need, 0)
    top += block.per_row(lift)
    np.maximum.accumulate(top, out=top)
    rises = np.zeros(top.size, np.bool_)
    np.greater(top[1:], top[:-1], out=rises[1:])
    rises[block.first] = False
    row = np.flatnonzero(rises)
    owner = block.owner(row)
    return Records(row=row, owner=owner, before=top[row - 1] - lift[owner], height=top[row] - lift[owner])
