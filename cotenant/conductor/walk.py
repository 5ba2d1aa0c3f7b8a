"""The windows of a run, one after the other; what needs a service that is gone is not run, and named."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cotenant.conductor import looks
from cotenant.conductor.context import Run, State
from cotenant.conductor.gone import Gone, ended_by, lacking, needed, needed_by
from cotenant.conductor.plan import Window
from cotenant.conductor.reporter import Reporter
from cotenant.errors import CouldNotRun
from cotenant.records import AGAIN_SUFFIX, NOT_RUN, SOLO_PREFIX
from cotenant.tenants import attach


class LadderStopped(Exception):
    """The run cannot go on; what was recorded stays and is judged. The message is for the user."""


@dataclass(slots=True, kw_only=True)
class Walk:
    """A walk through the windows of a run. `measured`: whether a stage has been; `without`: who was missed by
    those that were not run."""

    run: Run
    state: State
    refuses: Callable[[str], Awaitable[bool]] = attach.refuses
    failed: Callable[[Path, str], Awaitable[bool]] = looks.failed
    measured: bool = False
    not_run: list[Window] = field(default_factory=list)
    without: dict[str, Gone] = field(default_factory=dict)

    async def through(
        self, plan: Sequence[Window], run_one: Callable[[Window], Awaitable[None]], report: Reporter
    ) -> None:
        """Runs what can be run. Raises CouldNotRun where a service of ours ends before a stage was measured,
        LadderStopped at the end where one did later, where a window was not run, or where the closing
        baseline had nobody to ask; what `run_one` raises.
        """
        for step, window in enumerate(plan, start=1):
            self._check()
            if (gone := await self._lacking(window)) is not None:
                self._leave_out(window, gone)
                report.left_out(step, window, gone.why)
                continue
            self.state.stage = window.stage
            report.window(step, window)
            await run_one(window)
            report.over()
            self.measured = self.measured or not window.stage.startswith(SOLO_PREFIX)
        self._check()
        if missed := {
            one.tenant: one for one in (*self.without.values(), *self.state.lost, *self._at_the_end())
        }:
            raise LadderStopped(ended_by(list(missed.values()), self.not_run))

    def _at_the_end(self) -> list[Gone]:
        """Who was missed in the closing baseline, which no gate looks at: it is as lost as one that ended."""
        found = self.state.gone.values()
        return [one for one in found if one.missed_in is not None and one.missed_in.endswith(AGAIN_SUFFIX)]

    def _check(self) -> None:
        if self.state.stopped is not None:
            raise LadderStopped(self.state.stopped) if self.measured else CouldNotRun(self.state.stopped)
        if self.state.lost and not self.measured:
            raise CouldNotRun(ended_by(self.state.lost, ()))

    async def _lacking(self, window: Window) -> Gone | None:
        for tenant in needed(self.run.scenario, window.loads):
            gone = self.state.gone.get(tenant)
            if gone is None or gone.for_good:
                continue
            if not await self._is_refused(tenant):
                self.state.found(tenant)
            elif gone.missed_in is not None and not gone.judged:
                judged = await self.failed(self.run.run_dir, gone.missed_in)
                self.state.lose(replace(gone, judged=judged))
        return lacking(self.run.scenario, window, self.state.gone)

    def _leave_out(self, window: Window, gone: Gone) -> None:
        self.not_run.append(window)
        self.without[gone.tenant] = gone
        told = {"stage": window.stage, "round": window.round, "tenant": gone.tenant, "why": gone.why}
        self.run.note("not_run", [*self.run.manifest.get("not_run", ()), told])
        # After the reason is there: whoever follows the marks reads it then.
        self.run.mark_now("fault", NOT_RUN + window.stage)

    async def hopeless(self, load: str, window: Window) -> None:
        """Until a load of a window can have no output any more."""
        tenants = needed_by(self.run.scenario, load, window.loads)
        waits = [asyncio.ensure_future(self.state.leaves(tenant)) for tenant in tenants]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def unsettled(self, stage: str, loads: Iterable[str]) -> None:
        """Looks whether the services of loads without output are there at all: attached ones and what a
        launched program may start again."""
        for tenant in needed(self.run.scenario, loads):
            known = self.state.gone.get(tenant)
            if known is not None and known.for_good:
                continue
            if self.run.scenario.tenants[tenant].engine == "builtin" or not await self._is_refused(tenant):
                continue
            if known is None:
                self.run.mark_now("fault", f"refused:{tenant}")
            since = stage if known is None else known.stage
            missed_in = None if stage.startswith(SOLO_PREFIX) else stage
            self.state.lose(Gone(tenant=tenant, stage=since, missed_in=missed_in))

    async def _is_refused(self, tenant: str) -> bool:
        url = self.run.scenario.tenants[tenant].url
        return url is not None and await self.refuses(url)
