"""What the screens of many faces show: frames in, per clip what appeared, when, and for how long."""

from typing import Final

import numpy as np

from cotenant.playback.arrivals import BoolArray, Int64Array

WINDOW_NS: Final = 1_000_000_000
STEP_NS: Final = 100_000_000
_STEPS: Final = WINDOW_NS // STEP_NS


def by_media(arrival: Int64Array, media: Int64Array, clip: Int64Array) -> Int64Array | slice:
    """The order of the rows by clip, media time and arrival; a slice where they stand so already."""
    same = clip[1:] == clip[:-1]
    falls = (media[1:] < media[:-1]) | ((media[1:] == media[:-1]) & (arrival[1:] < arrival[:-1]))
    if not bool((same & falls).any()):
        return slice(None)
    return np.lexsort((arrival, media, clip))


def shown_rows(appears: Int64Array, media: Int64Array, clip: Int64Array, period_ns: Int64Array) -> Int64Array:
    """The rows that count as shown, in the order in which they appear; rows of one clip stand together.

    Never one that is not newer than what is on the screen, nor one that a newer one replaces within half a
    period (`period_ns`: one value a clip).
    """
    if not appears.size:
        return np.zeros(0, np.int64)
    order = _by_appearance(appears, media, clip)
    ordered, owner = media[order], clip[order]
    first = _firsts(owner)
    # Each clip's media lifted above all of the clip before it, for one running maximum.
    start = np.flatnonzero(first)
    low, high = np.minimum.reduceat(ordered, start), np.maximum.reduceat(ordered, start)
    lift = np.cumsum(high - low + 1) - (high - low + 1) - low
    newest = np.maximum.accumulate(ordered + np.repeat(lift, np.diff(np.append(start, ordered.size))))
    fresh = first.copy()
    fresh[1:] |= newest[1:] > newest[:-1]
    on_screen = order[fresh]
    stays = np.diff(appears[on_screen])
    owner = clip[on_screen]
    long_enough = np.ones(on_screen.size, np.bool_)
    long_enough[:-1] = (2 * stays > period_ns[owner[:-1]]) | (owner[1:] != owner[:-1])
    return on_screen[long_enough]


def windows_of(
    shown: Int64Array, clip: Int64Array, start_ns: Int64Array, last_ns: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """(Offsets by clip, start of each window, frames that appeared in it): 1 s long, from each clip's
    `start_ns` on every 100 ms, while they end by `last_ns`."""
    sizes = np.maximum(0, (last_ns - start_ns - WINDOW_NS) // STEP_NS + 1)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    local = np.arange(int(offsets[-1]), dtype=np.int64) - np.repeat(offsets[:-1], sizes)
    starts = np.repeat(start_ns, sizes) + local * STEP_NS
    # A window is ten steps long: frames are counted by step, and steps summed.
    steps = np.where(sizes > 0, sizes + _STEPS - 1, 0)
    base = np.cumsum(steps) - steps
    step = (shown - start_ns[clip]) // STEP_NS
    inside = (step >= 0) & (step < steps[clip])
    counts = np.bincount(base[clip[inside]] + step[inside], minlength=int(steps.sum()))
    total = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    place = np.repeat(base, sizes) + local
    return offsets, starts, total[place + _STEPS] - total[place]


def intervals_of(
    shown: Int64Array, offsets: Int64Array, start_ns: Int64Array, end_ns: Int64Array, period_ns: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """(Offsets by clip, intervals): between shown frames, with the hole before the first and a last hold of
    more than one period; none where nothing was shown."""
    counts = np.diff(offsets)
    some = counts > 0
    first, last = np.zeros((2, counts.size), np.int64)
    first[some] = shown[offsets[:-1][some]] - start_ns[some]
    last[some] = end_ns[some] - shown[offsets[1:][some] - 1]
    lead, tail = some & (first > 0), some & (last > period_ns)
    sizes = np.where(some, counts - 1 + lead + tail, 0)
    places = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    found = np.empty(int(places[-1]), np.int64)
    found[places[:-1][lead]] = first[lead]
    found[places[1:][tail] - 1] = last[tail]
    between, clip = _between(shown, offsets)
    pairs = np.maximum(counts - 1, 0)
    local = np.arange(between.size) - (np.cumsum(pairs) - pairs)[clip]
    found[places[clip] + lead[clip] + local] = between
    return places, found


def closed_intervals(
    shown: Int64Array, offsets: Int64Array, start_ns: Int64Array, end_ns: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """(Duration, duration in whole milliseconds from `start_ns` on, clip) of how long each shown frame
    stayed, the last one until `end_ns` if it was there before."""
    counts = np.diff(offsets)
    last = np.full(counts.size, np.iinfo(np.int64).max)
    some = counts > 0
    last[some] = shown[offsets[1:][some] - 1]
    closed = some & (end_ns > last)
    at = offsets[1:][closed]
    times = np.insert(shown, at, end_ns[closed])
    places = np.concatenate(([0], np.cumsum(counts + closed))).astype(np.int64)
    interval, clip = _between(times, places)
    whole = (times - np.repeat(start_ns, np.diff(places))) // 1_000_000
    return interval, _between(whole, places)[0], clip


def _between(values: Int64Array, offsets: Int64Array) -> tuple[Int64Array, Int64Array]:
    """(Differences of neighbours within each clip, their clip)."""
    clip = np.repeat(np.arange(offsets.size - 1, dtype=np.int64), np.diff(offsets))
    same = clip[1:] == clip[:-1]
    return np.diff(values)[same], clip[1:][same]


def _by_appearance(appears: Int64Array, media: Int64Array, clip: Int64Array) -> Int64Array:
    """Rows by clip, time of appearance, and the newest media first; only clips that are not so are sorted."""
    order = np.arange(appears.size)
    same = clip[1:] == clip[:-1]
    bad = np.unique(clip[1:][same & (appears[1:] <= appears[:-1])])
    if bad.size:
        rows = np.flatnonzero(np.isin(clip, bad))
        order[rows] = rows[np.lexsort((-media[rows], appears[rows], clip[rows]))]
    return order


def _firsts(clip: Int64Array) -> BoolArray:
    first = np.ones(clip.size, np.bool_)
    first[1:] = clip[1:] != clip[:-1]
    return first
