"""One service's trial: how long it may take, who is told what it waits for, what a signal leaves behind."""

import asyncio
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from cotenant.errors import CotenantError
from cotenant.report.doctor.facts import Failed, Tried
from cotenant.scenario.hidden import Secrets, hide_query
from cotenant.scenario.schema import Scenario
from cotenant.units import NS_PER_S, duration_text

LIMIT_NS: Final = 30 * NS_PER_S
# Whoever has waited for so long without a word wants one.
_QUIET_S: Final = 2.0
# As a shell has it: 130 for Ctrl-C, 143 for SIGTERM.
_SIGNAL_EXIT: Final = 128
_PREFIX: Final = "cotenant-doctor-"
_WANTED: Final = {
    "speech": "the sound of one sentence",
    "face": "the video to one recording",
    "completions": "the answer to one prompt",
}

T = TypeVar("T")
Tell = Callable[[str], None]
Try = Callable[[Scenario, str, Path], Awaitable[Tried]]


class Stopped(CotenantError):
    """A signal ended the trial; `code` is what the process ends with."""

    def __init__(self, number: int) -> None:
        super().__init__("interrupted")
        self.code = _SIGNAL_EXIT + number


async def within_limit(attempt: Try, scenario: Scenario, name: str, limit_ns: int, tell: Tell) -> Tried:
    """What `attempt` finds out in a folder that is gone afterwards; after `limit_ns` that it took too long.

    `tell` is told what is waited for where it takes more than a moment.
    """
    tenant = scenario.tenants[name]
    url = hide_query(tenant.url or "")
    wanted, limit = _WANTED[tenant.kind], duration_text(limit_ns)
    waiting = f"{name}: waiting for {wanted} from {url}, {limit} at most (--limit)"
    told = asyncio.get_running_loop().call_later(_QUIET_S, tell, waiting)
    try:
        with _folder() as folder:
            async with asyncio.timeout(limit_ns / NS_PER_S):
                return await attempt(scenario, name, folder)
    except TimeoutError:
        failed = Failed(
            kind="timeout",
            text=f"{wanted} was not complete within {limit}",
            hint="it was too slow or hung: look at its log and its queue; if it needs longer, give it that "
            "with --limit, as in --limit 2m",
        )
        return Tried(tenant=name, kind=tenant.kind, url=url, failed=failed)
    finally:
        told.cancel()


def without(secrets: Secrets, tried: Tried) -> Tried:
    """Without the scenario's keys, in its address and in what a server repeated."""
    bad = tried.failed
    hidden = None if bad is None else replace(bad, text=secrets.text(bad.text), hint=secrets.text(bad.hint))
    notes = tuple(replace(note, text=secrets.text(note.text)) for note in tried.notes)
    told = tuple(map(secrets.text, tried.told))
    settings = secrets.within(tried.settings)
    return replace(
        tried, url=secrets.text(tried.url), failed=hidden, told=told, notes=notes, settings=settings
    )


def run_until_signal(work: Coroutine[Any, Any, T]) -> T:
    """`work` in a loop of its own; the first INT, TERM or HUP (unless that is ignored) stops it in order, the
    second one ends the process at once. Raises Stopped."""
    seen: list[int] = []

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None

        def interrupt(number: int) -> None:
            if seen:
                os._exit(_SIGNAL_EXIT + number)
            seen.append(number)
            task.cancel()

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                    asyncio.get_running_loop().add_signal_handler(number, interrupt, number)
        return await work

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if not seen:
            raise
        raise Stopped(seen[0]) from None


@contextmanager
def _folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
