"""Entry of a load process: obeys the conductor over a Unix socket, runs its loads, writes their rows."""

import asyncio
import contextlib
import errno
import gc
import os
import sys
import time
from typing import Final

import uvloop

from cotenant import tls
from cotenant.errors import ExitCode
from cotenant.load.clock import ClockMap, read_pair
from cotenant.load.commands import Process
from cotenant.load.control import Control, Hangup
from cotenant.load.desk import Desk
from cotenant.load.face_link import web_session
from cotenant.load.settings import Settings, VoicesLoad, read_settings
from cotenant.load.sockets import keep_stamps_on
from cotenant.load.transport import Transport
from cotenant.load.upkeep import Upkeep
from cotenant.run_dir.writer import RunWriter
from cotenant.tls import Trust

CONTROL_ENV: Final = "COTENANT_CONTROL"
NAME_ENV: Final = "COTENANT_NAME"
_LINE_LIMIT_BYTES: Final = 16 * 2**20


async def run(control: Control, name: str) -> None:
    """The whole life of a load process after it has connected. Raises what went wrong of ours."""
    control.say({"event": "hello", "name": name, "pid": os.getpid()})
    try:
        settings = read_settings(await control.hear())
    except Hangup:
        return
    pin(settings.index)
    realtime = ask_for_realtime()
    held = keep_stamps_on()
    clock = ClockMap(read_pair())
    writers = open_writers(settings)
    loop = asyncio.get_running_loop()
    failure: asyncio.Future[None] = loop.create_future()
    async with web_session() as web:
        desk = Desk(
            settings=settings,
            writer=writers[0],
            late_audio=writers[1],
            transport=Transport(clock, trust=trust_of(settings)),
            web=web,
        )
        writers[0].append(
            "host", t=time.monotonic_ns(), source=settings.name, metric="realtime", value=float(realtime)
        )
        keeper = Upkeep(desk)
        process = Process(desk, control, failure, keeper.report, keeper.flush)
        upkeep = loop.create_task(keeper.run())
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
    if not failure.cancelled():
        failure.result()  # it came while all was being ended


async def _obey(process: Process, control: Control) -> None:
    with contextlib.suppress(Hangup):
        while await process.obey(await control.hear()):
            pass


def trust_of(settings: Settings) -> Trust:
    """The certificates that each tenant's servers may have. Raises UserError."""
    return Trust(
        own={
            place: tls.context(tenant.ca_file, insecure=tenant.insecure)
            for tenant in settings.tenants.values()
            if tenant.ca_file is not None or tenant.insecure
            for url in tenant.urls
            if (place := tls.origin(url)) is not None
        }
    )


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


def ask_for_realtime() -> bool:
    """SCHED_FIFO where it is allowed, so that busy cores hardly delay our sends and reads; whether it is."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except (OSError, AttributeError):
        return False
    return True


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
