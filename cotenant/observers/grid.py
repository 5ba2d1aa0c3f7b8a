"""An absolute sampling grid: ticks at origin + k * period; one that was missed is left out, never made up."""

import time
from collections.abc import Callable, Iterator

from cotenant.units import NS_PER_S


def next_tick_ns(now_ns: int, origin_ns: int, period_ns: int) -> int:
    """The first tick after `now_ns`."""
    return origin_ns + ((now_ns - origin_ns) // period_ns + 1) * period_ns


def ticks(period_ns: int, wait_s: Callable[[float], bool]) -> Iterator[int]:
    """Yields each tick's due time once it has come, the first after one period, until `wait_s` gives True.

    `wait_s` sleeps for so long (threading.Event.wait does) and says whether to stop.
    """
    origin_ns = time.monotonic_ns()
    due_ns = origin_ns + period_ns
    while True:
        while (left_ns := due_ns - time.monotonic_ns()) > 0:
            if wait_s(left_ns / NS_PER_S):
                return
        if wait_s(0):
            return
        yield due_ns
        due_ns = next_tick_ns(max(due_ns, time.monotonic_ns()), origin_ns, period_ns)
