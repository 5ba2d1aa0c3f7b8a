"""An event loop whose clock is a number: a sleep of an hour takes no time, and always the same one."""

import asyncio
import selectors

from cotenant.units import NS_PER_S


class _Selector(selectors.DefaultSelector):
    """Instead of waiting, moves the clock on to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("nothing is scheduled any more: the tasks wait for each other")
        # At least one nanosecond, or a timer's rounding could keep the clock where it is.
        self.now_ns += max(1, round(timeout * NS_PER_S)) if timeout > 0 else 0
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at `start_ns`. Patch `time.monotonic_ns` with `now_ns` where the code under test reads it."""

    def __init__(self, start_ns: int = 1_000_000_000_000) -> None:
        self._virtual = _Selector()
        self._virtual.now_ns = start_ns
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_ns / NS_PER_S

    def now_ns(self) -> int:
        """The virtual monotonic clock."""
        return self._virtual.now_ns
