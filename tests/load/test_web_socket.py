"""A server that breaks the WebSocket protocol itself, byte by byte: that is told, and no lost line."""

import asyncio
import base64
import hashlib
import struct
import time
from collections.abc import Sequence
from typing import Any, Final

import pytest

from cotenant.load.voice import Turn, speak
from cotenant.units import NS_PER_S
from tests.load.rig import desk_for, new_stage, run, settings, tenant, voices

GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
START: Final = b'{"type":"audio.start","format":"pcm","sample_rate":24000,"channels":1}'
TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9


def frame(
    kind: int, data: bytes = b"", *, final: bool = True, reserved: int = 0, told: int | None = None
) -> bytes:
    """One frame of a server; `told`: a length that is not that of `data`."""
    size = len(data) if told is None else told
    first = bytes([final << 7 | reserved << 4 | kind])
    if size < 126:
        return first + bytes([size]) + data
    return first + (struct.pack(">BH", 126, size) if size < 1 << 16 else struct.pack(">BQ", 127, size)) + data


def closing(code: int, reason: bytes = b"") -> bytes:
    return frame(CLOSE, struct.pack(">H", code) + reason)


def spoken(*frames: bytes, before: Sequence[bytes] = ()) -> dict[str, Any]:
    """The row of an utterance whose server sends these bytes after the handshake and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        key = next(
            line.split(b":")[1].strip() for line in head if line.lower().startswith(b"sec-websocket-key")
        )
        accept = base64.b64encode(hashlib.sha1(key + GUID, usedforsecurity=False).digest())
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        await reader.read(1)  # the client speaks first
        writer.write(b"".join((*before, *frames)))
        await writer.drain()
        writer.write_eof()
        while await reader.read(1 << 16):
            pass
        writer.close()

    async def work() -> dict[str, Any]:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            one = tenant(f"ws://127.0.0.1:{port}", protocol="vllm-omni-socket", rate_hz=None)
            # Nothing waits for the limit: the server hangs up.
            told = settings([one], [voices()], stall_limit_ns=30 * NS_PER_S)
            async with desk_for(told) as (desk, rows):
                turn = Turn(
                    listener=0, due_ns=time.monotonic_ns(), delayed_ns=0, line=lambda: (0, "Rain."), tap=None
                )
                await speak(desk, new_stage(), voices(), turn)
                return rows.stream()

    return run(work())


BREACHES: Final = {
    "text that is no UTF-8": frame(TEXT, b"\xff\xfe\xff"),
    "reserved bits": frame(BINARY, bytes(8), reserved=4),
    "a reserved kind": frame(5, bytes(8)),
    "a ping in pieces": frame(PING, b"p", final=False),
    "a long ping": frame(PING, bytes(200)),
    "a continuation of nothing": frame(0, bytes(8)),
    "a second message within the first": frame(BINARY, bytes(8), final=False) + frame(BINARY, bytes(8)),
    "a close code that is none": closing(5),
    "a close of one byte": frame(CLOSE, b"\x03"),
    "a reason that is no UTF-8": closing(1001, b"\xff\xfe"),
    "a message over the limit": frame(BINARY, bytes(100), told=1 << 62),
    **{f"closed with {code}": closing(code, b"bad frame") for code in (1002, 1003, 1007, 1009, 1010)},
}


@pytest.mark.parametrize(
    "before", [[], [frame(TEXT, START), frame(BINARY, bytes(480))]], ids=["at once", "later"]
)
@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_of_the_protocol(name: str, before: Sequence[bytes]) -> None:
    row = spoken(BREACHES[name], before=before)
    assert (row["end"], row["error_kind"]) == ("error", "protocol"), row["error"]
    assert row["error"]


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (b"", "closed before it was done"),
        (frame(BINARY, bytes(40), told=400), "closed before it was done"),
        (closing(1000), "(1000)"),
        (closing(1001, b"going"), "(1001: going)"),
        (closing(1011, b"CUDA"), "(1011: CUDA)"),
        (closing(4000, b"no more"), "(4000: no more)"),
    ],
)
def test_a_line_that_is_closed_too_early(ending: bytes, words: str) -> None:
    row = spoken(ending, before=[frame(TEXT, START), frame(BINARY, bytes(480))])
    assert (row["end"], row["error_kind"]) == ("truncated", "truncated")
    assert words in row["error"]
