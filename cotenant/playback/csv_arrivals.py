"""Any tool's arrivals as a table -> streams that a player can play: pure, from the bytes of a CSV file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant.errors import UserError
from cotenant.playback.arrivals import Int64Array
from cotenant.playback.blocks import Arrivals
from cotenant.playback.csv_cells import LARGEST_NS
from cotenant.playback.csv_columns import Columns, Words, read_columns
from cotenant.units import NS_PER_MS

ENDED: Final = "eos"
CUT: Final = "truncated"
ONLY_STREAM: Final = "0"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CsvStreams:
    """Streams by name, in order of first appearance.

    Times of `arrivals` count from `origin_ns`, the first arrival of the file: clocks that have run for years
    lose nothing.
    """

    names: tuple[str, ...]
    origin_ns: int
    arrivals: Arrivals


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CsvFrames:
    """The video frames of one stream: when each came (after the origin of the voices) and what it shows."""

    arrival_ns: Int64Array
    media_ns: Int64Array


def read_arrivals(data: bytes, *, give_up_ns: int | None, source: str) -> CsvStreams:
    """Columns `arrival_ms`, `duration_ms` and, if there, `stream` and `end` (`eos` or `truncated`).

    A stream ends at its last arrival. With `give_up_ns` streams that are not marked `eos` were cut off
    and given up that long after their last arrival; those marked `truncated` are cut off anyhow (without
    `give_up_ns`: given up at their last arrival). Raises UserError with the row that is wrong.
    """
    words = {"stream": None, "end": frozenset({"", ENDED, CUT})}
    columns = read_columns(data, ("arrival_ms", "duration_ms"), words, source=source)
    arrival, media = columns.times_ns["arrival_ms"], columns.times_ns["duration_ms"]
    total = int(media.sum(dtype=np.float64))
    if total > LARGEST_NS:
        raise UserError(f"{source}: the durations sum to {total / NS_PER_MS:.3g} ms; is duration_ms in ms?")
    origin = int(arrival.min(initial=LARGEST_NS)) if columns.rows else 0
    owner, names = _owner(columns)
    ends = _ends(columns.words.get("end"), owner, names, source)
    order, offsets = _grouped(owner, len(names))
    arrival, media = arrival[order] - origin, media[order]
    last = np.zeros(len(names), np.int64)
    if columns.rows:
        # By rows that carry audio, where there are any: an empty row at the end is no arrival of sound.
        heard = np.where(media > 0, arrival, -1)
        last = np.maximum.reduceat(heard, offsets[:-1])
        last = np.where(last < 0, np.maximum.reduceat(arrival, offsets[:-1]), last)
    ended = np.array([word == ENDED or (not word and give_up_ns is None) for word in ends], np.bool_)
    arrivals = Arrivals(
        offsets=offsets,
        arrival_ns=arrival,
        media_ns=media,
        done_ns=last,
        ended=ended,
        give_up_ns=last + (give_up_ns or 0),
    )
    return CsvStreams(names=names, origin_ns=origin, arrivals=arrivals)


def read_frames(data: bytes, voices: CsvStreams, *, source: str) -> dict[str, CsvFrames]:
    """Columns `arrival_ms` (the clock of the voices' file), `media_ms` and, if there, `stream`.

    Without a column `stream` the voices must be one. Raises UserError with the row that is wrong, and for a
    stream that the voices do not have.
    """
    columns = read_columns(data, ("arrival_ms", "media_ms"), {"stream": None}, source=source)
    owner, names = _owner(columns)
    if "stream" not in columns.words:
        if len(voices.names) > 1:
            raise UserError(f"{source} needs a column 'stream': the voices are {len(voices.names)}")
        names = voices.names
    for name in names:
        if name not in voices.names:
            raise UserError(f"{source} has frames of stream {ascii(name)[:60]}, which the voices do not have")
    order, offsets = _grouped(owner, len(names))
    arrival = columns.times_ns["arrival_ms"][order] - voices.origin_ns
    media = columns.times_ns["media_ms"][order]
    return {
        name: CsvFrames(arrival_ns=arrival[low:high], media_ns=media[low:high])
        for name, low, high in zip(names, offsets[:-1], offsets[1:], strict=True)
    }


def _owner(columns: Columns) -> tuple[Int64Array, tuple[str, ...]]:
    """Per row the number of its stream, and the streams' names."""
    found = columns.words.get("stream")
    if found is not None:
        return found.codes, found.values
    return np.zeros(columns.rows, np.int64), (ONLY_STREAM,) if columns.rows else ()


def _grouped(owner: Int64Array, streams: int) -> tuple[Int64Array | slice, Int64Array]:
    """(Order of the rows by stream, kept within one; offsets)."""
    offsets = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=streams)))).astype(np.int64)
    if bool((owner[1:] >= owner[:-1]).all()):
        return slice(None), offsets
    return np.argsort(owner, kind="stable"), offsets


def _ends(words: Words | None, owner: Int64Array, names: Sequence[str], source: str) -> list[str]:
    """What the column `end` says of each stream; "" where it says nothing."""
    ends = [""] * len(names)
    if words is None:
        return ends
    for code, word in enumerate(words.values):
        if not word:
            continue
        for stream in np.unique(owner[words.codes == code]).tolist():
            if ends[stream]:
                raise UserError(f"{source}: stream {ascii(names[stream])[:60]} is both {ENDED} and {CUT}")
            ends[stream] = word
    return ends
