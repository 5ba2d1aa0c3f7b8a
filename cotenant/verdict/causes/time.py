"""Arithmetic over spans of time: how much of many windows was covered, and what was sampled during them."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from cotenant.verdict.columns import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """Spans [start, end) in order that do not overlap: when something was at work."""

    start_ns: Ints
    end_ns: Ints

    @classmethod
    def of(cls, start_ns: Ints, end_ns: Ints) -> Self:
        """The union of any spans; those that end before they start are left out."""
        some = end_ns > start_ns
        start_ns, end_ns = start_ns[some], end_ns[some]
        order = np.argsort(start_ns, kind="stable")
        start_ns, reached = start_ns[order], np.maximum.accumulate(end_ns[order])
        new = np.ones(len(start_ns), dtype=np.bool_)
        new[1:] = start_ns[1:] > reached[:-1]
        last = np.append(np.flatnonzero(new)[1:] - 1, len(start_ns) - 1) if len(start_ns) else new[:0]
        return cls(start_ns=start_ns[new], end_ns=reached[np.asarray(last, dtype=np.int64)])

    def within(self, start_ns: Ints, end_ns: Ints) -> Ints:
        """How much of each window is covered, ns."""
        return self._until(end_ns) - self._until(start_ns)

    def cycle(self, times_ns: Ints) -> Ints:
        """How many of the spans began by each time: a number for each span and the rest after it."""
        return np.searchsorted(self.start_ns, times_ns, side="right").astype(np.int64)

    def _until(self, times_ns: Ints) -> Ints:
        if not len(self.start_ns):
            return np.zeros(len(times_ns), dtype=np.int64)
        before = np.concatenate(([0], np.cumsum(self.end_ns - self.start_ns)))
        place = np.searchsorted(self.start_ns, times_ns, side="right") - 1
        inside = np.clip(times_ns - self.start_ns[place], 0, (self.end_ns - self.start_ns)[place])
        return np.asarray(np.where(place < 0, 0, before[np.maximum(place, 0)] + inside), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A number that changes at instants, as of streams in flight; 0 before the first."""

    at_ns: Ints
    value: Floats

    @classmethod
    def of(cls, start_ns: Ints, end_ns: Ints, weight: Floats) -> Self:
        """The sum of the weights of the spans that hold an instant."""
        some = end_ns > start_ns
        times = np.concatenate((start_ns[some], end_ns[some]))
        change = np.concatenate((weight[some], -weight[some]))
        order = np.argsort(times, kind="stable")
        return cls(at_ns=times[order], value=np.cumsum(change[order]))

    def at(self, times_ns: Ints) -> Floats:
        """The value at each instant."""
        place = np.searchsorted(self.at_ns, times_ns, side="right")
        return np.append(0.0, self.value)[place]

    def mean(self, start_ns: Ints, end_ns: Ints) -> Floats:
        """Its mean over each window; that of its start where the window is empty."""
        spans = np.maximum(1, end_ns - start_ns)
        found = (self._sum_until(end_ns) - self._sum_until(start_ns)) / spans
        return np.where(end_ns > start_ns, found, self.at(start_ns))

    def _sum_until(self, times_ns: Ints) -> Floats:
        if not len(self.at_ns):
            return np.zeros(len(times_ns))
        before = np.concatenate(([0.0], np.cumsum(self.value[:-1] * np.diff(self.at_ns))))
        place = np.searchsorted(self.at_ns, times_ns, side="right") - 1
        since = times_ns - self.at_ns[np.maximum(place, 0)]
        return np.where(place < 0, 0.0, before[place] + self.value[place] * since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Samples in order, each of which speaks of its span [start, end]; no NaN.

    Spans of a clock that ticks evenly: `start` is the sample before, at most `reach_ns` ago.
    """

    start_ns: Ints
    end_ns: Ints
    value: Floats

    @classmethod
    def ticked(cls, at_ns: Ints, value: Floats, reach_ns: int) -> Self:
        """Samples that speak of the time since the one before."""
        kept = ~np.isnan(value)
        at_ns, value = at_ns[kept], value[kept]
        order = np.argsort(at_ns, kind="stable")
        at_ns, value = at_ns[order], value[order]
        start = np.maximum(np.concatenate((at_ns[:1] - reach_ns, at_ns[:-1])), at_ns - reach_ns)
        return cls(start_ns=start, end_ns=at_ns, value=value)

    @classmethod
    def spanned(cls, start_ns: Ints, end_ns: Ints, value: Floats) -> Self:
        """Samples with spans of their own."""
        kept = ~np.isnan(value) & (end_ns > start_ns)
        order = np.argsort(end_ns[kept], kind="stable")
        return cls(
            start_ns=np.maximum.accumulate(start_ns[kept][order]),
            end_ns=end_ns[kept][order],
            value=value[kept][order],
        )

    def __len__(self) -> int:
        return len(self.value)

    def rows(self, start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
        """First row and end of the samples whose spans meet each window."""
        low = np.searchsorted(self.end_ns, start_ns, side="right")
        high = np.maximum(low, np.searchsorted(self.start_ns, end_ns, side="left"))
        return low.astype(np.int64), high.astype(np.int64)

    def mean(self, start_ns: Ints, end_ns: Ints) -> Floats:
        """The mean of the samples that meet each window, NaN where there is none."""
        low, high = self.rows(start_ns, end_ns)
        total = np.concatenate(([0.0], np.cumsum(self.value)))
        return np.where(high > low, (total[high] - total[low]) / np.maximum(1, high - low), np.nan)

    def largest(self, start_ns: Ints, end_ns: Ints) -> Floats:
        """The largest sample that meets each window, NaN where there is none."""
        low, high = self.rows(start_ns, end_ns)
        found = np.full(len(low), np.nan)
        some = np.flatnonzero(high > low)
        if len(some):
            bounds = np.column_stack([low[some], high[some]]).ravel()
            found[some] = np.maximum.reduceat(np.append(self.value, -np.inf), bounds)[::2]
        return found

    def holes(self, start_ns: Ints, end_ns: Ints) -> Floats:
        """The share of each window that no sample speaks of."""
        covered = Cover.of(self.start_ns, self.end_ns).within(start_ns, end_ns)
        return np.asarray(1 - covered / np.maximum(1, end_ns - start_ns), dtype=np.float64)
