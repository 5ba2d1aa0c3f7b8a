"""A talking head on a WebSocket."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Mapping
from typing import Final

import aiohttp

from cotenant.errors import ServiceError
from cotenant.load import web_socket
from cotenant.load.face_link import Received, connect_error
from cotenant.wire.head_codec import MESSAGE_LIMIT_BYTES, Done, HeadCodec
from cotenant.wire.http1 import status_kind

_CLOSE_S: Final = 0.5
_FINE_CLOSES: Final = (1000, 1001)


class SocketLink:
    """Messages as a codec has them."""

    def __init__(
        self,
        web: aiohttp.ClientSession,
        url: str,
        headers: Mapping[str, str],
        codec: HeadCodec,
        trusted: ssl.SSLContext | None,
    ) -> None:
        self.tells_end, self.watched = codec.tells_end, False
        self.status: int | None = None
        self._web, self._url, self._headers, self._codec = web, url, headers, codec
        self._trusted = trusted
        self._socket: aiohttp.ClientWebSocketResponse | None = None

    async def open(self, limit_s: float) -> None:
        try:
            async with asyncio.timeout(limit_s):
                self._socket = await self._web.ws_connect(
                    self._url,
                    headers=self._headers,
                    max_msg_size=MESSAGE_LIMIT_BYTES,
                    ssl=self._trusted or True,
                )
        except TimeoutError:
            raise ServiceError("timeout", f"no WebSocket within {limit_s:.1f} s") from None
        except aiohttp.WSServerHandshakeError as error:
            kind = status_kind(error.status) or "protocol"
            raise ServiceError(kind, f"HTTP {error.status}: {error.message}", status=error.status) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise connect_error(error, "no WebSocket") from None
        self.status = 101

    async def start(self) -> None:
        message = self._codec.start()
        if message is not None:
            # Should it break here, the reader sees the same break and tells what kind it is.
            with contextlib.suppress(OSError, aiohttp.ClientError):
                await self._open().send_str(message)

    async def send(self, piece: bytes) -> None:
        if self._codec.binary_audio:
            await self._open().send_bytes(piece)
        else:
            await self._open().send_str(self._codec.audio(piece))

    async def end(self) -> None:
        message = self._codec.end()
        if message is not None:
            await self._open().send_str(message)

    async def receive(self, limit_s: float) -> list[Received | Done | ServiceError]:
        message = await self._open().receive(timeout=limit_s)
        now_ns = time.monotonic_ns()
        if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
            if not self.tells_end and message.data in _FINE_CLOSES:
                return [Done()]
            raise web_socket.end_error(message)
        try:
            event = self._codec.message(message.data)
        except ServiceError as error:
            return [Received(header=None, at_ns=now_ns), error]
        if isinstance(event, Done):
            return [Received(header=None, at_ns=now_ns), event]
        return [Received(header=event, at_ns=now_ns, size_bytes=len(message.data))]

    async def close(self) -> None:
        if self._socket is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._socket.close()
        except (TimeoutError, OSError, aiohttp.ClientError):
            return

    def _open(self) -> aiohttp.ClientWebSocketResponse:
        assert self._socket is not None
        return self._socket
