"""Where a played stream was silent, and how much media lay ahead before each arrival."""

from dataclasses import dataclass

import numpy as np

from cotenant.playback.arrivals import Int64Array
from cotenant.playback.options import COUNTED_SILENCE_NS, PlayerOptions
from cotenant.playback.segments import Segment, lateness


@dataclass(frozen=True, slots=True, kw_only=True)
class Underrun:
    """A maximal silence of at least 1 ms between the start of playback and the last sample.

    `start_ns` on the wall clock, `media_ns` the position of the sample that was missing,
    `since_previous_ns` from the end of the previous underrun (None for the first), `open` when the stream
    was given up during it.
    """

    start_ns: int
    media_ns: int
    duration_ns: int
    since_previous_ns: int | None
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Silences:
    """Every silence of one stream in order (wall start, media position, duration); those that touch are one.

    `lost_ns` is the media that `drop` threw away; `open` when the last silence was never ended.
    """

    start_ns: Int64Array
    media_ns: Int64Array
    duration_ns: Int64Array
    lost_ns: int
    open: bool


def silences_of(
    arrival: Int64Array, media: Int64Array, ends: Int64Array, segments: list[Segment], options: PlayerOptions
) -> Silences:
    """The silences between the segments and, under `drop`, those inside them."""
    starts, positions, lengths = [_none()], [_none()], [_none()]
    lost_ns, is_open = 0, False
    bounds = [s.chunk for s in segments[1:]] + [arrival.size]
    for segment, stop, following in zip(segments, bounds, [*segments[1:], None], strict=True):
        if options.after_underrun == "drop" and not segment.open:
            rows = slice(segment.chunk, stop)
            begins = ends[rows] - media[rows]
            late = lateness(arrival[rows], begins, segment, options.quantum_ns)
            lost = np.clip(late, 0, media[rows])
            hit = lost > 0
            starts.append(segment.wall_ns + begins[hit] - segment.media_ns)
            positions.append(begins[hit])
            lengths.append(lost[hit])
            lost_ns += int(lost.sum())
        if following is not None:
            dry_ns = segment.wall_ns + following.media_ns - segment.media_ns
            is_open = following.open and following.wall_ns > dry_ns
            if following.wall_ns == dry_ns:
                continue
            starts.append(np.array([dry_ns], np.int64))
            positions.append(np.array([following.media_ns], np.int64))
            lengths.append(np.array([following.wall_ns - dry_ns], np.int64))
    return _merged(
        np.concatenate(starts), np.concatenate(positions), np.concatenate(lengths), lost_ns, is_open
    )


def _none() -> Int64Array:
    return np.zeros(0, np.int64)


def _merged(
    start: Int64Array, media: Int64Array, length: Int64Array, lost_ns: int, is_open: bool
) -> Silences:
    if start.size:
        first = np.concatenate(([True], start[1:] != start[:-1] + length[:-1]))
        length = np.add.reduceat(length, np.flatnonzero(first))
        start, media = start[first], media[first]
    return Silences(start_ns=start, media_ns=media, duration_ns=length, lost_ns=lost_ns, open=is_open)


def underruns_of(silences: Silences) -> tuple[Underrun, ...]:
    """The silences long enough to count."""
    events: list[Underrun] = []
    previous_end: int | None = None
    last = silences.start_ns.size - 1
    for i in np.flatnonzero(silences.duration_ns >= COUNTED_SILENCE_NS).tolist():
        start_ns, duration_ns = int(silences.start_ns[i]), int(silences.duration_ns[i])
        events.append(
            Underrun(
                start_ns=start_ns,
                media_ns=int(silences.media_ns[i]),
                duration_ns=duration_ns,
                since_previous_ns=None if previous_end is None else start_ns - previous_end,
                open=silences.open and i == last,
            )
        )
        previous_end = start_ns + duration_ns
    return tuple(events)


def levels_before_arrivals(arrival: Int64Array, begins: Int64Array, segments: list[Segment]) -> Int64Array:
    """Media ahead of the playing clock just before each arrival; negative while dry.

    Before the start and until the first stall this is the slack: how much later the chunk could have come.
    While a player refills, its clock stands, and the level is what has come since it fell silent.
    """
    level = begins - arrival
    for i, segment in enumerate(segments):
        # The chunk that opens a segment met the clock of the one before.
        first = segment.chunk + 1 if i else 0
        last = segments[i + 1].chunk + 1 if i + 1 < len(segments) else arrival.size
        level[first:last] += segment.wall_ns - segment.media_ns
    for segment in segments[1:]:
        held = slice(segment.chunk + 1, segment.held + 1)
        level[held] = begins[held] - segment.media_ns
    return level
