"""A talking head that answers with MJPEG: pictures in the parts of one HTTP answer."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import aiohttp

from cotenant.errors import ServiceError
from cotenant.load.face_link import Received, connect_error
from cotenant.load.tasks import end_task
from cotenant.wire.head_codec import Done
from cotenant.wire.http1 import status_kind
from cotenant.wire.mjpeg import MjpegDecoder

_ERROR_BODY_BYTES: Final = 1 << 16


class MjpegLink:
    """Audio is the body of a POST, as it comes; a head that is only watched is asked with GET."""

    tells_end = False

    def __init__(
        self,
        web: aiohttp.ClientSession,
        url: str,
        headers: Mapping[str, str],
        told: Mapping[str, Any],
        fps: int,
        trusted: ssl.SSLContext | None,
    ) -> None:
        self.watched = (told.get("audio") or {}).get("send") == "none"
        self.status: int | None = None
        self._web, self._url, self._told, self._trusted = web, url, told, trusted
        self._headers = {
            name: value for name, value in headers.items() if self.watched is False or name != "Content-Type"
        }
        if not self.watched:
            self._headers["Content-Type"] = "audio/pcm;rate=16000"
        self._fps = told.get("fps") or fps
        self._audio: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self._asking: asyncio.Task[aiohttp.ClientResponse] | None = None
        self._reading: asyncio.Task[bytes] | None = None
        self._decoder: MjpegDecoder | None = None

    async def open(self, limit_s: float) -> None:
        """Nothing: connection and request are one here."""

    async def start(self) -> None:
        self._asking = asyncio.ensure_future(
            self._web.request(
                "GET" if self.watched else "POST",
                self._url,
                headers=self._headers,
                data=None if self.watched else self._body(),
                allow_redirects=False,
                ssl=self._trusted or True,
                timeout=aiohttp.ClientTimeout(total=None),
            )
        )

    async def _body(self) -> AsyncIterator[bytes]:
        while (piece := await self._audio.get()) is not None:
            yield piece

    async def send(self, piece: bytes) -> None:
        if not self.watched:
            await self._audio.put(piece)

    async def end(self) -> None:
        if not self.watched:
            await self._audio.put(None)

    async def receive(self, limit_s: float) -> list[Received | Done | ServiceError]:
        assert self._asking is not None
        async with asyncio.timeout(limit_s):
            try:
                response = await asyncio.shield(self._asking)
                if self._decoder is None:
                    await self._answered(response)
                    return [Received(header=None, at_ns=time.monotonic_ns())]
                # A read that is given up must not lose what it was about to return.
                self._reading = self._reading or asyncio.ensure_future(response.content.readany())
                data = await asyncio.shield(self._reading)
                self._reading = None
            except aiohttp.ClientPayloadError as error:
                raise ServiceError("truncated", str(error)) from None
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise connect_error(error, "no answer") from None
        return self._read(data, time.monotonic_ns())

    async def _answered(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        kind = status_kind(response.status)
        if kind is not None:
            body = await response.content.read(_ERROR_BODY_BYTES)
            place = response.headers.get("Location", "")
            text = body.decode(errors="replace")
            if place:
                text = f"it redirects to {place}, and no redirect is followed"
            raise ServiceError(kind, f"HTTP {response.status}: {text}", status=response.status)
        self._decoder = MjpegDecoder(
            response.headers.get("Content-Type", ""),
            fps=self._fps,
            time_header=self._told.get("time_header"),
        )

    def _read(self, data: bytes, now_ns: int) -> list[Received | Done | ServiceError]:
        assert self._decoder is not None
        found: list[Received | Done | ServiceError] = []
        try:
            pictures = self._decoder.feed(data, now_ns) if data else self._decoder.close()
        except ServiceError as error:
            return [Received(header=None, at_ns=now_ns), error]
        for picture in pictures:
            size_bytes = picture.header.payload_bytes
            found.append(Received(header=picture.header, at_ns=picture.arrival_ns, size_bytes=size_bytes))
        if self._decoder.fault is not None:
            found.append(self._decoder.fault)
        elif not data or self._decoder.ended:
            found.append(Done())
        return found or [Received(header=None, at_ns=now_ns)]

    async def close(self) -> None:
        asking, reading = self._asking, self._reading
        self._asking = self._reading = None
        if reading is not None:
            await end_task(reading, OSError, aiohttp.ClientError)
        if asking is None:
            return
        if asking.done() and not asking.cancelled() and asking.exception() is None:
            asking.result().close()
        await end_task(asking, OSError, ValueError, aiohttp.ClientError)
