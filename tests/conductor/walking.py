"""A walk through the packaged ladder in which nothing is measured, and services are lost."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from cotenant.conductor.context import Run, State
from cotenant.conductor.plan import Window, windows
from cotenant.conductor.preflight import Device
from cotenant.conductor.reporter import Reporter
from cotenant.conductor.walk import LadderStopped, Walk
from cotenant.live import progress
from cotenant.run_dir.writer import RunWriter
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load

ATTACHED = ("tenants.tts.engine=attach", "tenants.tts.url=http://127.0.0.1:9")
Event = Callable[["Told"], None]


class Told:
    """A walk through `all-together` in which nothing is measured: what ran, what was shown and recorded."""

    def __init__(self, folder: Path, *overrides: str, refused: Sequence[str] = ()) -> None:
        self.shown: list[progress.State] = []
        self.refused = set(refused)
        self.ran: list[str] = []
        self.given_up: list[str] = []
        (folder / "logs").mkdir()
        self.run = Run(
            scenario=resolve(load("all-together", list(overrides)), "cpu"),
            device=Device(kind="cpu", name="test", cpu_count=2),
            run_dir=folder,
            run_id="r",
            writer=RunWriter(folder, "conductor", audio_limit_bytes=None),
            progress=self,
            audio_limit_bytes=0,
            manifest={"schema": 1, "tool": "cotenant"},
        )
        self.state = State()
        self.failing = True
        self.walk = Walk(run=self.run, state=self.state, refuses=self._refuses, failed=self._failed)
        self.plan = windows(self.run.scenario)

    async def _failed(self, _run_dir: Path, stage: str) -> bool:
        assert stage in self.ran
        return self.failing

    async def _refuses(self, url: str) -> bool:
        return url in self.refused

    def show(self, state: progress.State) -> None:
        self.shown.append(state)

    def line(self, text: str) -> None:
        raise AssertionError(text)

    def close(self) -> None:
        pass

    def end(self, process: str, how: str = "SIGKILL") -> None:
        self.state.ended(self.run, process, how)

    def through(self, events: dict[str, Event]) -> str:
        """Walks; `events` happen in the window of their name. What the run ended by, `""` if by nothing."""

        async def one(window: Window) -> None:
            self.ran.append(window.stage)
            if window.stage in events:
                events[window.stage](self)
            for name in window.loads:
                hopeless = asyncio.ensure_future(self.walk.hopeless(name, window))
                for _ in range(9):
                    await asyncio.sleep(0)
                if hopeless.done():
                    self.given_up.append(f"{window.stage}: {name}")
                hopeless.cancel()
                await asyncio.gather(hopeless, return_exceptions=True)
            if self.refused and "voices" in window.loads:
                await self.walk.unsettled(window.stage, ["voices"])

        async def main() -> str:
            try:
                await self.walk.through(self.plan, one, Reporter(self.run, self.state, self.plan))
            except LadderStopped as stopped:
                return str(stopped)
            return ""

        try:
            return asyncio.run(main())
        finally:
            self.run.writer.close()

    @property
    def not_run(self) -> list[str]:
        return [one["stage"] for one in self.run.manifest.get("not_run", ())]


SOLO = ["solo:faces", "solo:decode", "solo:prefill"]
LADDER = ["tts-alone", "talking-head", "llm-decode", "llm-long-prefill", "all-together"]
AGAIN = "tts-alone/again"
