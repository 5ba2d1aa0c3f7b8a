"""What was seen of one face: its values, and the raw material that a stage pools over its faces."""

from dataclasses import dataclass
from typing import Final, Literal

from cotenant.playback.arrivals import Int64Array
from cotenant.playback.freezes import Freeze
from cotenant.playback.lipsync import LipSync
from cotenant.playback.weighted import nearest_rank

Model = Literal["audio_master", "av_locked", "free_run"]

_WINDOW_NS: Final = 1_000_000_000
_NS_PER_S: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FacePlayback:
    """One face, as seen. What a stage pools over its faces stands here raw, next to this face's own values.

    Pool like this: `window_counts` concatenated -> fps_min (minimum), fps_p5 (nearest rank); `intervals_ns`
    concatenated -> `harmonic_fps`; `freezes` summed, a minute being 60 s of the summed `watched_ns`;
    `dropped` over `frames`; `frame_latency_ns` concatenated -> quantiles; `skew_ns` with `hold_ns`
    concatenated -> `lip_sync`; `first_frame_ns` one value a face. `window_start_ns` and `shown_ns` are wall
    times, to cut time blocks by.

    `began` False: the voice never played, so there was nothing to be in time with; all arrays are empty,
    all values None, `first_frame_ns` PLUS_INF_NS. A face without one frame has windows of 0 and
    `first_frame_ns` PLUS_INF_NS.

    - `pair_start_ns`: P, when voice and face begin together.
    - `end_ns`: until when the face was watched, the end of the voice (as it plays in this pair).
    - `frames`, `dropped`, `late`: arrived; arrived but not shown; arrived after they were due.
    - `shown_ns`: when each shown frame appeared, rising; `shown_media_ns`: its media time.
    - `hold_ns`: how long it stayed (the last: one period).
    - `skew_ns`: shown - W(media time); audio ahead is positive.
    - `window_counts`: frames shown in [t, t + 1 s), t being each of `window_start_ns` (P, P + 100 ms ...);
      empty for a clip of less than 1 s.
    - `intervals_ns`: between shown frames, with the hole before the first and a last hold of more than one
      period.
    - `frame_latency_ns`: arrival - when the head was handed that audio, where that is known.
    - `audio_wait_ns`: how long the sound waited for pictures (only av_locked makes it wait).
    """

    model: Model
    fps: float
    began: bool
    pair_start_ns: int | None
    end_ns: int | None
    watched_ns: int
    first_frame_ns: int
    frames: int
    dropped: int
    late: int
    shown_ns: Int64Array
    shown_media_ns: Int64Array
    hold_ns: Int64Array
    skew_ns: Int64Array
    window_start_ns: Int64Array
    window_counts: Int64Array
    intervals_ns: Int64Array
    frame_latency_ns: Int64Array
    freezes: tuple[Freeze, ...]
    freezes_spec: tuple[Freeze, ...]
    sync: LipSync | None
    audio_wait_ns: int

    @property
    def fps_min(self) -> int | None:
        """Fewest frames in a window; None for a clip shorter than one."""
        return int(self.window_counts.min()) if self.window_counts.size else None

    @property
    def fps_p5(self) -> int | None:
        """Nearest-rank 5 % of the windows; None for a clip shorter than one."""
        return nearest_rank(self.window_counts, 5)

    @property
    def harmonic_fps(self) -> float | None:
        """See `harmonic_fps`; 0 where a second or more went by without one frame."""
        if self.frames == 0 and self.watched_ns >= _WINDOW_NS:
            return 0.0
        return harmonic_fps(self.intervals_ns)

    @property
    def freezes_per_minute(self) -> float | None:
        """Freezes by libwebrtc's rule a minute watched; None where nothing was."""
        return 60 * _NS_PER_S * len(self.freezes) / self.watched_ns if self.watched_ns else None

    @property
    def dropped_share(self) -> float | None:
        """Dropped / arrived; None without frames."""
        return self.dropped / self.frames if self.frames else None


def harmonic_fps(intervals_ns: Int64Array) -> float | None:
    """Sum of the intervals over that of their squares: the rate met at a random instant; None if empty."""
    seconds = intervals_ns / _NS_PER_S
    squares = float((seconds * seconds).sum())
    return float(seconds.sum()) / squares if squares > 0 else None
