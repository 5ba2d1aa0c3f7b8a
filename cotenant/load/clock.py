"""Wall-clock stamps on the monotonic clock: offset pairs and the line through them."""

import time
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import Final

_BRACKETS: Final = 15
_PAIRS_KEPT: Final = 4096
# A step of the wall clock, no drift: two pairs this far off their line do not belong on one.
_STEP_NS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One reading of both clocks; the true offset is within half of `bracket_ns` of this one."""

    wall_ns: int
    mono_ns: int
    bracket_ns: int


def read_pair() -> Pair:
    """The tightest of 15 readings (monotonic, wall, monotonic). About 5 us."""
    best: Pair | None = None
    for _ in range(_BRACKETS):
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        after_ns = time.monotonic_ns()
        if best is None or after_ns - before_ns < best.bracket_ns:
            best = Pair(wall_ns=wall_ns, mono_ns=(before_ns + after_ns) // 2, bracket_ns=after_ns - before_ns)
    assert best is not None
    return best


class ClockMap:
    """Wall -> monotonic by the pairs around a stamp; past the last pair by the line through the last two.

    `error_ns` is the mapping's error as last seen: the bracket in use, or how far the newest pair lay off the
    line through the ones before it, whichever is more.
    """

    def __init__(self, first: Pair) -> None:
        self._walls: deque[int] = deque([first.wall_ns], maxlen=_PAIRS_KEPT)
        self._pairs: deque[Pair] = deque([first], maxlen=_PAIRS_KEPT)
        self.error_ns = first.bracket_ns

    def add(self, pair: Pair) -> None:
        """Takes a newer pair in; one whose wall clock went back starts the map anew."""
        missed_ns = abs(self.to_mono_ns(pair.wall_ns) - pair.mono_ns)
        self.error_ns = max(pair.bracket_ns, missed_ns)
        if pair.wall_ns <= self._walls[-1] or missed_ns > _STEP_NS:
            self._walls.clear()
            self._pairs.clear()
        self._walls.append(pair.wall_ns)
        self._pairs.append(pair)

    def to_mono_ns(self, wall_ns: int) -> int:
        """The monotonic time of a wall stamp."""
        pairs = self._pairs
        if len(pairs) == 1:
            return wall_ns + pairs[0].mono_ns - pairs[0].wall_ns
        at = len(pairs) - 1 if wall_ns >= self._walls[-2] else max(1, bisect_right(self._walls, wall_ns))
        low, high = pairs[at - 1], pairs[at]
        rate_num, rate_den = high.mono_ns - low.mono_ns, high.wall_ns - low.wall_ns
        return low.mono_ns + (wall_ns - low.wall_ns) * rate_num // rate_den
