"""Connections that stamp each read: the kernel's stamp where it gives one, else the moment of the read.

The read callback takes the bytes and their stamp, nothing else; whoever awaits `read` parses them later.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
import time
from typing import Final, Protocol, cast

from cotenant.errors import ServiceError
from cotenant.load.clock import ClockMap
from cotenant.load.inbox import Inbox, Read

SO_TIMESTAMPNS: Final = 35
_TIMESPEC: Final = struct.Struct("@ll")
_READ_BYTES: Final = 1 << 16
_ANCILLARY_BYTES: Final = 64


class Connection(Protocol):
    """One connection, for one request."""

    connected_ns: int

    async def send(self, data: bytes) -> None:
        """Sends all of it. Raises OSError."""

    async def read(self, until_ns: int | None) -> Read | None:
        """The next read, in order; None if nothing came by `until_ns`. Raises OSError for a reset."""

    @property
    def closed_by_peer(self) -> bool:
        """Whether the peer has closed or reset it, as far as was seen."""

    def close(self) -> None:
        """Ends it at once; idempotent."""


class _PlainConnection:
    """TCP over a non-blocking socket of our own, with kernel stamps where the system has them."""

    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop, clock: ClockMap) -> None:
        self.connected_ns = time.monotonic_ns()
        self._sock = sock
        self._loop = loop
        self._inbox = Inbox(loop, clock)
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._reading = True
        loop.add_reader(sock.fileno(), self._readable)

    def _readable(self) -> None:
        try:
            count, ancillary, _, _ = self._sock.recvmsg_into([self._buffer], _ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._stop_reading()
            self._inbox.fail(error)
            return
        read_ns = time.monotonic_ns()
        wall_ns = 0
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack_from(data)
                wall_ns = seconds * 1_000_000_000 + nanoseconds
        if not count:
            self._stop_reading()
        self._inbox.put(wall_ns, read_ns, bytes(self._buffer[:count]))

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._sock.fileno())

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._sock, data)

    async def read(self, until_ns: int | None) -> Read | None:
        return await self._inbox.get(until_ns)

    @property
    def closed_by_peer(self) -> bool:
        return self._inbox.ended

    def close(self) -> None:
        self._stop_reading()
        self._sock.close()


class _TlsConnection(asyncio.Protocol):
    """TLS by the event loop: stamps of the read, since the kernel's belong to records, not to bytes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: ClockMap) -> None:
        self.connected_ns = 0
        self._inbox = Inbox(loop, clock)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not an asyncio.Transport by inheritance under uvloop, only by its methods.
        self._transport = cast(asyncio.Transport, transport)
        self.connected_ns = time.monotonic_ns()

    def data_received(self, data: bytes) -> None:
        self._inbox.put(0, time.monotonic_ns(), bytes(data))

    def eof_received(self) -> None:
        self._inbox.put(0, time.monotonic_ns(), b"")

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._inbox.ended:
            if isinstance(exc, OSError):
                self._inbox.fail(exc)
            else:
                self._inbox.put(0, time.monotonic_ns(), b"")

    async def send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    async def read(self, until_ns: int | None) -> Read | None:
        return await self._inbox.get(until_ns)

    @property
    def closed_by_peer(self) -> bool:
        return self._inbox.ended

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def connect(
    host: str, port: int, *, tls: ssl.SSLContext | None, clock: ClockMap, until_ns: int, stamps: bool = True
) -> Connection:
    """Opens a connection, stamps switched on before it connects (`stamps` False: never).

    Raises ServiceError: dns, refused, tls, timeout.
    """
    loop = asyncio.get_running_loop()
    limit_s = max(0.0, (until_ns - time.monotonic_ns()) / 1e9)
    try:
        async with asyncio.timeout(limit_s):
            if tls is not None:
                _, protocol = await loop.create_connection(
                    lambda: _TlsConnection(loop, clock), host, port, ssl=tls
                )
                return protocol
            return await _connect_plain(loop, host, port, clock, stamps)
    except TimeoutError:
        raise ServiceError("timeout", f"no connection to {host}:{port} within {limit_s:.1f} s") from None
    except (socket.gaierror, UnicodeError) as error:
        raise ServiceError("dns", f"{host}: {error}") from None
    except ssl.SSLError as error:
        raise ServiceError("tls", f"{host}:{port}: {error}") from None
    except OSError as error:
        raise ServiceError("refused", f"{host}:{port}: {error}") from None


async def _connect_plain(
    loop: asyncio.AbstractEventLoop, host: str, port: int, clock: ClockMap, stamps: bool
) -> Connection:
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError | None = None
    for family, kind, protocol, _, address in addresses:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if stamps:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            await loop.sock_connect(sock, address)
            return _PlainConnection(sock, loop, clock)
        except OSError as error:
            failure = error
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise failure or OSError(f"no address for {host}")


def keep_stamps_on() -> socket.socket:
    """A socket to hold open: the first packets after the kernel switches stamping on for anyone have none."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return sock
