"""The life of one window: settle, measure, follow, drain."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant.conductor.control import LoadProcess
from cotenant.conductor.plan import Window
from cotenant.scenario.schema import Timing
from cotenant.units import NS_PER_MS, NS_PER_S

# Time for a command to reach the load processes before the instant it names.
COMMAND_LEAD_NS = 50 * NS_PER_MS
# A window whose command came late would begin with utterances that were sent as settling ones.
MEASURE_LEAD_NS = 500 * NS_PER_MS
DRAIN_LIMIT_NS = 10 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePorts:
    """What a window needs from outside: a clock, the marks table, the tenants' idleness, who is told."""

    now_ns: Callable[[], int]
    sleep_until_ns: Callable[[int], Awaitable[None]]
    mark: Callable[[str, str, str, int], None]  # what, name, edge, t
    wait_idle: Callable[[int], Awaitable[bool]]  # limit_ns -> idle within it
    phase: Callable[[str], None]
    decided: Callable[[str], Awaitable[bool]]  # stage -> whether every gate of it is, by what is recorded
    hopeless: Callable[[str, Window], Awaitable[None]]  # until this load can have no output any more
    unsettled: Callable[[str, Sequence[str]], Awaitable[None]]  # stage, loads that had none


async def run_window(
    window: Window, processes: Mapping[str, LoadProcess], timing: Timing, ports: StagePorts
) -> None:
    """Runs one window; `processes` maps each of the window's loads to its process.

    Marks what happened. A load that does not settle is marked as the fault `settle:<stage>` and measured all
    the same: its figures are shown, the stage is INVALID. One whose service is gone is not waited for. Raises
    LoadProcessLost.
    """
    involved = _unique(processes[load] for load in window.loads)
    for process in involved:
        process.forget()
    start_ns = ports.now_ns() + COMMAND_LEAD_NS
    ports.mark("stage", window.stage, "start", start_ns)
    ports.mark("settle", window.stage, "start", start_ns)
    ports.phase("settling")
    for process in involved:
        loads = [load for load in window.loads if processes[load] is process]
        await process.send(do="start", stage=window.stage, round=window.round, loads=loads, at_ns=start_ns)
    await _settle(window, processes, timing, ports, start_ns)
    await _measure(window, involved, timing, ports)
    await _drain(window, involved, ports)
    ports.mark("stage", window.stage, "end", ports.now_ns())


async def _settle(
    window: Window, processes: Mapping[str, LoadProcess], timing: Timing, ports: StagePorts, start_ns: int
) -> None:
    settled: set[str] = set()

    async def wait(load: str) -> None:
        if await _unless(processes[load].wait("settled", load=load), ports.hopeless(load, window)):
            settled.add(load)

    limit_ns = start_ns + timing.settle_limit_ns
    await _within([wait(load) for load in window.loads], limit_ns, ports)
    if missing := [load for load in window.loads if load not in settled]:
        ports.mark("fault", f"settle:{window.stage}", "start", ports.now_ns())
        await ports.unsettled(window.stage, missing)
    await ports.sleep_until_ns(start_ns + window.settle_ns)
    ports.mark("settle", window.stage, "end", ports.now_ns())


async def _measure(
    window: Window, involved: Sequence[LoadProcess], timing: Timing, ports: StagePorts
) -> None:
    start_ns = ports.now_ns() + MEASURE_LEAD_NS
    ports.mark("measure", window.stage, "start", start_ns)
    for look, after_ns in enumerate(window.looks_ns, start=1):
        last = look == len(window.looks_ns)
        ports.phase("measuring" if look == 1 else "undecided, measuring on")
        await _measure_until(start_ns, start_ns + after_ns, window.stage, involved, timing, ports)
        if last or await ports.decided(window.stage):
            return


async def _measure_until(
    start_ns: int,
    end_ns: int,
    stage: str,
    involved: Sequence[LoadProcess],
    timing: Timing,
    ports: StagePorts,
) -> None:
    """Measures and follows what fell due. With the same start and a later end it goes on: loads run on."""
    for process in involved:
        process.forget()
        await process.send(do="measure", start_ns=start_ns, end_ns=end_ns)
    await _or_lost(ports.sleep_until_ns(end_ns), involved)
    ports.mark("measure", stage, "end", end_ns)
    ports.phase("following the last ones")
    limit_ns = end_ns + timing.request_limit_ns + timing.stall_limit_ns
    if not await _within([process.wait("followed") for process in involved], limit_ns, ports):
        ports.mark("fault", f"follow:{stage}", "start", ports.now_ns())


async def _drain(window: Window, involved: Sequence[LoadProcess], ports: StagePorts) -> None:
    start_ns = ports.now_ns()
    ports.mark("drain", window.stage, "start", start_ns)
    ports.phase("draining")
    for process in involved:
        await process.send(do="drain")
    limit_ns = start_ns + DRAIN_LIMIT_NS
    if not await _within([process.wait("drained") for process in involved], limit_ns, ports):
        ports.mark("fault", f"drain:{window.stage}", "start", ports.now_ns())
    if not await ports.wait_idle(max(0, limit_ns - ports.now_ns())):
        ports.mark("fault", f"idle:{window.stage}", "start", ports.now_ns())
    ports.mark("drain", window.stage, "end", ports.now_ns())


async def _within(waits: Sequence[Awaitable[object]], limit_ns: int, ports: StagePorts) -> bool:
    """Whether all of `waits` came before `limit_ns`; what has not is cancelled. Raises what they raise."""
    pending: set[asyncio.Future[Any]] = {asyncio.ensure_future(wait) for wait in waits}
    clock: asyncio.Future[Any] = asyncio.ensure_future(ports.sleep_until_ns(limit_ns))
    try:
        while pending:
            done, _ = await asyncio.wait(pending | {clock}, return_when=asyncio.FIRST_COMPLETED)
            for task in done & pending:
                task.result()
            pending -= done
            if clock in done:
                return not pending
        return True
    finally:
        await _cancel(pending | {clock})


async def _unless(wait: Awaitable[object], hopeless: Awaitable[None]) -> bool:
    """Whether `wait` came before `hopeless` did; the other one is cancelled. Raises what `wait` raises."""
    main: asyncio.Future[Any] = asyncio.ensure_future(wait)
    end: asyncio.Future[Any] = asyncio.ensure_future(hopeless)
    try:
        await asyncio.wait({main, end}, return_when=asyncio.FIRST_COMPLETED)
        if not main.done():
            return False
        main.result()
        return True
    finally:
        await _cancel({main, end})


async def _or_lost(wait: Awaitable[None], involved: Sequence[LoadProcess]) -> None:
    """Waits, and raises LoadProcessLost as soon as one of `involved` is gone."""
    watch: set[asyncio.Future[Any]] = {asyncio.ensure_future(process.ended()) for process in involved}
    main: asyncio.Future[Any] = asyncio.ensure_future(wait)
    try:
        await asyncio.wait(watch | {main}, return_when=asyncio.FIRST_COMPLETED)
        for process in involved:
            process.check()
        main.result()
    finally:
        await _cancel(watch | {main})


async def _cancel(tasks: Iterable[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _unique(processes: Iterable[LoadProcess]) -> list[LoadProcess]:
    return list(dict.fromkeys(processes))
