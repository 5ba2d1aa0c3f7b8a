"""What a load process does beside its streams: flushing rows, offset pairs, and watching itself."""

import asyncio
import time
from typing import Final

from cotenant.load.clock import read_pair
from cotenant.load.desk import Desk
from cotenant.records import LAG_PERIOD_NS
from cotenant.units import NS_PER_MS, NS_PER_S

_PAIR_NS: Final = 250 * NS_PER_MS
_FLUSH_NS: Final = NS_PER_S
# One hiccup shall spoil the stamps of its own time and no others.
_REPORT_NS: Final = 50 * NS_PER_MS


class Upkeep:
    """One task: each 5 ms a sleep's lateness, and a row of the worst each 50 ms; each 250 ms an offset pair;
    each second rows to disk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lag_ns, self._last_lag_ns = 0, 0
        self._error_ns = desk.transport.clock.error_ns

    async def run(self) -> None:
        """Until cancelled. Raises OSError where the disk refuses."""
        now_ns = time.monotonic_ns()
        next_pair_ns, next_flush_ns = now_ns + _PAIR_NS, now_ns + _FLUSH_NS
        next_report_ns = now_ns + _REPORT_NS
        while True:
            # From the last wake-up: what is done here keeps the loop from reading as well.
            until_ns = now_ns + LAG_PERIOD_NS
            await asyncio.sleep(LAG_PERIOD_NS / NS_PER_S)
            now_ns = time.monotonic_ns()
            self._last_lag_ns = max(now_ns - until_ns, 0)
            self._lag_ns = max(self._lag_ns, self._last_lag_ns)
            if now_ns >= next_report_ns:
                next_report_ns = now_ns + _REPORT_NS
                self._report_lag()
            if now_ns >= next_pair_ns:
                next_pair_ns = now_ns + _PAIR_NS
                self._desk.transport.clock.add(read_pair())
                self._error_ns = max(self._error_ns, self._desk.transport.clock.error_ns)
            if now_ns >= next_flush_ns:
                next_flush_ns = now_ns + _FLUSH_NS
                self.report()
                self.flush()

    def report(self) -> None:
        """The process' own figures since the last report; a row's lag is that of the time up to it."""
        self._report_lag()
        self._append("cpu_s", time.process_time())
        self._append("offset_bracket_ns", self._error_ns)
        self._error_ns = 0

    def _report_lag(self) -> None:
        self._append("loop_lag_ns", self._lag_ns)
        # What came in a standstill that ended just now may be read, and stamped, after this row.
        self._lag_ns = self._last_lag_ns

    def _append(self, metric: str, value: float) -> None:
        self._desk.writer.append(
            "host", t=time.monotonic_ns(), source=self._desk.settings.name, metric=metric, value=float(value)
        )

    def flush(self) -> None:
        """Rows to disk. Raises OSError."""
        self._desk.writer.flush()
        if self._desk.late_audio is not None:
            self._desk.late_audio.flush()
