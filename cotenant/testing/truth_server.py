"""An HTTP server that does exactly what a script says, and knows when it sent what."""

import asyncio
import contextlib
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cotenant.units import NS_PER_S

Framing = Literal["chunked", "length", "close"]
Ending = Literal["finish", "close", "reset", "silent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One answer. `pieces` are (ns after the request was read, bytes): with `chunked` a transfer chunk each.

    `ending`: `finish` ends the body as its framing asks for; `close` and `reset` end the connection without
    that; `silent` sends nothing more, keeps it open. `head` False: not even a status line. `raw`: the pieces
    are sent as they are, nothing of ours around them.
    """

    pieces: Sequence[tuple[int, bytes]] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    framing: Framing = "chunked"
    ending: Ending = "finish"
    head: bool = True
    raw: bool = False


@dataclass(slots=True, kw_only=True)
class Served:
    """What was asked and when each piece was handed to the kernel (just before, just after)."""

    path: str
    headers: dict[str, str]
    body: bytes
    sent_ns: list[tuple[int, int]] = field(default_factory=list)


Answer = Callable[[Served], Script]


class TruthServer:
    """`url`, and `served`: one entry a request, in order."""

    def __init__(self, answer: Answer, url: str) -> None:
        self.url = url
        self.served: list[Served] = []
        self._answer = answer
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._one(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines[1:] if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        served = Served(path=lines[0].split(" ")[1], headers=headers, body=body)
        self.served.append(served)
        await self._play(self._answer(served), served, reader, writer)

    async def _play(
        self, script: Script, served: Served, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        start_ns = time.monotonic_ns()
        if script.head and not script.raw:
            writer.write(_head(script))
        for offset_ns, piece in script.pieces:
            await _sleep_until(start_ns + offset_ns)
            framed = script.framing == "chunked" and not script.raw
            data = b"%x\r\n%b\r\n" % (len(piece), piece) if framed else piece
            before_ns = time.monotonic_ns()
            writer.write(data)
            served.sent_ns.append((before_ns, time.monotonic_ns()))
            await writer.drain()
        if script.ending == "finish" and script.framing == "chunked" and script.head and not script.raw:
            writer.write(b"0\r\n\r\n")
        elif script.ending == "silent":
            await reader.read()
        elif script.ending == "reset":
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def stop(self) -> None:
        """Ends what is still open."""
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*tuple(self._open), return_exceptions=True)


@contextlib.asynccontextmanager
async def truth_server(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[TruthServer]:
    """Serves on a free port of 127.0.0.1 until the block ends."""
    truth = TruthServer(answer, "")
    server = await asyncio.start_server(truth.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    truth.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield truth
    finally:
        server.close()
        await truth.stop()


def _head(script: Script) -> bytes:
    headers = dict(script.headers)
    if script.framing == "chunked":
        headers["Transfer-Encoding"] = "chunked"
    elif script.framing == "length":
        headers["Content-Length"] = str(sum(len(piece) for _, piece in script.pieces))
    lines = [f"HTTP/1.1 {script.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _sleep_until(at_ns: int) -> None:
    while (left_ns := at_ns - time.monotonic_ns()) > 0:  # noqa: ASYNC110 - timers may fire early
        await asyncio.sleep(left_ns / NS_PER_S)
