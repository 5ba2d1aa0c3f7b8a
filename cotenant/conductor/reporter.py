"""Turns where the run stands into what the progress line shows."""

import asyncio
import time
from collections.abc import Sequence

from cotenant.conductor.context import Run, State
from cotenant.conductor.gone import lacking
from cotenant.conductor.plan import LEAST_TAIL_NS, Window
from cotenant.live import progress


class Reporter:
    """Where the run stands: the step of the plan, its phase, and how much time is left at least.

    What a window takes beyond its plan (until all have settled, and until the last ones have ended) is taken
    to be at least what any took so far whose loads it has too. By what it was extended tells of no other.
    """

    def __init__(self, run: Run, state: State, plan: Sequence[Window]) -> None:
        self._run, self._state, self._plan = run, state, plan
        self._step, self._phase, self._end_ns = 0, "", 0
        self._start_ns, self._tails_ns = 0, list[tuple[frozenset[str], int]]()
        self._left_out: tuple[str, str] | None = None

    def window(self, step: int, window: Window) -> None:
        self._step, self._state.counts, self._left_out = step, {}, None
        self._start_ns = time.monotonic_ns()
        self._end_ns = self._start_ns + self._least_ns(window)
        self.phase("settling")  # not that of the window before

    def over(self) -> None:
        """The window is over: what it took tells something of the others."""
        self._end_ns = time.monotonic_ns()
        window = self._plan[self._step - 1]
        rest_ns = self._end_ns - self._start_ns - window.settle_ns
        looked_ns = max([window.measure_ns, *(look_ns for look_ns in window.looks_ns if look_ns <= rest_ns)])
        self._tails_ns.append((frozenset(window.loads), rest_ns - looked_ns))
        self.phase("done")

    def left_out(self, step: int, window: Window, why: str) -> None:
        """A window that is not run; nothing of it is left to wait for."""
        self._step, self._state.counts, self._left_out = step, {}, (window.stage, why)
        self._end_ns = time.monotonic_ns()
        self.phase("not run")

    def phase(self, phase: str) -> None:
        self._phase = phase
        self.show()

    def show(self) -> None:
        left_ns = None
        if self._step:
            rest = [window for window in self._plan[self._step :] if self._will_run(window)]
            rest_ns = sum(map(self._least_ns, rest))
            left_ns = rest_ns + max(0, self._end_ns - time.monotonic_ns())
        total = {
            key: sum(int(event.get(key) or 0) for event in self._state.counts.values())
            for key in ("streams", "underruns", "failed")
        }
        stage, not_run = self._left_out or (self._state.stage, "")
        self._run.progress.show(
            progress.State(
                stage=stage,
                not_run=not_run,
                phase=self._phase,
                step=self._step,
                steps=len(self._plan),
                left_ns=left_ns,
                **total,
            )
        )

    def _least_ns(self, window: Window) -> int:
        known_ns = [tail_ns for loads, tail_ns in self._tails_ns if loads <= set(window.loads)]
        return window.planned_ns + max([LEAST_TAIL_NS, *known_ns])

    def _will_run(self, window: Window) -> bool:
        return lacking(self._run.scenario, window, self._state.gone) is None

    async def tick(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            self.show()
