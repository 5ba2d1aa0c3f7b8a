"""What was seen of faces under way within their measure windows: see `cotenant.verdict.under_way`."""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS
from cotenant.playback.face_fleet import FaceFleet
from cotenant.playback.face_screen import intervals_of
from cotenant.playback.freezes import freezes_of
from cotenant.units import NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Bools, Ints

_FPS_WINDOW_NS: Final = NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceWindows:
    """One value a clip: the window that it is judged in, `NULL` for one that is judged whole, and how long a
    picture is due to stay."""

    since_ns: Ints
    until_ns: Ints
    period_ns: Ints

    @property
    def under_way(self) -> Bools:
        return np.asarray(self.since_ns != NULL, dtype=np.bool_)


def seen_within(clips: FaceFleet, windows: FaceWindows) -> FaceFleet:
    """The clips, of those under way what was to be seen in their windows alone: fps windows inside, intervals
    between pictures cut to it, freezes that reach into it, the skew of the pictures that were there in it.

    The wait for the first picture is +infinity where it lasted beyond the window. How many frames came, were
    late or dropped, and how long they took, stays that of the whole clip.
    """
    inside = windows.under_way
    if not inside.any():
        return clips
    began = clips.began & (~inside | (clips.pair_start_ns < windows.until_ns))
    start = np.where(inside, np.maximum(clips.pair_start_ns, windows.since_ns), clips.pair_start_ns)
    end = np.where(inside & began, np.minimum(clips.end_ns, windows.until_ns), clips.end_ns)
    last = clips.pair_start_ns + clips.watched_ns
    last = np.where(inside & began, np.minimum(last, windows.until_ns), last)
    seen, rates = _shown(clips, windows), _rates(clips, windows)
    offsets, intervals = intervals_of(seen["shown_ns"], seen["shown_offsets"], start, end, windows.period_ns)
    changed: dict[str, Any] = {
        **seen,
        **rates,
        "began": began,
        "pair_start_ns": start,
        "end_ns": end,
        "watched_ns": np.where(inside & ~began, 0, last - start),
        "first_frame_ns": np.where(began, clips.first_frame_ns, PLUS_INF_NS),
        "interval_offsets": offsets,
        "intervals_ns": intervals,
        **_freezes(clips, windows),
    }
    return replace(clips, **changed)


def _shown(clips: FaceFleet, windows: FaceWindows) -> dict[str, Ints]:
    """The pictures that were to be seen in the windows: one from before is there from the start on."""
    owner = columns.owner(clips.shown_offsets)
    since, until = windows.since_ns[owner], windows.until_ns[owner]
    inside, final = since != NULL, np.zeros(len(owner), dtype=np.bool_)
    final[clips.shown_offsets[1:][np.diff(clips.shown_offsets) > 0] - 1] = True
    left = clips.shown_ns + clips.hold_ns  # when the next one came; the last one stays
    kept = ~inside | ((clips.shown_ns < until) & (final | (left > since)))
    shown = np.where(inside, np.maximum(clips.shown_ns, since), clips.shown_ns)
    hold = np.where(inside & ~final, np.minimum(left, until) - shown, clips.hold_ns)
    return {
        "shown_ns": shown[kept],
        "hold_ns": hold[kept],
        "skew_ns": clips.skew_ns[kept],
        "shown_offsets": _offsets(owner[kept], windows),
    }


def _rates(clips: FaceFleet, windows: FaceWindows) -> dict[str, Ints]:
    """The windows of a second that lie in those of the clips."""
    owner, start = columns.owner(clips.window_offsets), clips.window_start_ns
    since, until = windows.since_ns[owner], windows.until_ns[owner]
    kept = (since == NULL) | ((start >= since) & (start + _FPS_WINDOW_NS <= until))
    return {
        "window_start_ns": start[kept],
        "window_counts": clips.window_counts[kept],
        "window_offsets": _offsets(owner[kept], windows),
    }


def _offsets(owner: Ints, windows: FaceWindows) -> Ints:
    counts = np.bincount(owner, minlength=len(windows.since_ns))
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _freezes(clips: FaceFleet, windows: FaceWindows) -> dict[str, Ints]:
    """Freezes and pauses, of clips under way those that reach into their windows."""
    found = {name: getattr(clips, name).copy() for name in ("freezes", "freezes_spec", "pauses")}
    for clip in np.flatnonzero(windows.under_way & clips.began).tolist():
        shown = clips.shown_ns[clips.shown_offsets[clip] : clips.shown_offsets[clip + 1]]
        since, until = int(windows.since_ns[clip]), int(windows.until_ns[clip])
        for name, rule in (("freezes", "libwebrtc"), ("freezes_spec", "spec")):
            frozen = [
                one
                for one in freezes_of(
                    shown, int(clips.end_ns[clip]), int(clips.pair_start_ns[clip]), rule=rule
                )
                if one.start_ns < until and one.start_ns + one.duration_ns > since
            ]
            found[name][clip] = len(frozen)
            if name == "freezes":
                found["pauses"][clip] = sum(one.pause for one in frozen)
    return found
