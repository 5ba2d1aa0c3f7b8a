"""Entry of a load process: obeys the conductor over a Unix socket, runs its loads, writes their rows."""

import asyncio
import contextlib
import errno
import gc
import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import uvloop

from cotenant.errors import ExitCode
from cotenant.load.asker import start_askers
from cotenant.load.clock import ClockMap, read_pair
from cotenant.load.desk import Desk
from cotenant.load.listener import start_voices
from cotenant.load.settings import CompletionsLoad, FacesLoad, Settings, VoicesLoad, read_settings
from cotenant.load.sockets import keep_stamps_on
from cotenant.load.solo_face import start_faces
from cotenant.load.stage import Stage
from cotenant.load.transport import Transport
from cotenant.load.upkeep import Upkeep
from cotenant.load.warm import warm
from cotenant.records import WARM_STAGE
from cotenant.run_dir.writer import RunWriter

CONTROL_ENV: Final = "COTENANT_CONTROL"
NAME_ENV: Final = "COTENANT_NAME"
_LINE_LIMIT_BYTES: Final = 16 * 2**20
_PROGRESS_S: Final = 0.5
_POLL_S: Final = 0.02


class _Hangup(Exception):
    """The conductor is gone."""


class Control:
    """The child's end of the control socket: one JSON object a line, both ways."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, event: Mapping[str, Any]) -> None:
        """Sends an event; a conductor that is gone is found out by `hear`."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(event).encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        """The next line. Raises _Hangup at the end of the socket."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            line = b""
        if not line.endswith(b"\n"):
            raise _Hangup
        value: dict[str, Any] = json.loads(line)
        return value

    async def close(self) -> None:
        """Sends what is left, unless nobody takes it within a second."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await self._writer.drain()
        self._writer.close()


class Process:
    """The commands of one load process. A fault of ours in any task ends up in `failure`."""

    def __init__(self, desk: Desk, control: Control, failure: asyncio.Future[None]) -> None:
        self._desk = desk
        self._control = control
        self._failure = failure
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
                await self._drain()
                self._control.say({"event": "drained"})
            case "stop":
                await self._drain()
                return False
            case other:
                raise ValueError(f"no command {other!r}")
        return True

    async def end(self) -> None:
        """Stops everything that is under way."""
        await self._drain()

    def _new_stage(self, name: str, number: int, start_ns: int) -> Stage:
        return Stage(name=name, round=number, start_ns=start_ns, failure=self._failure)

    def _chore(self, work: Any) -> asyncio.Task[None]:
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
            await stage.drain()
        self._control.say(warmth.event(name))

    async def _start(self, command: Mapping[str, Any]) -> None:
        await self._drain()
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
        self._stage.window_start_ns, self._stage.window_end_ns = start_ns, end_ns
        self._stage.told_followed = False

    async def _drain(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        for chore in tuple(self._chores):
            chore.cancel()
        await asyncio.gather(*tuple(self._chores), return_exceptions=True)
        if self._stage is not None:
            await self._stage.drain()
            self._stage = None
        # Collection is off while streams run; between stages it disturbs nobody.
        gc.collect()

    async def _watch_stage(self, stage: Stage, loads: list[str]) -> None:
        """Says what the conductor waits for: settled loads, the followed window, progress."""
        told: set[str] = set()
        progress_s = 0.0
        while True:
            for name in loads:
                if name not in told and stage.is_settled(name):
                    told.add(name)
                    self._control.say({"event": "settled", "load": name})
            if not stage.told_followed and stage.followed():
                stage.told_followed = True
                self._control.say({"event": "followed"})
            if progress_s <= 0:
                progress_s = _PROGRESS_S
                counts = stage.counts
                self._control.say(
                    {
                        "event": "progress",
                        "open": stage.open_streams(),
                        "streams": counts.streams,
                        "failed": counts.failed,
                        "underruns": counts.underruns,
                        "tokens": counts.tokens,
                    }
                )
            await asyncio.sleep(_POLL_S)
            progress_s -= _POLL_S


async def run(control: Control, name: str) -> None:
    """The whole life of a load process after it has connected. Raises what went wrong of ours."""
    control.say({"event": "hello", "name": name, "pid": os.getpid()})
    try:
        settings = read_settings(await control.hear())
    except _Hangup:
        return
    pin(settings.index)
    held = keep_stamps_on()
    clock = ClockMap(read_pair())
    writers = open_writers(settings)
    loop = asyncio.get_running_loop()
    failure: asyncio.Future[None] = loop.create_future()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as web:
        desk = Desk(
            settings=settings, writer=writers[0], late_audio=writers[1], transport=Transport(clock), web=web
        )
        process = Process(desk, control, failure)
        upkeep = loop.create_task(Upkeep(desk).run())
        gc.collect()
        gc.freeze()
        gc.disable()
        obeying = loop.create_task(_obey(process, control))
        try:
            done, _ = await asyncio.wait((obeying, upkeep, failure), return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for task in (obeying, upkeep):
                task.cancel()
            await asyncio.gather(obeying, upkeep, return_exceptions=True)
            await process.end()
            failure.cancel()
            gc.enable()
            held.close()
            for writer in writers:
                if writer is not None:
                    writer.close()


async def _obey(process: Process, control: Control) -> None:
    with contextlib.suppress(_Hangup):
        while await process.obey(await control.hear()):
            pass


def open_writers(settings: Settings) -> tuple[RunWriter, RunWriter | None]:
    """The run's writer, and a second one for audio that stalled after the first had reached its limit."""
    limit_bytes = settings.audio_limit_bytes
    first = RunWriter(settings.run_dir, settings.name, audio_limit_bytes=limit_bytes)
    voices = any(isinstance(load, VoicesLoad) for load in settings.loads.values())
    if not limit_bytes or not voices:
        return first, None
    # Its name sorts after the first one's: of two rows with one number the reader takes the later.
    return first, RunWriter(settings.run_dir, f"{settings.name}-stalled", audio_limit_bytes=limit_bytes)


def pin(index: int) -> None:
    """A core of its own for each load process, from the last one down, where there are more than two."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 2:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {cores[-1 - index % (len(cores) - 1)]})


async def _main() -> int:
    reader, writer = await asyncio.open_unix_connection(os.environ[CONTROL_ENV], limit=_LINE_LIMIT_BYTES)
    control = Control(reader, writer)
    try:
        await run(control, os.environ[NAME_ENV])
    except Exception as error:  # noqa: BLE001 - the last line: whatever it is, the conductor must hear of it
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        text = f"disk full: {error}" if full else f"{type(error).__name__}: {error}"
        control.say({"event": "crashed", "error": text, **({"errno": errno.ENOSPC} if full else {})})
        sys.excepthook(type(error), error, error.__traceback__)
        return ExitCode.OUR_FAULT
    finally:
        await control.close()
    return 0


def main() -> int:
    """Runs the load process that the environment describes; its exit code."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main())


if __name__ == "__main__":
    sys.exit(main())
