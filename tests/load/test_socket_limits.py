"""What a server sends over a WebSocket that is none of its messages: too large a one, or no WebSocket's."""

import asyncio
import base64
import contextlib
import hashlib
import struct
import tracemalloc
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Final

import pytest

from cotenant.load import face_socket, voice_socket
from cotenant.wire import head_codec
from cotenant.wire.frames import pack_frame
from tests.load.failing import SERVICES, Service, asked
from tests.load.rig import run

MIB: Final = 1 << 20
ENDLESS: Final = 1 << 10  # MiB that are sent where nobody stops it
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
BINARY, TEXT, CLOSE, GOES_ON = 2, 1, 8, 0


def frame(
    kind: int, payload: bytes, *, last: bool = True, claims: int | None = None, reserved: int = 0
) -> bytes:
    """One frame of a WebSocket, whose payload may claim another length than it has."""
    first = bytes([last << 7 | reserved << 4 | kind])
    length = len(payload) if claims is None else claims
    if length < 126:
        return first + bytes([length]) + payload
    return first + b"\x7f" + struct.pack(">Q", length) + payload


def at_once(kind: int) -> Iterator[bytes]:
    """A message that claims to be as long as what follows."""
    yield frame(kind, b"", claims=ENDLESS * MIB)
    for _ in range(ENDLESS):
        yield bytes(MIB)


def by_parts(kind: int) -> Iterator[bytes]:
    """The same in frames of 1 MiB."""
    yield frame(kind, b"x", last=False)
    for _ in range(ENDLESS):
        yield frame(GOES_ON, b"x" * MIB, last=False)


@contextlib.asynccontextmanager
async def socket_of(parts: Iterable[bytes]) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that shakes hands and then sends this; how many bytes of it were taken."""
    taken = [0]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            key = next(
                line.split()[1] for line in head.splitlines() if line.lower().startswith(b"sec-websocket-key")
            )
            accept = base64.b64encode(hashlib.sha1(key + _GUID).digest())
            writer.write(
                b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
                + accept
                + b"\r\n\r\n"
            )
            for part in parts:
                writer.write(part)
                await writer.drain()
                taken[0] += len(part)
            await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", taken


SOCKETS: Final = [name for name in SERVICES if name in ("speech, WebSocket", "face", "face, JSON")]


def row_of(service: Service, parts: Iterable[bytes]) -> tuple[dict[str, Any], int]:
    async def work() -> tuple[dict[str, Any], int]:
        async with socket_of(parts) as (url, taken):
            return await asked(service, url), taken[0]

    return run(work())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same limit for all, of 2 MiB."""
    monkeypatch.setattr(face_socket, "MESSAGE_LIMIT_BYTES", 2 * MIB)
    monkeypatch.setattr(voice_socket, "_MESSAGE_LIMIT_BYTES", 2 * MIB)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", SOCKETS)
@pytest.mark.parametrize("kind", [BINARY, TEXT])
@pytest.mark.parametrize("sends", [at_once, by_parts])
def test_a_message_without_an_end_is_given_up(name: str, kind: int, sends: Any) -> None:
    tracemalloc.start()
    try:
        row, taken_bytes = row_of(SERVICES[name], sends(kind))
        held_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (row["end"], row["error_kind"]) == ("error", "protocol")
    assert "a message that is too large to take: Message size " in row["error"]
    assert taken_bytes < 64 * MIB
    assert held_bytes < 16 * MIB


@pytest.mark.parametrize("name", SOCKETS)
@pytest.mark.parametrize(
    ("sent", "end", "kind"),
    [
        (frame(BINARY, b"x", claims=1 << 62), "error", "protocol"),
        (frame(BINARY, b"x", claims=1 << 63), "error", "protocol"),
        (frame(TEXT, b"\xff\xfe"), "error", "protocol"),
        (frame(BINARY, b"x", reserved=4), "error", "protocol"),
        (frame(GOES_ON, b"x"), "error", "protocol"),
        (frame(7, b"x"), "error", "protocol"),
        (frame(CLOSE, b"\x00\x05"), "error", "protocol"),
        (frame(CLOSE, b"\x03\xe9\xff\xfe"), "error", "protocol"),
        (frame(CLOSE, b"\x0f\xa0no more"), "truncated", "truncated"),
    ],
)
def test_what_is_no_message_is_a_fault_of_the_protocol(name: str, sent: bytes, end: str, kind: str) -> None:
    row, _ = row_of(SERVICES[name], [sent])
    assert (row["end"], row["error_kind"]) == (end, kind), row["error"]


def test_a_picture_below_the_limit_is_taken() -> None:
    picture = pack_frame(0, 0, bytes(head_codec.MESSAGE_LIMIT_BYTES - 17))
    row, _ = row_of(SERVICES["face"], [frame(BINARY, picture), frame(TEXT, b'{"type": "done", "frames": 1}')])
    assert (row["end"], row["error"]) == ("eos", None)
