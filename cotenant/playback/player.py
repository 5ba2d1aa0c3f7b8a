"""The player of one stream: what would be heard, when, and where it falls silent.

Times are integer nanoseconds. Every player is a sequence of segments: from the wall time `T` on, media is
played from position `m` at rate 1, until a chunk comes too late. `resume` and `refill` then open the next
segment at the late chunk, `drop` keeps the segment and loses what was late (or opens one when
`resync_after` is exceeded).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.playback.arrivals import Int64Array, prepare
from cotenant.playback.options import CLEAN_STALL_NS, PlayerOptions
from cotenant.playback.segments import Segment, segments_of
from cotenant.playback.silences import Underrun, levels_before_arrivals, silences_of, underruns_of
from cotenant.playback.starts import headroom_of, required_of, start_of

__all__ = [
    "CLEAN_STALL_NS",
    "Playback",
    "PlayerOptions",
    "Underrun",
    "delayed",
    "play",
    "start_of",
    "wall_of",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Playback:
    """What one stream was like to listen to.

    Three states. No audio (`chunks` 0): every value is None, and the stream counts as an infinity where
    quantiles are taken. Audio, but never begun (cut off before its lookahead was there; `start_ns` None):
    what the player would have given is None, what follows from the arrivals alone is there. Begun: all
    there, and `headroom_ns` None means unlimited (nothing had to arrive any more).

    `limit_ns` is the end of the stream, or, `truncated`, when it was given up (never before the last
    arrival). Arrays: `silence_*` every silence on the wall, those under 1 ms too; `clock_*` the steps of
    the playing clock (see `wall_of`); `playable_ahead_ns` and `arrival_ns` one value a chunk.
    """

    options: PlayerOptions
    limit_ns: int
    chunks: int
    audio_ns: int
    truncated: bool
    first_arrival_ns: int | None
    start_ns: int | None
    end_ns: int | None
    events: tuple[Underrun, ...]
    underruns: int | None
    stall_total_ns: int | None
    stall_longest_ns: int | None
    heard_ns: int
    lost_ns: int
    headroom_ns: int | None
    required_lookahead_ns: int | None
    clean: bool
    arrival_ns: Int64Array
    media_ns: Int64Array
    playable_ahead_ns: Int64Array
    silence_start_ns: Int64Array
    silence_media_ns: Int64Array
    silence_duration_ns: Int64Array
    clock_media_ns: Int64Array
    clock_wall_ns: Int64Array

    @property
    def began(self) -> bool:
        """Whether anything was played."""
        return self.start_ns is not None

    @property
    def stall_ratio(self) -> float | None:
        """Stall / (stall + audio heard); None where neither is."""
        if self.stall_total_ns is None or self.stall_total_ns + self.heard_ns == 0:
            return None
        return self.stall_total_ns / (self.stall_total_ns + self.heard_ns)


def play(
    arrival_ns: npt.ArrayLike,
    media_ns: npt.ArrayLike,
    options: PlayerOptions,
    *,
    done_ns: int | None,
    give_up_ns: int | None = None,
) -> Playback:
    """Play one stream of chunks (arrival of the last byte, duration; any order, empty rows allowed).

    `done_ns` is the end of the stream. None: it was truncated, and `give_up_ns` is when the listener gave
    it up. Raises ValueError where both are missing and on arrays that are no stream.
    """
    arrival, media = prepare(arrival_ns, media_ns)
    last_ns = done_ns if done_ns is not None else give_up_ns
    if last_ns is None:
        raise ValueError("a stream without an end needs the time at which it was given up")
    truncated = done_ns is None
    if arrival.size == 0:
        return _unplayed(arrival, media, options, int(last_ns), truncated, None)
    limit_ns = max(int(last_ns), int(arrival[-1]))
    ends = np.cumsum(media)
    required_ns = required_of(
        arrival, ends - media, ends, options.quantum_ns, limit_ns if truncated else None
    )
    start = start_of(arrival, ends, options, limit_ns, truncated)
    if start is None:
        return _unplayed(arrival, media, options, limit_ns, truncated, required_ns)
    segments = segments_of(arrival, media, ends, options, start[0], limit_ns, truncated)
    headroom_ns = headroom_of(arrival, ends, media, options, start, limit_ns if truncated else None)
    return _assemble(arrival, media, ends, segments, options, limit_ns, truncated, required_ns, headroom_ns)


def _assemble(
    arrival: Int64Array,
    media: Int64Array,
    ends: Int64Array,
    segments: list[Segment],
    options: PlayerOptions,
    limit_ns: int,
    truncated: bool,
    required_ns: int,
    headroom_ns: int | None,
) -> Playback:
    silences = silences_of(arrival, media, ends, segments, options)
    last, audio_ns = segments[-1], int(ends[-1])
    unheard_ns = audio_ns - last.media_ns if last.open else 0
    end_ns = last.wall_ns if last.open else last.wall_ns + audio_ns - last.media_ns
    longest_ns = int(silences.duration_ns.max(initial=0))
    events = underruns_of(silences)
    lost_ns = silences.lost_ns + unheard_ns
    return Playback(
        options=options,
        limit_ns=limit_ns,
        chunks=arrival.size,
        audio_ns=audio_ns,
        truncated=truncated,
        first_arrival_ns=int(arrival[0]),
        start_ns=segments[0].wall_ns,
        end_ns=end_ns,
        events=events,
        underruns=len(events),
        stall_total_ns=int(silences.duration_ns.sum()),
        stall_longest_ns=longest_ns,
        heard_ns=audio_ns - lost_ns,
        lost_ns=lost_ns,
        headroom_ns=headroom_ns,
        required_lookahead_ns=required_ns,
        clean=not truncated and longest_ns <= CLEAN_STALL_NS,
        arrival_ns=arrival,
        media_ns=media,
        playable_ahead_ns=levels_before_arrivals(arrival, ends - media, segments),
        silence_start_ns=silences.start_ns,
        silence_media_ns=silences.media_ns,
        silence_duration_ns=silences.duration_ns,
        clock_media_ns=np.array([s.media_ns for s in segments], np.int64),
        clock_wall_ns=np.array([s.wall_ns for s in segments], np.int64),
    )


def _unplayed(
    arrival: Int64Array,
    media: Int64Array,
    options: PlayerOptions,
    limit_ns: int,
    truncated: bool,
    required_ns: int | None,
) -> Playback:
    none = np.zeros(0, np.int64)
    return Playback(
        options=options,
        limit_ns=limit_ns,
        chunks=arrival.size,
        audio_ns=int(media.sum()),
        truncated=truncated,
        first_arrival_ns=int(arrival[0]) if arrival.size else None,
        start_ns=None,
        end_ns=None,
        events=(),
        underruns=None,
        stall_total_ns=None,
        stall_longest_ns=None,
        heard_ns=0,
        lost_ns=int(media.sum()),
        headroom_ns=None,
        required_lookahead_ns=required_ns,
        clean=False,
        arrival_ns=arrival,
        media_ns=media,
        playable_ahead_ns=none,
        silence_start_ns=none,
        silence_media_ns=none,
        silence_duration_ns=none,
        clock_media_ns=none,
        clock_wall_ns=none,
    )


def delayed(playback: Playback, start_ns: int) -> Playback:
    """The same stream in the same player, made to wait until `start_ns` (not before it could start) to begin.

    Raises ValueError if it never began.
    """
    if playback.start_ns is None or playback.required_lookahead_ns is None:
        raise ValueError("a stream that never began playing cannot begin later")
    if start_ns <= playback.start_ns:
        return playback
    arrival, media, options = playback.arrival_ns, playback.media_ns, playback.options
    ends, limit_ns, truncated = np.cumsum(media), playback.limit_ns, playback.truncated
    segments = segments_of(arrival, media, ends, options, start_ns, limit_ns, truncated)
    required_ns, headroom_ns = playback.required_lookahead_ns, playback.headroom_ns
    if headroom_ns is not None:
        headroom_ns += start_ns - playback.start_ns
    return _assemble(arrival, media, ends, segments, options, limit_ns, truncated, required_ns, headroom_ns)


def wall_of(playback: Playback, position_ns: npt.ArrayLike) -> Int64Array:
    """W(v): the wall time at which the media at each position is heard, past the end of the voice at rate 1.

    Media that `drop` loses has the time at which it would have been heard. Raises ValueError if nothing was
    played.
    """
    if not playback.began:
        raise ValueError("a stream that never began playing has no clock")
    positions = np.asarray(position_ns, np.int64)
    step = np.searchsorted(playback.clock_media_ns, positions, side="right") - 1
    step = np.maximum(step, 0)
    return np.asarray(playback.clock_wall_ns[step] + positions - playback.clock_media_ns[step], np.int64)
