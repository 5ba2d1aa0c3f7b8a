"""The conductor's end of the reaper: start children, signal them, learn how they ended (asyncio)."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cotenant.errors import CouldNotRun

_LINE_LIMIT_BYTES = 1 << 20
# It ends everything within 3 s.
_CLOSE_LIMIT_S = 6.0
_LOST = "the process that starts all others has ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a child ended: `code` or `signal`; neither where the reaper was lost, and the child with it."""

    code: int | None
    signal: int | None

    def __str__(self) -> str:
        if self.signal is not None:
            with contextlib.suppress(ValueError):
                return signal.Signals(self.signal).name
            return f"signal {self.signal}"
        return "lost with the reaper" if self.code is None else f"code {self.code}"


class Reaper:
    """A running reaper and what it has started. Use `async with await Reaper.start() as reaper`.

    An `id` names one child at a time. `on_exit(id, exit)` is called from the loop at every end.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        transport: asyncio.ReadTransport,
        on_exit: Callable[[str, Exit], None] | None,
        cpus: Sequence[int] | None,
    ) -> None:
        self._process = process
        self._cpus = cpus
        self._transport = transport
        self._on_exit = on_exit
        self._spawning: dict[str, asyncio.Future[int]] = {}
        self._exits: dict[str, asyncio.Future[Exit]] = {}
        self._pids: dict[str, int] = {}
        self._listening = asyncio.create_task(self._listen(reader), name="reaper")

    @classmethod
    async def start(
        cls,
        on_exit: Callable[[str, Exit], None] | None = None,
        *,
        socket: Path | None = None,
        cpus: Sequence[int] | None = None,
    ) -> Self:
        """Start the reaper process itself. When all is over it removes `socket` and the folder that holds it
        alone, also where this process was killed. `cpus`: the cores of children that are given no others."""
        process = _start_process(socket)
        assert process.stdout is not None
        reader = asyncio.StreamReader(limit=_LINE_LIMIT_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, process.stdout)
        return cls(process, reader, transport, on_exit, cpus)

    @property
    def pid(self) -> int:
        """The reaper's own process."""
        return self._process.pid

    async def spawn(
        self,
        identifier: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        nice: int = 0,
        cpus: Sequence[int] | None = None,
    ) -> int:
        """Start a child; its pid. `env` is added to this process's environment.

        stdout and stderr are appended to `log`, stdin is empty. Raises CouldNotRun if it cannot be started.
        """
        if self._listening.done():
            raise CouldNotRun(_LOST)
        loop = asyncio.get_running_loop()
        started: asyncio.Future[int] = loop.create_future()
        if identifier in self._exits and not self._exits[identifier].done():
            raise ValueError(f"{identifier} is running already")
        self._spawning[identifier] = started
        self._exits[identifier] = loop.create_future()
        self._tell(
            do="start", id=identifier, argv=list(argv), env={**os.environ, **(env or {})},
            log=_absolute(log), nice=nice, cpus=cpus or self._cpus,
        )  # fmt: skip
        try:
            self._pids[identifier] = await started
            return self._pids[identifier]
        except CouldNotRun:
            self._exits.pop(identifier).cancel()
            raise

    def pids(self) -> dict[str, int]:
        """Id -> pid of every child that runs."""
        return {name: pid for name, pid in self._pids.items() if not self._exits[name].done()}

    def signal(self, identifier: str, number: int) -> None:
        """Send a signal to the child's process group; nothing happens if the child has ended."""
        self._tell(do="signal", id=identifier, sig=int(number))

    def exit_of(self, identifier: str) -> Exit | None:
        """How a child ended, None while it runs. Raises KeyError for one that was never started."""
        ended = self._exits[identifier]
        return ended.result() if ended.done() else None

    async def wait_exit(self, identifier: str) -> Exit:
        """Wait until a child has ended. Raises KeyError for one that was never started."""
        return await asyncio.shield(self._exits[identifier])

    async def close(self) -> None:
        """End every child and all their descendants (TERM, KILL after 1.2 s) and the reaper; 3 s at most."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            async with asyncio.timeout(_CLOSE_LIMIT_S):
                await asyncio.shield(self._listening)
        except TimeoutError:
            self._process.kill()  # stopped or stuck; its children end with it
            await self._listening
        await asyncio.to_thread(self._process.wait)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _tell(self, **command: Any) -> None:
        assert self._process.stdin is not None
        line = memoryview((json.dumps(command) + "\n").encode())
        with contextlib.suppress(BrokenPipeError):  # the reaper is gone: `_listen` sees it and says so to all
            while line:
                line = line[self._process.stdin.write(line) :]

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._handle(json.loads(line))
        finally:
            self._transport.close()
            self._lose()

    def _lose(self) -> None:
        """No news can come any more: end every wait."""
        for started in self._spawning.values():
            if not started.done():
                started.set_exception(CouldNotRun(_LOST))
        self._spawning.clear()
        for identifier, ended in self._exits.items():
            if not ended.done():
                self._ended(identifier, Exit(code=None, signal=None))

    def _handle(self, event: dict[str, Any]) -> None:
        identifier = event["id"]
        if event["event"] == "exited":
            self._ended(identifier, Exit(code=event["code"], signal=event["signal"]))
            return
        started = self._spawning.pop(identifier)
        if started.cancelled():
            return
        if event["event"] == "started":
            started.set_result(event["pid"])
        else:
            started.set_exception(CouldNotRun(f"{identifier} cannot be started: {_told(event['error'])}"))

    def _ended(self, identifier: str, how: Exit) -> None:
        self._exits[identifier].set_result(how)
        if self._on_exit is not None:
            self._on_exit(identifier, how)


def _told(error: str) -> str:
    advice = "; give its path, or activate the environment that has it"
    return error + (advice if "No such file or directory" in error else "")


def _absolute(path: Path) -> str:
    return str(path.absolute())


def _start_process(socket: Path | None) -> subprocess.Popen[bytes]:
    # A group of its own: a signal to the conductor's group, KILL among them, must leave the reaper to clean
    # up.
    return subprocess.Popen(
        [sys.executable, "-m", "cotenant.tenants.reaper", *([] if socket is None else [_absolute(socket)])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        process_group=0,
    )
