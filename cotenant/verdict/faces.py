"""The `face` part of a stage's entry: every measured face beside the voice it belongs to, pooled over the
stage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS
from cotenant.playback.face import FacePlayback, judge_face
from cotenant.playback.lipsync import ACCEPT_NS, DETECT_NS
from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import Playback, play
from cotenant.records import SOLO_PREFIX, Recording
from cotenant.units import NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.blocks import block_of
from cotenant.verdict.columns import NULL, Bools, Floats, Ints, Streams, Texts
from cotenant.verdict.compare import pairs
from cotenant.verdict.plan import Load, Plan, Window
from cotenant.verdict.sample import (
    Part,
    Quantiles,
    Ratio,
    milliseconds,
    put_exact,
    put_quantiles,
    put_ratio,
)
from cotenant.verdict.voices import Voices

NO_STREAM: Final = "no face was due in this stage's measure window"
NO_FRAME: Final = "no frame arrived"
NO_PICTURE: Final = "no picture was ever shown"
_MINUTE_NS: Final = 60 * NS_PER_S
# Windows slide by a tenth of their length.
_OVERLAP: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Faces:
    """The clips of each stage, in the order of `streams`, as seen."""

    clips: Mapping[str, tuple[FacePlayback, ...]]
    streams: Mapping[str, Streams]


def read_faces(
    recording: Recording,
    streams: Streams,
    measured: Mapping[str, Ints],
    kind: Texts,
    voices: Voices,
    options: PlayerOptions,
    plan: Plan,
) -> Faces:
    """Shows every measured face. In a solo window the voice is one that never stalls and begins when it is
    due."""
    chosen = {name: rows[kind[rows] == "faces"] for name, rows in measured.items()}
    own = {name: streams.take(rows) for name, rows in chosen.items() if len(rows)}
    every = streams.take(np.concatenate([np.zeros(0, dtype=np.int64), *chosen.values()]))
    rows = columns.table(recording, "frames")
    order, offsets = columns.group(columns.ints(rows, "stream"), every.stream)
    arrival, media = columns.ints(rows, "arrival")[order], columns.ints(rows, "media_time")[order]
    handed = columns.ints(rows, "audio_handed")[order]
    speaks = {stage: _voice_rows(stage, mine, voices, plan) for stage, mine in own.items()}
    place = {int(number): index for index, number in enumerate(every.stream)}

    def clip(stage: str, mine: Streams, index: int) -> FacePlayback:
        load = plan.loads[mine.load[index]]
        at = place[int(mine.stream[index])]
        span = slice(offsets[at], offsets[at + 1])
        there = (arrival[span] != NULL) & (media[span] != NULL)
        times = media[span][there]
        if stage.startswith(SOLO_PREFIX):
            voice = _even_voice(int(mine.due[index]), times, load, options)
        else:
            voice = _voice_of(int(speaks[stage][index]), voices, options)
        known = handed[span][there]
        return judge_face(
            arrival[span][there],
            times,
            np.where(known == NULL, -(2**63), known),
            voice,
            int(mine.due[index]),
            load.fps,
            load.face_buffer_ns,
        )

    return Faces(
        clips={
            stage: tuple(clip(stage, mine, index) for index in range(len(mine)))
            for stage, mine in own.items()
        },
        streams=own,
    )


def face_part(faces: Faces, stage: str, windows: tuple[Window, ...], block_ns: int) -> Part:
    """Figures of all the faces of a stage together."""
    part = Part()
    clips, size = faces.clips.get(stage, ()), len(faces.clips.get(stage, ()))
    put_exact(part, "streams", size, 1, NO_STREAM)
    failed = np.zeros(0, dtype=np.bool_)
    if size:
        failed = faces.streams[stage].end != "eos"
        kinds, counts = np.unique(
            [kind or "unknown" for kind in faces.streams[stage].error_kind[failed]], return_counts=True
        )
        part.entry["errors"] = {str(kind): int(count) for kind, count in zip(kinds, counts, strict=True)}
    put_exact(part, "failed", int(np.count_nonzero(failed)), size, NO_STREAM)

    def blocks(times: Ints) -> Ints:
        return block_of(times, windows, block_ns)

    _rates(part, clips, blocks)
    _holes(part, clips, blocks)
    first = np.array([clip.first_frame_ns for clip in clips], dtype=np.float64)
    first[first >= PLUS_INF_NS] = np.inf
    due = faces.streams[stage].due if size else np.zeros(0, dtype=np.int64)
    started = Quantiles(values=milliseconds(first), blocks=blocks(due))
    put_quantiles(part, "first_frame_ms", started, ("p50", "p95"), NO_STREAM, count=True)
    frames = np.array([clip.frames for clip in clips], dtype=np.float64)
    dropped = np.array([clip.dropped for clip in clips], dtype=np.float64)
    lacking = NO_FRAME if size else NO_STREAM
    put_ratio(
        part, "dropped_share", Ratio(numerators=dropped, denominators=frames, blocks=blocks(due)), lacking
    )
    late = np.array([clip.late for clip in clips], dtype=np.float64)
    put_ratio(part, "late_share", Ratio(numerators=late, denominators=frames, blocks=blocks(due)), lacking)
    _latencies(part, clips, blocks(due))
    _skew(part, clips, blocks)
    return part


def _rates(part: Part, clips: Sequence[FacePlayback], blocks: Callable[[Ints], Ints]) -> None:
    counts = _joined(clips, lambda clip: clip.window_counts)
    starts = _joined(clips, lambda clip: clip.window_start_ns)
    reason = "no clip was as long as 1 s" if clips else NO_STREAM
    put_exact(part, "fps_min", int(counts.min()) if len(counts) else None, len(counts), reason)
    sample = Quantiles(
        values=counts.astype(np.float64), blocks=blocks(starts), independent=len(counts) / _OVERLAP
    )
    holder = Part()
    put_quantiles(holder, "fps", sample, ("p5",), reason)
    part.samples["fps"] = sample
    part.entry["fps_p5"] = holder.entry["fps"]["p5"]
    if "fps.p5" in holder.why:
        part.why["fps_p5"] = holder.why["fps.p5"]


def _holes(part: Part, clips: Sequence[FacePlayback], blocks: Callable[[Ints], Ints]) -> None:
    """Harmonic fps and freezes. A face of which nothing was shown is one hole as long as it was watched."""
    watched = [clip for clip in clips if clip.began]
    intervals, ends = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for clip in watched:
        own = clip.intervals_ns
        if not len(clip.shown_ns):
            own = np.array([clip.watched_ns], dtype=np.int64)
        intervals.append(own[own > 0])
        ends.append((clip.pair_start_ns or 0) + np.cumsum(own[own > 0]))
    seconds = np.concatenate(intervals) / NS_PER_S
    reason = "no voice that a face belongs to was played" if clips else NO_STREAM
    squares = Ratio(numerators=seconds, denominators=seconds**2, blocks=blocks(np.concatenate(ends)))
    put_ratio(part, "harmonic_fps", squares, reason, digits=3)
    freezes = np.array([len(clip.freezes) for clip in watched], dtype=np.float64)
    by_spec = sum(len(clip.freezes_spec) for clip in watched)
    pauses = sum(freeze.pause for clip in watched for freeze in clip.freezes)
    shown = sum(1 for clip in watched if len(clip.shown_ns))
    lacking = NO_PICTURE if watched else reason
    put_exact(part, "freezes", int(freezes.sum()), shown, lacking)
    put_exact(part, "freezes_by_spec", by_spec, shown, lacking)
    put_exact(part, "pauses", int(pauses), shown, lacking)
    minutes = np.array([clip.watched_ns / _MINUTE_NS for clip in watched])
    start = np.array([clip.pair_start_ns or 0 for clip in watched], dtype=np.int64)
    rate = Ratio(numerators=freezes, denominators=minutes * (shown > 0), blocks=blocks(start))
    put_ratio(part, "freezes_per_minute", rate, lacking, digits=3)


def _latencies(part: Part, clips: Sequence[FacePlayback], blocks: Ints) -> None:
    values = _joined(clips, lambda clip: clip.frame_latency_ns)
    sizes = [len(clip.frame_latency_ns) for clip in clips]
    sample = Quantiles(values=milliseconds(values), blocks=np.repeat(blocks, sizes))
    reason = "of no frame it is known when its audio was handed over" if clips else NO_STREAM
    put_quantiles(part, "frame_latency_ms", sample, ("p50", "p95", "p99"), reason, count=True)


def _skew(part: Part, clips: Sequence[FacePlayback], blocks: Callable[[Ints], Ints]) -> None:
    """Each frame weighs as long as it stayed; audio ahead is positive."""
    skew = _joined(clips, lambda clip: clip.skew_ns)
    hold: Floats = _joined(clips, lambda clip: clip.hold_ns).astype(np.float64)
    block = blocks(_joined(clips, lambda clip: clip.shown_ns))
    reason = NO_PICTURE if clips else NO_STREAM
    sample = Quantiles(values=milliseconds(skew), blocks=block, weights=hold)
    put_quantiles(part, "skew_ms", sample, ("p5", "p50", "p95"), reason)
    for name, (low, high) in (("detect", DETECT_NS), ("accept", ACCEPT_NS)):
        outside: Bools = (skew < low) | (skew > high)
        share = Ratio(numerators=hold * outside, denominators=hold, blocks=block)
        put_ratio(part, f"skew_outside.{name}", share, reason)


def _joined(clips: Sequence[FacePlayback], of: Callable[[FacePlayback], Any]) -> Ints:
    return np.concatenate([np.zeros(0, dtype=np.int64), *(of(clip) for clip in clips)])


def _voice_rows(stage: str, faces: Streams, voices: Voices, plan: Plan) -> Ints:
    """For each face of a stage the row of the voice it belongs to, -1 for none."""
    found = np.full(len(faces), -1, dtype=np.int64)
    there = np.flatnonzero(voices.streams.stage == stage)
    follows = np.array([plan.loads[load].follows for load in faces.load], dtype=np.object_)
    left, right = pairs(replace(faces, load=follows), voices.streams.take(there), by_round=True)
    found[left] = there[right]
    return found


def _voice_of(index: int, voices: Voices, options: PlayerOptions) -> Playback:
    """The playback of one voice; silence where there is none."""
    if index < 0:
        return play([], [], options, done_ns=0)
    arrivals = voices.arrivals
    span = slice(arrivals.offsets[index], arrivals.offsets[index + 1])
    done = int(arrivals.done_ns[index])
    ended = bool(arrivals.ended[index])
    return play(
        arrivals.arrival_ns[span],
        arrivals.media_ns[span],
        options,
        done_ns=done if ended else None,
        give_up_ns=done,
    )


def _even_voice(due_ns: int, times: Ints, load: Load, options: PlayerOptions) -> Playback:
    """A voice as long as the frames, all there when it is due."""
    if not len(times):
        return play([], [], options, done_ns=due_ns)
    length_ns = int(times.max()) + round(NS_PER_S / load.fps)
    return play([due_ns], [length_ns], options, done_ns=due_ns)
