"""When a picture counts as frozen: libwebrtc's rule and the wording of the webrtc-stats specification.

Both call an interval between two frames a freeze when it lasts max(3 avg, avg + 150 ms) or more. libwebrtc
counts whole milliseconds, takes the current interval into the 30 that are averaged, rounds the average down
and wants five of them; the specification averages the 30 before it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant.playback.arrivals import BoolArray, Int64Array

_WINDOW: Final = 30
_LEAST_SAMPLES: Final = 5
_LONGER_MS: Final = 150
_PAUSE_NS: Final = 5_000_000_000
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A frame that stayed too long. `pause`: over 5 s. `open`: it lasted until the voice ended."""

    start_ns: int
    duration_ns: int
    pause: bool
    open: bool


def freezes_of(
    shown_ns: Int64Array, end_ns: int, origin_ns: int, *, rule: str = "libwebrtc"
) -> tuple[Freeze, ...]:
    """The freezes among frames that appeared at `shown_ns` (rising), the last one held until `end_ns`.

    Milliseconds are counted from `origin_ns`. `rule` is libwebrtc or spec; a hole of more than 5 s is a
    freeze and a pause under both, and does not enter the average of what follows.
    """
    if rule not in ("libwebrtc", "spec"):
        raise ValueError(f"rule is {rule!r}; it is libwebrtc or spec")
    if shown_ns.size == 0:
        return ()
    closed = shown_ns if end_ns <= shown_ns[-1] else np.append(shown_ns, end_ns)
    interval = np.diff(closed)
    frozen = interval > _PAUSE_NS
    normal = np.flatnonzero(~frozen)
    whole_ms = np.diff((closed - origin_ns) // _NS_PER_MS)
    before = np.arange(normal.size)
    if rule == "libwebrtc":
        frozen[normal] = _libwebrtc(whole_ms[normal], before)
    else:
        frozen[normal] = _spec(interval[normal], before)
    return tuple(
        Freeze(
            start_ns=int(closed[i]),
            duration_ns=int(interval[i]),
            pause=int(interval[i]) > _PAUSE_NS,
            open=i >= shown_ns.size - 1,
        )
        for i in np.flatnonzero(frozen).tolist()
    )


def count_freezes(
    interval_ns: Int64Array, whole_ms: Int64Array, clip: Int64Array, clips: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Per clip: freezes by libwebrtc's rule, by the specification's, and the pauses that are among both.

    A row an interval, those of one clip one after the other: how long it lasted, the same in whole
    milliseconds, and its clip. As many as `freezes_of` finds clip by clip.
    """
    pause = interval_ns > _PAUSE_NS
    normal = np.flatnonzero(~pause)
    owner = clip[normal]
    counts = np.bincount(owner, minlength=clips)
    before = np.arange(normal.size) - (np.cumsum(counts) - counts)[owner]
    pauses = np.bincount(clip[pause], minlength=clips)
    found = (_libwebrtc(whole_ms[normal], before), _spec(interval_ns[normal], before))
    webrtc, spec = (np.bincount(owner[frozen], minlength=clips) + pauses for frozen in found)
    return webrtc, spec, pauses


def _libwebrtc(interval_ms: Int64Array, before: Int64Array) -> BoolArray:
    """`before`: how many intervals of the same clip come before each."""
    sums = np.concatenate(([0], np.cumsum(interval_ms)))
    count = np.minimum(before + 1, _WINDOW)
    high = np.arange(1, interval_ms.size + 1)
    average = (sums[high] - sums[high - count]) // count
    long = interval_ms >= np.maximum(3 * average, average + _LONGER_MS)
    return np.asarray(long & (before + 1 >= _LEAST_SAMPLES), np.bool_)


def _spec(interval_ns: Int64Array, before: Int64Array) -> BoolArray:
    sums = np.concatenate(([0], np.cumsum(interval_ns)))
    high = np.arange(interval_ns.size)
    count = np.minimum(before, _WINDOW)
    total = sums[high] - sums[high - count]
    count = np.maximum(count, 1)
    # interval >= max(3 total / count, total / count + 150 ms), without a division.
    scaled = interval_ns * count
    long = scaled >= np.maximum(3 * total, total + count * _LONGER_MS * _NS_PER_MS)
    return np.asarray(long & (before > 0), np.bool_)
