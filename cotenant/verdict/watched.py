"""What the tables of the observers hold beyond means: who else was there, and until when it was seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from cotenant.records import Recording
from cotenant.units import NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Floats, Ints
from cotenant.verdict.implausible import STATUS as IMPLAUSIBLE
from cotenant.verdict.observed import ON_HOST, overlap_ns, seconds_of_run
from cotenant.verdict.plan import Window, length_ns, within

# Of a p95 a fifth of the time can hide four times as much as made it.
COVERAGE: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Foreign processes on the GPU while something was measured: their number at each look, and how long (ns)
    it stands for; the most memory that they held; `swapped`: one came as another went."""

    counts: Ints
    weights_ns: Ints
    memory_bytes: int | None
    swapped: bool

    @property
    def least(self) -> int:
        return int(self.counts.min())

    @property
    def most(self) -> int:
        return int(self.counts.max())

    @property
    def usual(self) -> int:
        """The number that was there longest."""
        numbers = np.unique(self.counts)
        lengths = [int(self.weights_ns[self.counts == number].sum()) for number in numbers]
        return int(numbers[int(np.argmax(lengths))])

    def share_unlike(self, count: int) -> float:
        """The share of the time in which there were more or fewer."""
        return float(self.weights_ns[self.counts != count].sum()) / float(self.weights_ns.sum())


def presence(recording: Recording, windows: tuple[Window, ...]) -> Presence | None:
    """None where the driver did not tell, or did not in these windows."""
    weights, counts = _overlapping(recording, "foreign_processes", windows)
    if not len(counts):
        return None
    _, sizes = _overlapping(recording, "foreign_memory_bytes", windows)
    _, changes = _overlapping(recording, "foreign_changes", windows)
    return Presence(
        counts=counts.astype(np.int64),
        weights_ns=weights,
        memory_bytes=int(sizes.max()) if len(sizes) == len(counts) else None,
        # At a change of the number by one there is one change; what came while another went makes it two.
        swapped=bool(len(changes) and changes.sum() > 0 and counts.min() == counts.max()),
    )


def ever_known(recording: Recording) -> frozenset[str]:
    """The GPU metrics that had a value at any time of the run."""
    return frozenset(map(str, columns.texts(_good(recording), "metric")))


def known_until_s(recording: Recording, metrics: Sequence[str], windows: tuple[Window, ...]) -> float | None:
    """When the last value of any of `metrics` before the windows' end was read, in seconds of the run."""
    latest = [
        int(ends.max())
        for metric in metrics
        if len(ends := columns.ints(_good(recording, metric), "t1"))
        and len(ends := ends[ends <= max(window.end_ns for window in windows)])
    ]
    return seconds_of_run(recording, max(latest)) if latest else None


def refuted_shares(
    recording: Recording, metrics: Sequence[str], windows: tuple[Window, ...]
) -> dict[str, float]:
    """Metric -> the share of the windows in which it read 0 while the GPU was at work, where it did."""
    rows = columns.table(recording, "gpu")
    gpus = len(set(columns.texts(rows, "gpu")))
    rows = rows.filter(pa.array(columns.texts(rows, "status") == IMPLAUSIBLE))
    overlap = overlap_ns(columns.ints(rows, "t0"), columns.ints(rows, "t1"), windows)
    metric, wanted = columns.texts(rows, "metric"), gpus * length_ns(windows)
    shares = {name: float(overlap[metric == name].sum()) / wanted if wanted else 0.0 for name in metrics}
    return {name: min(1.0, share) for name, share in shares.items() if share}


def canary_coverage(recording: Recording, windows: tuple[Window, ...]) -> float | None:
    """The share of the windows' whole seconds in which the GPU canary ran; None where it never did."""
    rows = columns.table(recording, "canary")
    there = (columns.ints(rows, "latency") != NULL) & ~np.isin(columns.texts(rows, "device"), ON_HOST)
    times = columns.ints(rows, "t")[there]
    if not len(times):
        return None
    seconds = seen = 0
    for window in windows:
        number = (window.end_ns - window.start_ns) // NS_PER_S
        inside = times[within(times, (window,))]
        second = np.unique((inside - window.start_ns) // NS_PER_S)
        seconds += number
        seen += int(np.count_nonzero(second < number))
    return seen / seconds if seconds else None


def host_coverage(recording: Recording, windows: tuple[Window, ...]) -> float | None:
    """The share of the windows for which the host observer's reading of each second is there; None where it
    never gave any.

    One stands for the second before it and for the one after it: on a busy machine they are off their beat,
    and the observer is ended as soon as the last window is.
    """
    rows = columns.table(recording, "host")
    mine = (columns.texts(rows, "source") == "host") & (columns.texts(rows, "metric") == "sleep_lag_ns")
    times = np.unique(columns.ints(rows, "t")[mine])
    times = times[times != NULL]
    if not len(times) or not windows:
        return None
    until = times + NS_PER_S
    since = np.maximum(times - NS_PER_S, np.concatenate((times[:1] - NS_PER_S, until[:-1])))
    return float(overlap_ns(since, until, windows).sum()) / length_ns(windows)


def _overlapping(recording: Recording, metric: str, windows: tuple[Window, ...]) -> tuple[Ints, Floats]:
    """How many ns of the windows each value of a metric stands for, and the values."""
    rows = _good(recording, metric)
    start, end = columns.ints(rows, "t0"), columns.ints(rows, "t1")
    overlap = overlap_ns(start, end, windows)
    kept = (overlap > 0) & (start != NULL)
    return overlap[kept], columns.floats(rows, "value")[kept]


def _good(recording: Recording, metric: str | None = None) -> pa.Table:
    """The rows of `gpu` that have a value, of one metric or of all."""
    rows = columns.table(recording, "gpu")
    kept = (columns.texts(rows, "status") == "ok") & ~np.isnan(columns.floats(rows, "value"))
    if metric is not None:
        kept &= columns.texts(rows, "metric") == metric
    return rows.filter(pa.array(kept))
