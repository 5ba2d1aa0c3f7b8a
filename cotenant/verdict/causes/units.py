"""What was being made when: for each burst of chunks or frames the time in which it was made, and whether it
came too late."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cotenant.playback.gaps import BURST_NS
from cotenant.verdict import columns
from cotenant.verdict.columns import Bools, Ints
from cotenant.verdict.facts import Facts

# An utterance is compared within its beginning, middle and end.
_PARTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Bursts of chunks (or frames) that could have come too late, in order of stream and time.

    Of a stream whose playback had begun, from its second burst on. `start_ns` to `end_ns`: its making, from
    the arrival before, of a frame not before its sound was handed over, to its own (of one that never came,
    to when it was given up). `stall_ns`: the silence that it ended, 0 where it came in time. `stream` is a
    position in the stage's streams, `part` which third of the stream it is in. `usual_ns`: the median making
    time of those that came in time.
    """

    stream: Ints
    start_ns: Ints
    end_ns: Ints
    stall_ns: Ints
    part: Ints
    usual_ns: int

    @property
    def late(self) -> Bools:
        return self.stall_ns > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Stalls (or freezes) and the unit that each waited for, -1 where that is none."""

    stream: Ints
    start_ns: Ints
    duration_ns: Ints
    open: Bools
    unit: Ints


def voice_units(facts: Facts, stage: str) -> tuple[Units, Events]:
    """The chunks of a stage's voices."""
    chosen = facts.voice_rows[stage]
    voices, played = facts.voices, facts.voices.played
    counts = np.diff(voices.arrivals.offsets)[chosen]
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    arrival = voices.arrivals.arrival_ns[columns.rows_of(voices.arrivals.offsets, chosen)]
    place = np.full(len(voices.streams) + 1, -1, dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    mine = np.flatnonzero(place[played.events.stream] >= 0)
    begin = np.where(played.began[chosen], played.start_ns[chosen], np.iinfo(np.int64).max)
    return units_of(
        arrival,
        offsets,
        begin,
        voices.arrivals.give_up_ns[chosen],
        Events(
            stream=place[played.events.stream[mine]],
            start_ns=played.events.start_ns[mine],
            duration_ns=played.events.duration_ns[mine],
            open=played.events.open[mine],
            unit=np.full(len(mine), -1, dtype=np.int64),
        ),
    )


def units_of(
    arrival_ns: Ints,
    offsets: Ints,
    begin_ns: Ints,
    give_up_ns: Ints,
    events: Events,
    ready_ns: Ints | None = None,
) -> tuple[Units, Events]:
    """Units of streams in CSR form (arrivals in order), and the events with the units they waited for.

    `begin_ns`: when each stream's playback began; what came before could not be late. `ready_ns`: when all
    was there that each arrival is made of (`NULL` where unknown); a burst is made from its first one's on.
    """
    size = len(arrival_ns)
    stream = columns.owner(offsets)
    before = np.concatenate((arrival_ns[:1], arrival_ns[:-1]))
    first, head, opened = _bursts(arrival_ns - before, offsets)
    late = _first_after(arrival_ns, offsets, events.stream, events.start_ns)
    came = late < offsets[1:][events.stream]
    row = np.where(came, opened[np.minimum(late, size - 1)] if size else -1, -1)
    row = np.where((row >= 0) & first[np.maximum(row, 0)] if size else False, -1, row)
    chosen = head & ~first & (arrival_ns > begin_ns[stream])
    chosen[row[row >= 0]] = True
    kept = np.flatnonzero(chosen)
    unit_of_row = np.full(size + 1, -1, dtype=np.int64)
    unit_of_row[kept] = np.arange(len(kept))
    rank = kept - offsets[:-1][stream[kept]]
    part = rank * _PARTS // np.maximum(1, np.diff(offsets)[stream[kept]])
    # What never came was being made from the last arrival on.
    never = np.flatnonzero(~came & (np.diff(offsets)[events.stream] > 0))
    ended = offsets[1:][events.stream[never]] - 1
    unit = np.where(row >= 0, unit_of_row[row], -1)
    unit[never] = len(kept) + np.arange(len(never))
    stall = np.bincount(unit[unit >= 0], events.duration_ns[unit >= 0], len(kept) + len(never))
    begun = before[kept]
    if ready_ns is not None:
        # What was ready after it came (by two clocks) says nothing.
        ready = ready_ns[kept]
        begun = np.where(ready < arrival_ns[kept], np.maximum(begun, ready), begun)
    start = np.concatenate((begun, arrival_ns[ended])).astype(np.int64)
    end = np.concatenate((arrival_ns[kept], np.maximum(give_up_ns[events.stream[never]], arrival_ns[ended])))
    in_time = (stall == 0) & (end > start)
    lengths = (end - start)[in_time] if in_time.any() else end - start
    units = Units(
        stream=np.concatenate((stream[kept], events.stream[never])).astype(np.int64),
        start_ns=start,
        end_ns=end.astype(np.int64),
        stall_ns=stall.astype(np.int64),
        part=np.concatenate((part, np.full(len(never), _PARTS - 1))).astype(np.int64),
        usual_ns=max(1, int(np.median(lengths))) if len(lengths) else 1,
    )
    return units, replace(events, unit=unit)


def _bursts(gap_ns: Ints, offsets: Ints) -> tuple[Bools, Bools, Ints]:
    """Which rows are the first of their streams, which open a burst, and the row that opened each one's."""
    first = np.zeros(len(gap_ns), dtype=np.bool_)
    first[offsets[:-1][np.diff(offsets) > 0]] = True
    head = (gap_ns >= BURST_NS) | first
    return first, head, np.maximum.accumulate(np.where(head, np.arange(len(gap_ns), dtype=np.int64), 0))


def _first_after(values: Ints, offsets: Ints, stream: Ints, limit: Ints) -> Ints:
    """For each (stream, limit) the first row of the stream above the limit, else the stream's end."""
    low, high = offsets[:-1][stream].copy(), offsets[1:][stream].copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        above = open_ & (values[np.minimum(middle, len(values) - 1)] > limit)
        low = np.where(open_ & ~above, middle + 1, low)
        high = np.where(above, middle, high)
    return np.asarray(low, dtype=np.int64)
