"""Thresholds of many streams in one sorted array: how many lie above a value, and by how much."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from cotenant.playback.arrivals import Int64Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Thresholds:
    """Values > 0 of S streams, each stream's lifted above all of the stream before it."""

    lift: Int64Array
    ceiling: Int64Array
    stop: Int64Array
    lifted: Int64Array
    sums: Int64Array

    @classmethod
    def of(cls, owner: Int64Array, value: Int64Array, streams: int) -> Self:
        """Of (stream, value) pairs; the sum of the streams' largest values must fit int64."""
        kept = value > 0
        owner, value = owner[kept], value[kept]
        ceiling = np.zeros(streams, np.int64)
        np.maximum.at(ceiling, owner, value)
        lift = np.cumsum(ceiling + 1) - ceiling - 1
        lifted = np.sort(value + lift[owner])
        stop = np.cumsum(np.bincount(owner, minlength=streams))
        plain = lifted - np.repeat(lift, np.diff(stop, prepend=0))
        return cls(
            lift=lift,
            ceiling=ceiling,
            stop=stop,
            lifted=lifted,
            sums=np.concatenate(([0], np.cumsum(plain))),
        )

    def _first_above(self, owner: Int64Array, start: Int64Array) -> Int64Array:
        start = np.minimum(start, self.ceiling[owner])
        return np.searchsorted(self.lifted, self.lift[owner] + start, side="right")

    def above(self, owner: Int64Array, start: Int64Array) -> Int64Array:
        """How many values of each stream are greater than each start (starts >= 0)."""
        return self.stop[owner] - self._first_above(owner, start)

    def excess(self, owner: Int64Array, start: Int64Array) -> Int64Array:
        """Sum of (value - start) over the values greater than the start."""
        first, stop = self._first_above(owner, start), self.stop[owner]
        return self.sums[stop] - self.sums[first] - (stop - first) * start
