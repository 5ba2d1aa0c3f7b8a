"""One line of the timeline: points thinned so that every extreme stays, with breaks where there was none."""

from typing import Any, Final

import numpy as np
from tsdownsample import MinMaxLTTBDownsampler

from cotenant.report.page.base import Base, numbers
from cotenant.verdict.columns import Bools, Floats, Ints

MOST_POINTS: Final = 2000


def line(
    base: Base,
    *,
    group: str,
    name: str,
    label: str,
    unit: str,
    time_ns: Ints,
    value: Floats,
    segment: Ints | None = None,
    most: int = MOST_POINTS,
    digits: int = 3,
) -> dict[str, Any]:
    """A series of the page's timeline. NaN is where there is no value; points of different `segment` are not
    joined by a line. Times rise."""
    inside = (time_ns >= base.t0_ns) & (time_ns <= base.end_ns)
    time_ns, value = time_ns[inside], value[inside]
    hole = np.isnan(value)
    # A break wherever values are missing, and between segments.
    part = np.cumsum(np.diff(hole.astype(np.int64), prepend=0) == 1)
    if segment is not None:
        part = part + np.cumsum(np.diff(segment[inside], prepend=0) != 0)
    part, time_ns, value = part[~hole], time_ns[~hole], value[~hole]
    count = len(value)
    kept = thinned(time_ns, value, part, most)
    part, time_ns, value = part[kept], time_ns[kept], value[kept]
    x, y = base.seconds(time_ns), numbers(value, digits)
    for at in np.flatnonzero(np.diff(part))[::-1] + 1:
        x.insert(int(at), x[int(at) - 1])
        y.insert(int(at), None)
    return {
        "id": name,
        "group": group,
        "label": label,
        "unit": unit,
        "stage": None,
        "x": x,
        "y": y,
        "decimated_from": count if len(kept) < count else None,
    }


def thinned(time_ns: Ints, value: Floats, part: Ints, most: int) -> Ints:
    """Which points to keep: first those that a straight line through their equal neighbours leaves out, then
    at most `most` by MinMaxLTTB, which keeps the extremes."""
    if not len(value):
        return np.zeros(0, dtype=np.int64)
    same: Bools = (value[1:] == value[:-1]) & (part[1:] == part[:-1])
    idle = np.append(same, False) & np.insert(same, 0, False)
    kept = np.flatnonzero(~idle).astype(np.int64)
    if len(kept) <= most:
        return kept
    downsampler: Any = MinMaxLTTBDownsampler
    chosen = downsampler().downsample(
        np.ascontiguousarray(time_ns[kept] - time_ns[0]), np.ascontiguousarray(value[kept]), n_out=most
    )
    return kept[np.asarray(chosen, dtype=np.int64)]
