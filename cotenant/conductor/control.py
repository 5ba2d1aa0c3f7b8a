"""The conductor's end of the control socket: commands to the load processes, events back."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# A spec carries all texts of a load; a line beyond this is not ours.
LINE_LIMIT_BYTES = 16 * 2**20


class LoadProcessLost(Exception):
    """The load process `name` ended or crashed while it was needed; the message says why."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name


class LoadProcess:
    """One connected load process: sends commands, and lets a caller wait for events by name."""

    def __init__(self, name: str, on_event: Callable[[str, Mapping[str, Any]], None]) -> None:
        self.name = name
        self._on_event = on_event
        self._writer: asyncio.StreamWriter | None = None
        self._events: list[Mapping[str, Any]] = []
        self._changed = asyncio.Condition()
        self._lost: str | None = None
        self.errno: int | None = None

    @property
    def lost(self) -> str | None:
        return self._lost

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Reads events until the process hangs up."""
        self._writer = writer
        await self._note({"event": "connected"})
        try:
            while line := await reader.readline():
                await self._note(json.loads(line))
        except (ConnectionError, ValueError) as error:
            await self.lose(f"the load process {self.name!r} broke its control line: {error}")
        else:
            await self.lose(f"the load process {self.name!r} ended")
        finally:
            writer.close()

    async def lose(self, why: str) -> None:
        """Marks the process as gone; whoever waits for it is told."""
        async with self._changed:
            self._lost = self._lost or why
            self._changed.notify_all()

    async def _note(self, event: Mapping[str, Any]) -> None:
        if event.get("event") == "crashed":
            self.errno = event.get("errno")
            await self.lose(f"the load process {self.name!r} failed: {event.get('error')}")
        async with self._changed:
            if event.get("event") != "progress":
                self._events.append(event)
            self._changed.notify_all()
        self._on_event(self.name, event)

    async def send(self, **command: Any) -> None:
        """Raises LoadProcessLost if the process is gone."""
        self.check()
        if self._writer is None:
            raise LoadProcessLost(self.name, f"the load process {self.name!r} is not connected")
        try:
            self._writer.write(json.dumps(command).encode() + b"\n")
            await self._writer.drain()
        except ConnectionError as error:
            raise LoadProcessLost(self.name, f"the load process {self.name!r} ended: {error}") from None

    def forget(self) -> None:
        """Drops what has been said so far, so that the next wait sees new events only."""
        self._events.clear()

    def check(self) -> None:
        """Raises LoadProcessLost if the process is gone."""
        if self._lost is not None:
            raise LoadProcessLost(self.name, self._lost)

    async def ended(self) -> None:
        """Until the process is gone."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._lost is not None)

    async def wait(self, event: str, **match: object) -> Mapping[str, Any]:
        """The first event of that name (with these fields) since `forget`. Raises LoadProcessLost."""

        def found() -> Mapping[str, Any] | None:
            return next(
                (
                    e
                    for e in self._events
                    if e.get("event") == event and all(e.get(k) == v for k, v in match.items())
                ),
                None,
            )

        async with self._changed:
            await self._changed.wait_for(lambda: found() is not None or self._lost is not None)
        hit = found()
        if hit is None:
            raise LoadProcessLost(self.name, self._lost or "lost")
        return hit


class ControlServer:
    """The Unix socket that load processes connect to. `path` must be short (108 bytes at most)."""

    def __init__(self, path: Path, on_event: Callable[[str, Mapping[str, Any]], None]) -> None:
        self.path = path
        self._on_event = on_event
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.processes: dict[str, LoadProcess] = {}

    def expect(self, name: str) -> LoadProcess:
        """Registers the name that a process will say hello with."""
        self.processes[name] = LoadProcess(name, self._on_event)
        return self.processes[name]

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(
            self._connected, str(self.path), limit=LINE_LIMIT_BYTES
        )

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            hello = json.loads(await reader.readline())
            process = self.processes[hello["name"]]
        except (ValueError, KeyError, ConnectionError):
            writer.close()
            return
        await process.serve(reader, writer)

    async def close(self) -> None:
        """Hangs up on every process, which makes it flush and end."""
        if self._server is None:
            return
        self._server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
