"""The commands of a load process: warm, start, measure, drain, stop; and what it tells of their progress."""

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Literal

from cotenant.load.asker import start_askers
from cotenant.load.control import Control
from cotenant.load.desk import Desk
from cotenant.load.listener import start_voices
from cotenant.load.settings import CompletionsLoad, FacesLoad, VoicesLoad
from cotenant.load.solo_face import start_faces
from cotenant.load.stage import Stage
from cotenant.load.under_way import Figures
from cotenant.load.warm import warm
from cotenant.records import WARM_STAGE

_PROGRESS_S: Final = 0.5
_POLL_S: Final = 0.02


class Process:
    """The commands of one load process. A fault of ours in any task ends up in `failure`.

    `report_lag` closes the interval of which the loop's lag is known; `flush` puts rows on disk.
    """

    def __init__(
        self,
        desk: Desk,
        control: Control,
        failure: asyncio.Future[None],
        report_lag: Callable[[], None],
        flush: Callable[[], None],
    ) -> None:
        self._desk = desk
        self._control = control
        self._failure = failure
        self._report_lag = report_lag
        self._flush = flush
        self._stage: Stage | None = None
        self._watch: asyncio.Task[None] | None = None
        self._chores: set[asyncio.Task[None]] = set()

    async def obey(self, command: Mapping[str, Any]) -> bool:
        """Carries out one command; False after `stop`. Raises ValueError for an unknown one."""
        match command["do"]:
            case "warm":
                self._chore(self._warm(command["load"]))
            case "start":
                await self._start(command)
            case "measure":
                self._measure(command["start_ns"], command["end_ns"])
            case "drain":
                await self._drain("open")
                # What is measured is not lost with a process that dies in the next stage.
                self._flush()
                self._control.say({"event": "drained"})
            case "stop":
                await self._drain("aborted")
                return False
            case other:
                raise ValueError(f"no command {other!r}")
        return True

    async def end(self) -> None:
        """Stops everything that is under way."""
        await self._drain("aborted")

    def _new_stage(self, name: str, number: int, start_ns: int) -> Stage:
        return Stage(name=name, round=number, start_ns=start_ns, failure=self._failure)

    def _chore(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chore_ended)
        return task

    def _chore_ended(self, task: asyncio.Task[None]) -> None:
        self._chores.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _warm(self, name: str) -> None:
        stage = self._new_stage(WARM_STAGE, 0, time.monotonic_ns())
        try:
            warmth = await warm(self._desk, stage, name)
        finally:
            await stage.drain("aborted")
        self._control.say(warmth.event(name))

    async def _start(self, command: Mapping[str, Any]) -> None:
        await self._drain("open")
        stage = self._new_stage(command["stage"], command["round"], command["at_ns"])
        self._stage = stage
        loads = [self._desk.settings.loads[name] for name in command["loads"]]
        voices = {load.name for load in loads if isinstance(load, VoicesLoad)}
        for load in loads:
            if isinstance(load, VoicesLoad):
                faces = [one for one in loads if isinstance(one, FacesLoad) and one.follows == load.name]
                start_voices(self._desk, stage, load, faces)
            elif isinstance(load, CompletionsLoad):
                start_askers(self._desk, stage, load)
            elif load.follows not in voices:
                followed = self._desk.settings.loads.get(load.follows)
                start_faces(self._desk, stage, load, followed if isinstance(followed, VoicesLoad) else None)
        self._watch = self._chore(self._watch_stage(stage, [load.name for load in loads]))

    def _measure(self, start_ns: int, end_ns: int) -> None:
        if self._stage is None:
            raise ValueError("measure without start")
        self._stage.open_window(start_ns, end_ns)

    async def _drain(self, stopped_as: Literal["open", "aborted"]) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        for chore in tuple(self._chores):
            chore.cancel()
        await asyncio.gather(*tuple(self._chores), return_exceptions=True)
        if self._stage is not None:
            await self._stage.drain(stopped_as)
            self._stage = None
        # Collection is off while streams run; between stages it disturbs nobody, and counts against nobody.
        self._report_lag()
        gc.collect()

    async def _watch_stage(self, stage: Stage, loads: list[str]) -> None:
        """Says what the conductor waits for: settled loads, the followed window, progress: what was due in
        the window and has ended, and the voices under way in it (`cotenant.playback.under_way`)."""
        told: set[str] = set()
        progress_s = 0.0
        while True:
            for name in loads:
                if name not in told and stage.is_settled(name):
                    told.add(name)
                    self._control.say({"event": "settled", "load": name})
            followed = not stage.told_followed and stage.followed()
            # The conductor drains at once when all is followed: the last ones count before that.
            if progress_s <= 0 or followed:
                progress_s = _PROGRESS_S
                counts, under_way = stage.counts, self._under_way(stage)
                self._control.say(
                    {
                        "event": "progress",
                        "open": stage.open_streams(),
                        "streams": counts.streams + under_way.streams,
                        "failed": counts.failed + under_way.failed,
                        "underruns": counts.underruns + under_way.underruns,
                        "tokens": counts.tokens,
                    }
                )
            if followed:
                stage.told_followed = True
                self._control.say({"event": "followed"})
            await asyncio.sleep(_POLL_S)
            progress_s -= _POLL_S

    def _under_way(self, stage: Stage) -> Figures:
        window = stage.window_start_ns, stage.window_end_ns
        return stage.voices.figures(time.monotonic_ns(), *window, self._desk.settings.player)
