"""What a viewer sees of a talking head beside the voice it speaks with.

There is no display grid: at any instant the newest frame that has arrived and is due is on the screen.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.playback.arrivals import NULL_NS, PLUS_INF_NS, Int64Array, as_int64
from cotenant.playback.face_playback import FacePlayback, Model, harmonic_fps
from cotenant.playback.freezes import freezes_of
from cotenant.playback.lipsync import lip_sync
from cotenant.playback.player import Playback, delayed, wall_of

__all__ = ["FacePlayback", "Model", "harmonic_fps", "judge_face"]

# The voice waits this long for a face, no longer.
PATIENCE_NS: Final = 2_000_000_000
_WINDOW_NS: Final = 1_000_000_000
_WINDOW_STEP_NS: Final = 100_000_000
_NS_PER_S: Final = 1_000_000_000


def judge_face(
    arrival_ns: npt.ArrayLike,
    media_time_ns: npt.ArrayLike,
    audio_handed_ns: npt.ArrayLike | None,
    voice: Playback,
    due_ns: int,
    fps: float,
    face_buffer_ns: int = 200_000_000,
    model: Model = "audio_master",
) -> FacePlayback:
    """Show the frames of one face to the voice it belongs to.

    A row a frame, in any order: last byte's arrival, media time, and when the head was handed the audio of
    that frame (NULL_NS where unknown, None for all). `due_ns`: when the utterance was due. Raises
    ValueError on arrays that do not match, a frame rate <= 0 and an unknown model.

    audio_master: the sound sets the clock, late frames appear late. av_locked: both wait for the later one.
    free_run: the picture keeps its own clock from its first frame on.
    """
    arrival, media = as_int64(arrival_ns, "arrival_ns"), as_int64(media_time_ns, "media_time_ns")
    handed = None if audio_handed_ns is None else as_int64(audio_handed_ns, "audio_handed_ns")
    if arrival.size != media.size or (handed is not None and handed.size != arrival.size):
        raise ValueError("every frame needs an arrival and a media time")
    if not fps > 0 or model not in ("audio_master", "av_locked", "free_run"):
        raise ValueError(f"no face at {fps} fps under the model {model!r}")
    latency = _latency(arrival, handed)
    if voice.start_ns is None:
        return _unseen(arrival.size, latency, fps, model)
    pair_start = voice.start_ns + PATIENCE_NS
    if arrival.size:
        pair_start = min(pair_start, max(voice.start_ns, int(arrival.min()) + face_buffer_ns))
    voice = delayed(voice, pair_start)
    order = np.lexsort((arrival, media))
    arrival, media = arrival[order], media[order]
    heard = wall_of(voice, media)
    due, heard, wait_ns = _clocks(arrival, media, heard, pair_start, model, voice)
    appears = np.maximum(due, arrival)
    period_ns = round(_NS_PER_S / fps)
    kept = _shown(appears, media, period_ns)
    return _seen(
        model=model,
        fps=fps,
        pair_start=pair_start,
        voice_end=(voice.end_ns or pair_start) + wait_ns,
        due_ns=due_ns,
        shown=appears[kept],
        shown_media=media[kept],
        skew=appears[kept] - heard[kept],
        frames=arrival.size,
        late=int((arrival > due).sum()),
        latency=latency,
        wait_ns=wait_ns,
    )


def period_of(fps: Int64Array) -> Int64Array:
    """Length of a frame at each rate, ns, rounded."""
    return np.array([round(_NS_PER_S / rate) for rate in fps.tolist()], np.int64)


def _latency(arrival: Int64Array, handed: Int64Array | None) -> Int64Array:
    if handed is None:
        return np.zeros(0, np.int64)
    known = handed != NULL_NS
    return np.asarray(arrival[known] - handed[known], np.int64)


def _clocks(
    arrival: Int64Array, media: Int64Array, heard: Int64Array, pair_start: int, model: Model, voice: Playback
) -> tuple[Int64Array, Int64Array, int]:
    """When each frame (by media time) is due, when its audio is heard, how much longer the sound takes."""
    if arrival.size == 0 or model == "audio_master":
        return heard, heard, 0
    if model == "free_run":
        anchor = max(pair_start, int(arrival[0]))
        return np.asarray(anchor + media - media[0], np.int64), heard, 0
    need = np.maximum.accumulate(arrival - media)
    locked = np.maximum(heard, need + media)
    # Only pictures that belong to the voice hold it up.
    inside = need[media < voice.audio_ns]
    end_ns = voice.end_ns or pair_start
    wait_ns = max(0, int(inside[-1]) + voice.audio_ns - end_ns) if inside.size else 0
    return locked, locked, wait_ns


def _shown(appears: Int64Array, media: Int64Array, period_ns: int) -> Int64Array:
    """Indices of the frames that count as shown, in the order in which they appear.

    Never one that is not newer than what is on the screen, nor one that a newer one replaces within half a
    period.
    """
    order = np.lexsort((-media, appears))
    newest = np.maximum.accumulate(media[order])
    fresh = np.ones(order.size, np.bool_)
    fresh[1:] = media[order][1:] > newest[:-1]
    on_screen = order[fresh]
    stays = np.diff(appears[on_screen])
    long_enough = np.ones(on_screen.size, np.bool_)
    long_enough[:-1] = 2 * stays > period_ns
    return on_screen[long_enough]


def _seen(
    *,
    model: Model,
    fps: float,
    pair_start: int,
    voice_end: int,
    due_ns: int,
    shown: Int64Array,
    shown_media: Int64Array,
    skew: Int64Array,
    frames: int,
    late: int,
    latency: Int64Array,
    wait_ns: int,
) -> FacePlayback:
    period_ns = round(_NS_PER_S / fps)
    hold = np.append(np.diff(shown), period_ns) if shown.size else np.zeros(0, np.int64)
    last_ns = max(voice_end, int(shown[-1]) + period_ns) if shown.size else voice_end
    windows = max(0, (last_ns - pair_start - _WINDOW_NS) // _WINDOW_STEP_NS + 1)
    starts = pair_start + np.arange(windows, dtype=np.int64) * _WINDOW_STEP_NS
    counts = np.searchsorted(shown, starts + _WINDOW_NS) - np.searchsorted(shown, starts)
    return FacePlayback(
        model=model,
        fps=fps,
        began=True,
        pair_start_ns=pair_start,
        end_ns=voice_end,
        watched_ns=last_ns - pair_start,
        first_frame_ns=pair_start - due_ns if frames else PLUS_INF_NS,
        frames=frames,
        dropped=frames - shown.size,
        late=late,
        shown_ns=shown,
        shown_media_ns=shown_media,
        hold_ns=hold,
        skew_ns=skew,
        window_start_ns=starts,
        window_counts=np.asarray(counts, np.int64),
        intervals_ns=_intervals(shown, pair_start, voice_end, period_ns),
        frame_latency_ns=latency,
        freezes=freezes_of(shown, voice_end, pair_start),
        freezes_spec=freezes_of(shown, voice_end, pair_start, rule="spec"),
        sync=lip_sync(skew, hold, shown),
        audio_wait_ns=wait_ns,
    )


def _intervals(shown: Int64Array, pair_start: int, voice_end: int, period_ns: int) -> Int64Array:
    if shown.size == 0:
        return shown
    intervals = np.diff(shown)
    if shown[0] > pair_start:
        intervals = np.concatenate(([shown[0] - pair_start], intervals))
    if voice_end - shown[-1] > period_ns:
        intervals = np.append(intervals, voice_end - shown[-1])
    return intervals


def _unseen(frames: int, latency: Int64Array, fps: float, model: Model) -> FacePlayback:
    none = np.zeros(0, np.int64)
    return FacePlayback(
        model=model,
        fps=fps,
        began=False,
        pair_start_ns=None,
        end_ns=None,
        watched_ns=0,
        first_frame_ns=PLUS_INF_NS,
        frames=frames,
        dropped=0,
        late=0,
        shown_ns=none,
        shown_media_ns=none,
        hold_ns=none,
        skew_ns=none,
        window_start_ns=none,
        window_counts=none,
        intervals_ns=none,
        frame_latency_ns=latency,
        freezes=(),
        freezes_spec=(),
        sync=None,
        audio_wait_ns=0,
    )
