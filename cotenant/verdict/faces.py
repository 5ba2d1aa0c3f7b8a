"""Every measured face of a run beside the voice it belongs to."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cotenant.playback.arrivals import NULL_NS
from cotenant.playback.blocks import Arrivals
from cotenant.playback.face import period_of
from cotenant.playback.face_fleet import Clips, FaceFleet, judge_faces
from cotenant.playback.fleet import play_fleet
from cotenant.playback.options import PlayerOptions
from cotenant.records import SOLO_PREFIX, Recording
from cotenant.units import NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Ints, Streams, Texts
from cotenant.verdict.compare import pairs
from cotenant.verdict.faces_within import FaceWindows
from cotenant.verdict.plan import Plan
from cotenant.verdict.under_way import UnderWay
from cotenant.verdict.voices import Voices

# A picture from further outside its clip than this is taken to be from there: the hole that it leaves is as
# bad, and what there is to look at stays as long as the clip, whatever number a service wrote.
STRAY_NS: Final = 60 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Faces:
    """The clips of each stage, in the order of `streams`, as seen; `windows`: of which a part is judged."""

    clips: Mapping[str, FaceFleet]
    streams: Mapping[str, Streams]
    windows: Mapping[str, FaceWindows]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frames:
    """The rows of `frames` that have both times, sorted by stream."""

    offsets: Ints
    arrival_ns: Ints
    media_ns: Ints
    handed_ns: Ints


def read_faces(
    recording: Recording,
    streams: Streams,
    measured: Mapping[str, Ints],
    under_way: Mapping[str, UnderWay],
    kind: Texts,
    voices: Voices,
    options: PlayerOptions,
    plan: Plan,
) -> Faces:
    """Shows every measured face. In a solo window the voice is one that never stalls and begins when it is
    due."""
    chosen = {name: rows[kind[rows] == "faces"] for name, rows in measured.items()}
    own = {name: streams.take(rows) for name, rows in chosen.items() if len(rows)}
    seen, windows = {}, {}
    for stage, mine in own.items():
        frames = _frames(recording, mine)
        if stage.startswith(SOLO_PREFIX):
            frames = _within(frames, _solo_length_ns(mine, frames, plan))
            arrivals = _even_voices(mine, frames, plan)
            played, voice = play_fleet(arrivals, options), np.arange(len(mine), dtype=np.int64)
        else:
            arrivals, played = voices.arrivals, voices.played
            voice = _voice_rows(stage, mine, voices, plan)
            spoken = np.append(played.audio_ns, 0)[voice]
            frames = _within(frames, spoken)
        clips = Clips(
            offsets=frames.offsets,
            arrival_ns=frames.arrival_ns,
            media_time_ns=frames.media_ns,
            audio_handed_ns=frames.handed_ns,
            voice=voice,
            due_ns=mine.due,
            fps=np.array([plan.loads[load].fps for load in mine.load], dtype=np.int64),
            face_buffer_ns=np.array([plan.loads[load].face_buffer_ns for load in mine.load], dtype=np.int64),
        )
        seen[stage] = judge_faces(clips, arrivals, played, options)
        windows[stage] = _windows(chosen[stage], under_way.get(stage), clips.fps)
    return Faces(clips=seen, streams=own, windows=windows)


def _windows(rows: Ints, under_way: UnderWay | None, fps: Ints) -> FaceWindows:
    """`rows` of the clips among the streams, ascending."""
    since, until = np.full((2, len(rows)), NULL)
    if under_way is not None:
        mine = np.isin(under_way.rows, rows)
        place = np.searchsorted(rows, under_way.rows[mine])
        since[place], until[place] = under_way.since_ns[mine], under_way.until_ns[mine]
    return FaceWindows(since_ns=since, until_ns=until, period_ns=period_of(fps))


def _frames(recording: Recording, streams: Streams) -> _Frames:
    rows = columns.table(recording, "frames")
    order, offsets = columns.group(columns.ints(rows, "stream"), streams.stream)
    arrival, media = columns.ints(rows, "arrival")[order], columns.ints(rows, "media_time")[order]
    handed = columns.ints(rows, "audio_handed")[order]
    there = (arrival != NULL) & (media != NULL)
    if not there.all():
        before = np.concatenate(([0], np.cumsum(there))).astype(np.int64)
        arrival, media, handed, offsets = arrival[there], media[there], handed[there], before[offsets]
    return _Frames(
        offsets=offsets,
        arrival_ns=arrival,
        media_ns=media,
        handed_ns=np.where(handed == NULL, NULL_NS, handed),
    )


def _within(frames: _Frames, length_ns: Ints) -> _Frames:
    """The frames with media times within `STRAY_NS` of their clips, which are as long as `length_ns`."""
    longest = np.repeat(length_ns, np.diff(frames.offsets)) + STRAY_NS
    return replace(frames, media_ns=np.clip(frames.media_ns, -STRAY_NS, longest))


def _solo_length_ns(streams: Streams, frames: _Frames, plan: Plan) -> Ints:
    """How long clips without a voice can be: as their frames in a row, or as the time that they took."""
    periods = np.array([round(NS_PER_S / plan.loads[load].fps) for load in streams.load], dtype=np.int64)
    last = columns.max_of(frames.arrival_ns, frames.offsets)
    took = np.where((last == NULL) | (streams.due == NULL), 0, last - streams.due)
    return np.asarray(np.maximum(np.diff(frames.offsets) * periods, took), dtype=np.int64)


def _voice_rows(stage: str, faces: Streams, voices: Voices, plan: Plan) -> Ints:
    """For each face of a stage the row of the voice it belongs to, -1 for none."""
    found = np.full(len(faces), -1, dtype=np.int64)
    there = np.flatnonzero(voices.streams.stage == stage)
    follows = np.array([plan.loads[load].follows for load in faces.load], dtype=np.object_)
    left, right = pairs(replace(faces, load=follows), voices.streams.take(there), by_round=True)
    found[left] = there[right]
    # What is under way has no number yet, but they were asked for at the same instant.
    begun = there[voices.under_way[there]]
    of = voices.streams.take(begun)
    rows = dict(zip(_asked(of, of.load), begun.tolist(), strict=True))
    for face in np.flatnonzero(found < 0).tolist() if rows else ():
        found[face] = rows.get(_asked(faces.take(np.array([face])), follows[[face]])[0], -1)
    return found


def _asked(streams: Streams, load: Texts) -> list[tuple[str, int, int]]:
    """Of which load, by whom, when."""
    return [*zip(load.tolist(), streams.listener.tolist(), streams.due.tolist(), strict=True)]


def _even_voices(streams: Streams, frames: _Frames, plan: Plan) -> Arrivals:
    """Voices as long as the frames, all there when they are due; none where there is no frame."""
    longest = columns.max_of(frames.media_ns, frames.offsets)
    periods = np.array([round(NS_PER_S / plan.loads[load].fps) for load in streams.load], dtype=np.int64)
    some = longest != NULL
    offsets = np.concatenate(([0], np.cumsum(some))).astype(np.int64)
    return Arrivals(
        offsets=offsets,
        arrival_ns=streams.due[some],
        media_ns=np.maximum(0, longest[some] + periods[some]),
        done_ns=streams.due,
        ended=np.ones(len(streams), dtype=np.bool_),
        give_up_ns=streams.due,
    )
