"""One line of the timeline: points thinned so that its peaks stay, with breaks where there was none."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from tsdownsample import MinMaxLTTBDownsampler

from cotenant.report.page.base import Base, numbers
from cotenant.verdict.columns import Bools, Floats, Ints
from cotenant.verdict.plan import Window

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
    kept = _corners(value, part)
    decimated = len(kept) > most
    if decimated:
        spans = [window for windows in base.facts.plan.lived.values() for window in windows]
        kept = kept[thinned(time_ns[kept], value[kept], most, spans)]
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
        "decimated_from": count if decimated else None,
    }


def _corners(value: Floats, part: Ints) -> Ints:
    """All points but those on a level line between two equal ones: the line looks the same without them."""
    same: Bools = (value[1:] == value[:-1]) & (part[1:] == part[:-1])
    idle = np.append(same, False) & np.insert(same, 0, False) if len(value) else np.zeros(0, dtype=np.bool_)
    return np.flatnonzero(~idle).astype(np.int64)


def thinned(time_ns: Ints, value: Floats, most: int, spans: Sequence[Window] = ()) -> Ints:
    """At most so many of the points, by MinMaxLTTB, which keeps nearly all peaks; the highest and the lowest
    point of all, and of each span of time, stay in any case."""
    edges = [slice(0, len(value))]
    for span in spans:
        low, high = np.searchsorted(time_ns, (span.start_ns, span.end_ns), side="left")
        edges += [slice(int(low), int(high))] if high > low else []
    kept = {edge.start + int(find(value[edge])) for edge in edges for find in (np.argmin, np.argmax)}
    downsampler: Any = MinMaxLTTBDownsampler
    chosen = downsampler().downsample(
        np.ascontiguousarray(time_ns - time_ns[0]),
        np.ascontiguousarray(value),
        n_out=max(3, most - len(kept)),
    )
    return np.union1d(np.asarray(chosen, dtype=np.int64), np.array(sorted(kept), dtype=np.int64))
