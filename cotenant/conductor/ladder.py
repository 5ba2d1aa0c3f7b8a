"""One run from the first process started to the last one ended: tenants, load, warm-up, windows."""

import asyncio
import contextlib
import errno
import os
import tempfile
import time
from pathlib import Path
from typing import Final

from cotenant.conductor import looks, sharing, start, watch
from cotenant.conductor.context import LOAD, Run, State
from cotenant.conductor.control import ControlServer, LoadProcess, LoadProcessLost
from cotenant.conductor.plan import windows
from cotenant.conductor.reporter import Reporter
from cotenant.conductor.stage import StagePorts, run_window
from cotenant.conductor.walk import LadderStopped, Walk
from cotenant.errors import CouldNotRun
from cotenant.tenants import launch
from cotenant.tenants.reaper_client import Reaper
from cotenant.units import NS_PER_S

_STOP_LIMIT_S: Final = 3.0
_EXIT_LIMIT_S: Final = 1.0
_SOCKET_FOLDER_BYTES: Final = 70


async def climb(run: Run) -> None:
    """Runs everything and stops what it started, also when cancelled.

    Raises CouldNotRun where nothing could be measured, LadderStopped where a part of the ladder was.
    """
    state = State()
    with tempfile.TemporaryDirectory(prefix="cotenant-", dir=_short_folder()) as control_dir:
        control = ControlServer(Path(control_dir) / "control", state.count)
        await control.start()
        try:
            async with await Reaper.start(
                lambda name, how: state.ended(run, name, str(how)),
                socket=control.path,
                cpus=run.manifest["cores"]["tenants"],
            ) as reaper:
                try:
                    await _go(run, state, control, reaper)
                finally:
                    state.closing = True
                    await _stop_load(control)
                    await sharing.stop(run, reaper, state.mps)
        finally:
            await control.close()


async def _go(run: Run, state: State, control: ControlServer, reaper: Reaper) -> None:
    plan = windows(run.scenario)
    report = Reporter(run, state, plan)
    report.phase("starting the tenants")
    state.mps = await sharing.start(run, reaper)
    shared_env = {} if state.mps is None else state.mps.env
    urls = await start.start_tenants(run, reaper, shared_env)
    # An attached server may be at work for others.
    ours = [url for name in urls if run.scenario.tenants[name].engine != "attach" for url in urls[name]]
    processes = await start.start_load(run, control, reaper, urls)
    await watch.start_observers(run, reaper, urls, shared_env)
    await start.warm(run, state, processes, report)
    await sharing.verify(run, reaper, state.mps)
    watch.note_observers(run, tell=True)
    walk = Walk(run=run, state=state)
    ports = StagePorts(
        now_ns=time.monotonic_ns,
        sleep_until_ns=_sleep_until_ns,
        mark=run.mark,
        wait_idle=lambda limit_ns: launch.wait_idle(ours, limit_ns=limit_ns),
        phase=report.phase,
        decided=lambda stage: looks.decided(run.run_dir, stage),
        hopeless=walk.hopeless,
        unsettled=walk.unsettled,
    )
    ticker = asyncio.create_task(report.tick())
    try:
        await walk.through(plan, lambda one: run_window(one, processes, run.scenario.timing, ports), report)
    except LoadProcessLost as lost:
        await _raise_lost(run, control, reaper, lost, walk.measured)
    finally:
        ticker.cancel()
        await asyncio.gather(ticker, return_exceptions=True)
        watch.note_observers(run, tell=False)  # one that ended in mid-run has said why


async def _raise_lost(
    run: Run, control: ControlServer, reaper: Reaper, lost: LoadProcessLost, measured: bool
) -> None:
    run.mark_now("fault", LOAD + lost.name)
    why = str(lost)
    try:
        async with asyncio.timeout(_EXIT_LIMIT_S):
            why += f" ({await reaper.wait_exit(LOAD + lost.name)})"
    except TimeoutError:
        pass  # it hung up, but runs on
    if any(process.errno == errno.ENOSPC for process in control.processes.values()):
        raise CouldNotRun(f"the disk that holds {run.run_dir} is full; free some space and run again")
    if not measured:
        raise CouldNotRun(f"{why}; its log is in {run.own_logs()}")
    raise LadderStopped(why)


def _short_folder() -> str | None:
    """Where the control socket goes: its path has to fit into 108 bytes, whatever TMPDIR is."""
    return None if len(os.fsencode(tempfile.gettempdir())) <= _SOCKET_FOLDER_BYTES else "/tmp"


async def _stop_load(control: ControlServer) -> None:
    """Lets the load processes write what they hold; the reaper ends the ones that do not."""

    async def stop(process: LoadProcess) -> None:
        with contextlib.suppress(LoadProcessLost, TimeoutError):
            async with asyncio.timeout(_STOP_LIMIT_S):
                await process.send(do="stop")
                await process.ended()

    await asyncio.gather(*map(stop, control.processes.values()))


async def _sleep_until_ns(t_ns: int) -> None:
    # The loop's clock is CLOCK_MONOTONIC too; a sleep may end a little early.
    while (left_ns := t_ns - time.monotonic_ns()) > 0:  # noqa: ASYNC110
        await asyncio.sleep(left_ns / NS_PER_S)
