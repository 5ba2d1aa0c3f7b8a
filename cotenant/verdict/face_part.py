"""The `face` part of a stage's entry, pooled over its clips."""

from collections.abc import Callable
from typing import Final

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS
from cotenant.playback.blocks import Arrivals
from cotenant.playback.face_fleet import Clips, FaceFleet, judge_faces
from cotenant.playback.fleet import play_fleet
from cotenant.playback.lipsync import ACCEPT_NS, DETECT_NS
from cotenant.playback.options import PlayerOptions
from cotenant.units import NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.blocks import block_of
from cotenant.verdict.columns import Bools, Ints
from cotenant.verdict.faces import Faces
from cotenant.verdict.faces_within import seen_within
from cotenant.verdict.paths import FACE_METRICS
from cotenant.verdict.plan import Window
from cotenant.verdict.sample import (
    UNSEEN_SHARE,
    Doubted,
    Part,
    Quantiles,
    Ratio,
    milliseconds,
    put,
    put_exact,
    put_quantiles,
    put_ratio,
)
from cotenant.verdict.stats import Rare

NO_STREAM: Final = "no face was due in this stage's measure window"
EARLIER: Final = "no face was due in the measure window, and those that were under way had begun before it"
NOTHING_DUE: Final = (
    "no face was due while it was measured: what was seen of those under way can fail, but is too little to "
    "pass; measure longer (--set timing.measure=...)"
)
NO_FRAME: Final = "no frame arrived"
NO_PICTURE: Final = "no picture was ever shown"
_MINUTE_NS: Final = 60 * NS_PER_S
# Windows slide by a tenth of their length.
_OVERLAP: Final = 10


def face_part(faces: Faces, stage: str, windows: tuple[Window, ...], block_ns: int) -> Part:
    """Figures of all the faces of a stage together."""
    part = Part()

    def blocks(times: Ints) -> Ints:
        return block_of(times, windows, block_ns)

    clips = faces.clips.get(stage) or _no_clips()
    size, failed, due, known = len(clips.frames), 0, clips.pair_start_ns, clips.began
    put_exact(part, "streams", size, 1, NO_STREAM)
    if size:
        streams, told = faces.streams[stage], faces.windows[stage]
        under_way = told.under_way
        # What we stopped did not fail; what began before the window it is judged in is not known of that.
        bad = np.where(under_way, np.isin(streams.end, ("error", "truncated")), streams.end != "eos")
        known = ~(under_way & clips.began & (clips.pair_start_ns < told.since_ns))
        clips = seen_within(clips, told)
        due, errors = np.maximum(streams.due, told.since_ns), streams.error_kind[bad]
        failed = len(errors)
        _put_under_way(part, under_way)
        kinds, counts = np.unique([kind or "unknown" for kind in errors], return_counts=True)
        part.entry["errors"] = {str(kind): int(count) for kind, count in zip(kinds, counts, strict=True)}
    put_exact(part, "failed", failed, size, NO_STREAM)
    _rates(part, clips, blocks)
    _holes(part, clips, blocks)
    first = clips.first_frame_ns.astype(np.float64)
    first[clips.first_frame_ns >= PLUS_INF_NS] = np.inf
    started = Quantiles(values=milliseconds(first)[known], blocks=blocks(due)[known])
    put_quantiles(part, "first_frame_ms", started, ("p50", "p95"), EARLIER if size else NO_STREAM, count=True)
    frames = clips.frames.astype(np.float64)
    for name, missed in (("dropped_share", clips.dropped), ("late_share", clips.late)):
        share = Ratio(
            numerators=missed.astype(np.float64),
            denominators=frames,
            blocks=blocks(due),
            rare=Rare(size=UNSEEN_SHARE * float(frames.sum()) / max(1, size)),
        )
        put_ratio(part, name, share, NO_FRAME if size else NO_STREAM)
    _latencies(part, clips, blocks(due))
    _skew(part, clips, blocks)
    return part


def _put_under_way(part: Part, under_way: Bools) -> None:
    """How many are under way, where there are any. Nothing passes by them alone: all they tell is bad."""
    if not under_way.any():
        return
    put(part, "under_way", int(np.count_nonzero(under_way)), "")
    if under_way.all():
        part.doubts |= {path: Doubted(reason=NOTHING_DUE) for path in FACE_METRICS}


def _rates(part: Part, clips: FaceFleet, blocks: Callable[[Ints], Ints]) -> None:
    counts = clips.window_counts
    reason = "no clip was as long as 1 s" if len(clips.frames) else NO_STREAM
    put_exact(part, "fps_min", int(counts.min()) if len(counts) else None, len(counts), reason)
    sample = Quantiles(
        values=counts.astype(np.float64),
        blocks=blocks(clips.window_start_ns),
        independent=len(counts) / _OVERLAP,
    )
    holder = Part()
    put_quantiles(holder, "fps", sample, ("p5",), reason)
    part.samples["fps"] = sample
    part.entry["fps_p5"] = holder.entry["fps"]["p5"]
    if "fps.p5" in holder.why:
        part.why["fps_p5"] = holder.why["fps.p5"]


def _holes(part: Part, clips: FaceFleet, blocks: Callable[[Ints], Ints]) -> None:
    """Harmonic fps and freezes."""
    watched = clips.began
    intervals, ends = _intervals(clips)
    seconds = intervals / NS_PER_S
    some = bool(watched.any())
    reason = "no voice that a face belongs to was played" if len(watched) else NO_STREAM
    squares = Ratio(numerators=seconds, denominators=seconds**2, blocks=blocks(ends))
    put_ratio(part, "harmonic_fps", squares, reason, digits=3)
    shown = int(np.count_nonzero(np.diff(clips.shown_offsets)))
    lacking = NO_PICTURE if some else reason
    put_exact(part, "freezes", int(clips.freezes.sum()), shown, lacking)
    put_exact(part, "freezes_by_spec", int(clips.freezes_spec.sum()), shown, lacking)
    put_exact(part, "pauses", int(clips.pauses.sum()), shown, lacking)
    minutes = clips.watched_ns[watched] / _MINUTE_NS
    rate = Ratio(
        numerators=clips.freezes[watched].astype(np.float64),
        denominators=minutes * (shown > 0),
        blocks=blocks(clips.pair_start_ns[watched]),
        rare=Rare(size=1.0, varies=False),
    )
    put_ratio(part, "freezes_per_minute", rate, lacking, digits=3)


def _intervals(clips: FaceFleet) -> tuple[Ints, Ints]:
    """Intervals between pictures and when each ended. A face of which nothing was shown is one hole as long
    as it was watched."""
    blank = clips.began & (np.diff(clips.shown_offsets) == 0)
    owner = columns.owner(clips.interval_offsets)
    elapsed = np.concatenate(([0], np.cumsum(clips.intervals_ns)))
    since = elapsed[1:] - elapsed[clips.interval_offsets[:-1]][owner]
    ends = clips.pair_start_ns[owner] + since
    holes = np.flatnonzero(blank)
    at = clips.interval_offsets[:-1][holes]
    intervals = np.insert(clips.intervals_ns, at, clips.watched_ns[holes])
    ends = np.insert(ends, at, clips.pair_start_ns[holes] + clips.watched_ns[holes])
    kept = intervals > 0
    return intervals[kept], ends[kept]


def _latencies(part: Part, clips: FaceFleet, blocks: Ints) -> None:
    sizes = np.diff(clips.latency_offsets)
    sample = Quantiles(values=milliseconds(clips.frame_latency_ns), blocks=np.repeat(blocks, sizes))
    reason = "of no frame it is known when its audio was handed over" if len(sizes) else NO_STREAM
    put_quantiles(part, "frame_latency_ms", sample, ("p50", "p95", "p99"), reason, count=True)


def _skew(part: Part, clips: FaceFleet, blocks: Callable[[Ints], Ints]) -> None:
    """Each frame weighs as long as it stayed; audio ahead is positive."""
    skew, hold = clips.skew_ns, clips.hold_ns.astype(np.float64)
    block = blocks(clips.shown_ns)
    reason = NO_PICTURE if len(clips.frames) else NO_STREAM
    sample = Quantiles(values=milliseconds(skew), blocks=block, weights=hold)
    put_quantiles(part, "skew_ms", sample, ("p5", "p50", "p95"), reason)
    for name, (low, high) in (("detect", DETECT_NS), ("accept", ACCEPT_NS)):
        outside: Bools = (skew < low) | (skew > high)
        share = Ratio(
            numerators=hold * outside,
            denominators=hold,
            blocks=block,
            rare=Rare(size=float(hold.mean()), varies=False) if len(hold) else None,
        )
        put_ratio(part, f"skew_outside.{name}", share, reason)


def _no_clips() -> FaceFleet:
    none = np.zeros(0, dtype=np.int64)
    nothing = np.zeros(1, dtype=np.int64)
    nobody = Arrivals(
        offsets=nothing, arrival_ns=none, media_ns=none, done_ns=none, ended=none > 0, give_up_ns=none
    )
    clips = Clips(
        offsets=nothing, arrival_ns=none, media_time_ns=none, audio_handed_ns=none, voice=none, due_ns=none,
        fps=none, face_buffer_ns=none,
    )  # fmt: skip
    options = PlayerOptions(lookahead_ns=0)
    return judge_faces(clips, nobody, play_fleet(nobody, options), options)
