"""The control socket of a load process: one JSON object a line, both ways."""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any


class Hangup(Exception):
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
        """The next line. Raises Hangup at the end of the socket."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            line = b""
        if not line.endswith(b"\n"):
            raise Hangup
        value: dict[str, Any] = json.loads(line)
        return value

    async def close(self) -> None:
        """Sends what is left, unless nobody takes it within a second."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await self._writer.drain()
        self._writer.close()
