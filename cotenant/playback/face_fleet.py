"""Many faces at once: `judge_face` for 10^4 clips and 10^7 frames, under its model `audio_master`."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from cotenant.playback.arrivals import NULL_NS, PLUS_INF_NS, BoolArray, Int64Array
from cotenant.playback.blocks import Arrivals, part_of
from cotenant.playback.face import PATIENCE_NS, period_of
from cotenant.playback.face_screen import by_media, closed_intervals, intervals_of, shown_rows, windows_of
from cotenant.playback.fleet import FleetPlayback
from cotenant.playback.freezes import count_freezes
from cotenant.playback.options import PlayerOptions
from cotenant.playback.voice_clocks import voice_clocks

# Frames in a piece: two dozen temporary arrays of this many int64 stay under 100 MB.
_ROWS: Final = 1 << 18
_OFFSETS: Final = ("shown_offsets", "window_offsets", "interval_offsets", "latency_offsets")
_Arrays = dict[str, Int64Array]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clips:
    """The frames of C faces: clip i has rows offsets[i] to offsets[i + 1], in any order.

    A row a frame, as for `judge_face`: arrival, media time, when the head was handed its audio (NULL_NS where
    that is unknown). A value a clip: `voice` (the stream it belongs to, -1 for none), when it was due, its
    frame rate and the face buffer.
    """

    offsets: Int64Array
    arrival_ns: Int64Array
    media_time_ns: Int64Array
    audio_handed_ns: Int64Array
    voice: Int64Array
    due_ns: Int64Array
    fps: Int64Array
    face_buffer_ns: Int64Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FaceFleet:
    """What was seen of each face, names and meanings of `FacePlayback`; clips stand one after the other.

    A value a clip: `began` to `pauses` (`freezes`, `freezes_spec` and `pauses` count; `pair_start_ns` and
    `end_ns` are 0 where nothing began). Arrays with offsets by clip: what appeared, windows, intervals,
    latencies.
    """

    began: BoolArray
    pair_start_ns: Int64Array
    end_ns: Int64Array
    watched_ns: Int64Array
    first_frame_ns: Int64Array
    frames: Int64Array
    dropped: Int64Array
    late: Int64Array
    freezes: Int64Array
    freezes_spec: Int64Array
    pauses: Int64Array
    shown_offsets: Int64Array
    shown_ns: Int64Array
    hold_ns: Int64Array
    skew_ns: Int64Array
    window_offsets: Int64Array
    window_start_ns: Int64Array
    window_counts: Int64Array
    interval_offsets: Int64Array
    intervals_ns: Int64Array
    latency_offsets: Int64Array
    frame_latency_ns: Int64Array


def judge_faces(clips: Clips, voices: Arrivals, played: FleetPlayback, options: PlayerOptions) -> FaceFleet:
    """Show every face to the voice it belongs to; `played` is `voices` under `options`."""
    parts = [_piece(clips, low, high, voices, played, options) for low, high in _pieces(clips)]
    parts = parts or [_piece(clips, 0, 0, voices, played, options)]
    joined: dict[str, Int64Array] = {}
    for name in (field.name for field in fields(FaceFleet)):
        if name in _OFFSETS:
            counts = [np.diff(part.pop(name)) for part in parts]
            joined[name] = np.concatenate(([0], np.cumsum(np.concatenate(counts)))).astype(np.int64)
        else:
            joined[name] = np.concatenate([part.pop(name) for part in parts])
    began = joined.pop("began").astype(np.bool_)
    return FaceFleet(**joined, began=began)


def _pieces(clips: Clips) -> Iterator[tuple[int, int]]:
    """Runs of clips of about `_ROWS` frames each, whose media times can be lifted above one another."""
    low, size = 0, clips.voice.size
    while low < size:
        limit = int(clips.offsets[low]) + _ROWS
        high = max(low + 1, int(np.searchsorted(clips.offsets, limit, side="right")) - 1)
        yield from _split(clips, low, min(high, size))
        low = min(high, size)


def _split(clips: Clips, low: int, high: int) -> Iterator[tuple[int, int]]:
    media = clips.media_time_ns[clips.offsets[low] : clips.offsets[high]]
    span = (int(media.max()) - int(media.min()) + 1) * (high - low) if media.size else 0
    if span > PLUS_INF_NS and high - low > 1:
        middle = (low + high) // 2
        yield from _split(clips, low, middle)
        yield from _split(clips, middle, high)
    else:
        yield low, high


def _piece(
    clips: Clips, low: int, high: int, voices: Arrivals, played: FleetPlayback, options: PlayerOptions
) -> _Arrays:
    rows = slice(int(clips.offsets[low]), int(clips.offsets[high]))
    arrival, media = clips.arrival_ns[rows], clips.media_time_ns[rows]
    offsets, voice = clips.offsets[low : high + 1] - clips.offsets[low], clips.voice[low:high]
    counts, size = np.diff(offsets), high - low
    began = voice >= 0
    began[began] = played.began[voice[began]]
    start = np.zeros(size, np.int64)
    start[began] = played.start_ns[voice[began]]
    pair_start = np.where(began, start + PATIENCE_NS, 0)
    some = np.flatnonzero(began & (counts > 0))
    if some.size:
        earliest = np.minimum.reduceat(np.append(arrival, 0), _bounds(offsets, some))[::2]
        waits = np.maximum(start[some], earliest + clips.face_buffer_ns[low:high][some])
        pair_start[some] = np.minimum(pair_start[some], waits)
    clock = voice_clocks(part_of(voices, voice[began]), pair_start[began], options)
    end = np.zeros(size, np.int64)
    end[began] = clock.end_ns
    found = _latencies(arrival, clips.audio_handed_ns[rows], counts)
    clip = np.repeat(np.arange(size), counts)
    watched = began[clip]
    arrival, media, clip = arrival[watched], media[watched], clip[watched]
    order = by_media(arrival, media, clip)
    arrival, media, clip = arrival[order], media[order], clip[order]
    heard = clock.wall_of(media, (np.cumsum(began) - 1)[clip])
    appears = np.maximum(heard, arrival)
    period = period_of(clips.fps[low:high])
    kept = shown_rows(appears, media, clip, period)
    found |= _seen(appears[kept], clip[kept], began, pair_start, end, period)
    found |= {
        "skew_ns": appears[kept] - heard[kept],
        "began": began.astype(np.int64),
        "pair_start_ns": pair_start,
        "end_ns": end,
        "first_frame_ns": np.where(began & (counts > 0), pair_start - clips.due_ns[low:high], PLUS_INF_NS),
        "frames": counts,
        "dropped": np.where(began, counts - np.diff(found["shown_offsets"]), 0),
        "late": np.bincount(clip[arrival > heard], minlength=size),
    }
    return found


def _bounds(offsets: Int64Array, some: Int64Array) -> Int64Array:
    """Pairs of first row and end, for a reduction over the rows of some clips."""
    return np.column_stack([offsets[:-1][some], offsets[1:][some]]).ravel()


def _latencies(arrival: Int64Array, handed: Int64Array, counts: Int64Array) -> _Arrays:
    known = handed != NULL_NS
    before = np.concatenate(([0], np.cumsum(known)))
    offsets = before[np.concatenate(([0], np.cumsum(counts)))]
    return {"frame_latency_ns": arrival[known] - handed[known], "latency_offsets": offsets}


def _seen(
    shown: Int64Array,
    clip: Int64Array,
    began: BoolArray,
    pair_start: Int64Array,
    end: Int64Array,
    period: Int64Array,
) -> _Arrays:
    counts = np.bincount(clip, minlength=began.size)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    last = end.copy()
    hold = np.diff(shown, append=0)
    some = np.flatnonzero(counts)
    final = offsets[1:][some] - 1
    hold[final] = period[some]
    last[some] = np.maximum(end[some], shown[final] + period[some])
    window_offsets, window_start, window_counts = windows_of(shown, clip, pair_start, last)
    interval_offsets, intervals = intervals_of(shown, offsets, pair_start, end, period)
    freezes, by_spec, pauses = count_freezes(*closed_intervals(shown, offsets, pair_start, end), began.size)
    return {
        "shown_ns": shown,
        "shown_offsets": offsets,
        "hold_ns": hold,
        "watched_ns": last - pair_start,
        "window_offsets": window_offsets,
        "window_start_ns": window_start,
        "window_counts": window_counts,
        "interval_offsets": interval_offsets,
        "intervals_ns": intervals,
        "freezes": freezes,
        "freezes_spec": by_spec,
        "pauses": pauses,
    }
