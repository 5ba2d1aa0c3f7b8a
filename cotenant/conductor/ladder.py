"""One run from the first process started to the last one ended: tenants, load, warm-up, windows."""

import asyncio
import errno
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant.conductor import looks
from cotenant.conductor.control import ControlServer, LoadProcess, LoadProcessLost
from cotenant.conductor.load_spec import group_loads, load_specs
from cotenant.conductor.plan import Window, used_loads, used_tenants, windows
from cotenant.conductor.preflight import Device
from cotenant.conductor.stage import StagePorts, run_window
from cotenant.errors import CouldNotRun
from cotenant.live.progress import Progress, State
from cotenant.records import SOLO_PREFIX
from cotenant.run_dir.writer import RunWriter
from cotenant.scenario.auto import LONG_TEXTS
from cotenant.scenario.schema import Scenario
from cotenant.tenants import launch
from cotenant.tenants.reaper_client import Reaper
from cotenant.units import NS_PER_S

HELLO_LIMIT_S = 30.0
STOP_LIMIT_S = 3.0
WARM_LIMIT_S = 120.0
EXIT_LIMIT_S = 1.0

# Ids in the reaper; a tenant's name has no colon.
_LOAD = "load:"
_OBSERVER = "observer:"


class LadderStopped(Exception):
    """The run cannot go on; what was recorded stays and is judged. The message is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run is made of. `scenario` is resolved."""

    scenario: Scenario
    device: Device
    run_dir: Path
    run_id: str
    writer: RunWriter
    progress: Progress
    audio_limit_bytes: int


@dataclass(slots=True, kw_only=True)
class _State:
    """What changes while a run goes on."""

    stage: str = "start"
    stopped: str | None = None
    closing: bool = False
    counts: dict[str, Mapping[str, Any]] = field(default_factory=dict)


async def climb(run: Run) -> None:
    """Runs everything and stops what it started, also when cancelled.

    Raises CouldNotRun where nothing could be measured, LadderStopped where a part of the ladder was.
    """
    state = _State()
    with tempfile.TemporaryDirectory(prefix="cotenant-") as control_dir:
        control = ControlServer(Path(control_dir) / "control", lambda name, event: _count(state, name, event))
        await control.start()
        try:
            async with await Reaper.start(lambda name, how: _ended(run, state, name, str(how))) as reaper:
                try:
                    await _go(run, state, control, reaper)
                finally:
                    state.closing = True
                    await _stop_load(control)
        finally:
            await control.close()


async def _go(run: Run, state: _State, control: ControlServer, reaper: Reaper) -> None:
    plan = windows(run.scenario)
    report = _Reporter(run, state, plan)
    report.phase("starting the tenants", None)
    urls, builtin_urls = await _start_tenants(run, reaper)
    processes = await _start_load(run, control, reaper, urls)
    await _start_observers(run, reaper)
    await _warm(run, state, processes, report)
    ports = StagePorts(
        now_ns=time.monotonic_ns,
        sleep_until_ns=_sleep_until_ns,
        mark=lambda what, name, edge, t: _mark(run, what, name, edge, t),
        wait_idle=lambda limit_ns: launch.wait_idle(builtin_urls, limit_ns=limit_ns),
        phase=report.phase,
        decided=lambda stage: looks.decided(run.run_dir, stage),
    )
    ticker = asyncio.create_task(report.tick())
    measured = False
    try:
        for step, window in enumerate(plan, start=1):
            state.stage = window.stage
            report.window(step, window)
            try:
                await run_window(window, processes, run.scenario.timing, ports)
            except LoadProcessLost as lost:
                await _raise_lost(run, control, reaper, lost, measured)
            measured = measured or not window.stage.startswith(SOLO_PREFIX)
            if state.stopped is not None:
                raise LadderStopped(state.stopped)
    finally:
        ticker.cancel()
        await asyncio.gather(ticker, return_exceptions=True)


async def _raise_lost(
    run: Run, control: ControlServer, reaper: Reaper, lost: LoadProcessLost, measured: bool
) -> None:
    _mark(run, "fault", _LOAD + lost.name, "start", time.monotonic_ns())
    why = str(lost)
    try:
        async with asyncio.timeout(EXIT_LIMIT_S):
            why += f" ({await reaper.wait_exit(_LOAD + lost.name)})"
    except TimeoutError:
        pass  # it hung up, but runs on
    if any(process.errno == errno.ENOSPC for process in control.processes.values()):
        raise CouldNotRun(f"the disk that holds {run.run_dir} is full; free some space and run again")
    if not measured:
        raise CouldNotRun(f"{why}; its log is in {_own_logs(run)}")
    raise LadderStopped(why)


async def _start_tenants(run: Run, reaper: Reaper) -> tuple[dict[str, list[str]], list[str]]:
    urls: dict[str, list[str]] = {}
    builtin: list[str] = []
    for name in used_tenants(run.scenario):
        tenant = run.scenario.tenants[name]
        _mark(run, "tenant", name, "start", time.monotonic_ns())
        urls[name] = await launch.start(
            reaper,
            name,
            tenant,
            device_kind=run.device.kind,
            log_dir=run.run_dir / "logs",
            seed=run.scenario.seed,
        )
        if tenant.engine == "builtin":
            builtin += urls[name]
    return urls, builtin


async def _start_load(
    run: Run, control: ControlServer, reaper: Reaper, urls: Mapping[str, Sequence[str]]
) -> dict[str, LoadProcess]:
    """Load -> its process, connected and told what to do."""
    specs = load_specs(
        run.scenario,
        urls,
        run_dir=run.run_dir,
        run_id=run.run_id,
        long_texts=LONG_TEXTS[run.device.kind],
        audio_limit_bytes=run.audio_limit_bytes // max(1, len(group_loads(run.scenario))),
    )
    by_load: dict[str, LoadProcess] = {}
    for name, spec in specs.items():
        process = control.expect(name)
        await reaper.spawn(
            _LOAD + name,
            [sys.executable, "-m", "cotenant.load.process"],
            env={"COTENANT_CONTROL": str(control.path), "COTENANT_NAME": name},
            log=_own_logs(run) / f"load-{name}.log",
        )
        try:
            async with asyncio.timeout(HELLO_LIMIT_S):
                await process.wait("connected")
                await process.send(**spec)
        except (TimeoutError, LoadProcessLost) as error:
            raise CouldNotRun(
                f"the load process {name!r} did not start ({error}); see {_own_logs(run)}"
            ) from None
        by_load.update(dict.fromkeys(spec["loads"], process))
    return by_load


async def _start_observers(run: Run, reaper: Reaper) -> None:
    """The host observer, after the tenants that it watches; a load process reports its own CPU time."""
    pids = ",".join(f"{name}={pid}" for name, pid in sorted(reaper.pids().items()) if ":" not in name)
    await reaper.spawn(
        f"{_OBSERVER}host",
        [sys.executable, "-m", "cotenant.observers.host", "--run-dir", str(run.run_dir), "--pids", pids],
        log=_own_logs(run) / "observer-host.log",
    )


def _own_logs(run: Run) -> Path:
    """Apart from the tenants' logs, whose names are the user's."""
    folder = run.run_dir / "logs" / "own"
    folder.mkdir(exist_ok=True)
    return folder


async def _warm(run: Run, state: _State, processes: Mapping[str, LoadProcess], report: "_Reporter") -> None:
    """One request per planned stream; a service that answers none of them ends the run."""
    for load in used_loads(run.scenario):
        report.phase(f"warming {load}", None)
        process = processes[load]
        process.forget()
        try:
            await process.send(do="warm", load=load)
            async with asyncio.timeout(WARM_LIMIT_S):
                warmed = await process.wait("warmed", load=load)
        except LoadProcessLost as lost:
            raise CouldNotRun(f"{lost}; its log is in {_own_logs(run)}") from None
        except TimeoutError:
            raise CouldNotRun(f"warming the load {load!r} took longer than {WARM_LIMIT_S:.0f} s") from None
        if not warmed["ok"]:
            tenant = run.scenario.load[load].tenant
            tail = launch.log_tail(run.run_dir / "logs", tenant)
            raise CouldNotRun(
                state.stopped
                or f"all {warmed['failed']} warm-up requests of {load!r} to the tenant {tenant!r} failed: "
                f"{warmed.get('error_kind')}: {warmed.get('error')}{tail}"
            )
        if state.stopped is not None:
            raise CouldNotRun(state.stopped)


async def _stop_load(control: ControlServer) -> None:
    """Lets the load processes write what they hold; the reaper ends the ones that do not."""
    for process in control.processes.values():
        try:
            async with asyncio.timeout(STOP_LIMIT_S):
                await process.send(do="stop")
                await process.wait("<the end>")
        except (LoadProcessLost, TimeoutError):
            continue


def _ended(run: Run, state: _State, name: str, how: str) -> None:
    if state.closing:
        return
    if name.startswith((_LOAD, _OBSERVER)):
        return  # a load process hangs up when it ends: who waits for it knows
    tenant = name.partition("@")[0]  # a replica has the id `tenant@number`
    _mark(run, "fault", f"tenant:{tenant}", "start", time.monotonic_ns())
    if state.stopped is None:
        tail = launch.log_tail(run.run_dir / "logs", name)
        state.stopped = f"the tenant {name!r} ended ({how}) in {state.stage}{tail}"


def _count(state: _State, name: str, event: Mapping[str, Any]) -> None:
    if event.get("event") == "progress":
        state.counts[name] = event


def _mark(run: Run, what: str, name: str, edge: str, t_ns: int) -> None:
    # Flushed at once: a run that is killed can still be judged by its marks.
    run.writer.append("marks", t=t_ns, what=what, name=name, edge=edge)
    run.writer.flush()


async def _sleep_until_ns(t_ns: int) -> None:
    # The loop's clock is CLOCK_MONOTONIC too; a sleep may end a little early.
    while (left_ns := t_ns - time.monotonic_ns()) > 0:  # noqa: ASYNC110
        await asyncio.sleep(left_ns / NS_PER_S)


class _Reporter:
    """Turns where the run stands into what the progress line shows."""

    def __init__(self, run: Run, state: _State, plan: Sequence[Window]) -> None:
        self._run, self._state, self._plan = run, state, plan
        self._step, self._phase, self._end_ns = 0, "", 0
        self._now_ns: Callable[[], int] = time.monotonic_ns

    def window(self, step: int, window: Window) -> None:
        self._step, self._state.counts = step, {}
        self._end_ns = self._now_ns() + window.estimate_ns
        self.show()

    def phase(self, phase: str, end_ns: int | None) -> None:
        self._phase = phase
        self.show()

    def show(self) -> None:
        left_ns = None
        if self._step:
            rest_ns = sum(window.estimate_ns for window in self._plan[self._step :])
            left_ns = rest_ns + max(0, self._end_ns - self._now_ns())
        total = {
            key: sum(int(event.get(key) or 0) for event in self._state.counts.values())
            for key in ("streams", "underruns", "failed")
        }
        self._run.progress.show(
            State(
                stage=self._state.stage,
                phase=self._phase,
                step=self._step,
                steps=len(self._plan),
                left_ns=left_ns,
                **total,
            )
        )

    async def tick(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            self.show()
