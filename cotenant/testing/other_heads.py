"""Heads that are not ours: JSON with base64 pictures over a WebSocket, and real JPEGs as MJPEG over HTTP."""

import asyncio
import base64
import contextlib
import io
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web
from PIL import Image, ImageDraw

RATE_HZ = 16_000


def drawn(number: int) -> bytes:
    """A real JPEG, another one for each number."""
    image = Image.new("RGB", (96, 64), (40, 60, 90))
    ImageDraw.Draw(image).ellipse((number % 60, 10, number % 60 + 30, 50), fill=(220, 180, 140))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG")
    return buffer.getvalue()


@dataclass(slots=True, kw_only=True)
class OtherHeads:
    """`says_done`: the WebSocket's head sends a last message, else it closes. `length`: parts have one.

    `audio_bytes` of each clip that was handed over; `headers` and `messages` of what was asked.
    """

    fps: int = 25
    says_done: bool = True
    length: bool = True
    url: str = ""
    frames: list[int] = field(default_factory=list)
    audio_bytes: list[int] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

    async def talk(self, request: web.Request) -> web.StreamResponse:
        """A clip over a WebSocket: audio as base64 in JSON or binary, a picture once its audio is there."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.headers.append(dict(request.headers))
        audio = frames = 0
        async for message in socket:
            over = False
            if message.type is WSMsgType.BINARY:
                audio += len(message.data)
            else:
                value = json.loads(message.data)
                self.messages.append(value)
                audio += len(base64.b64decode(value.get("voice", {}).get("pcm", "")))
                over = value.get("type") == "flush"
            ready = audio // 2 * self.fps // RATE_HZ
            ready = -(-audio // 2 * self.fps // RATE_HZ) if over else ready
            while frames < ready:
                picture = base64.b64encode(drawn(frames)).decode()
                data = {"frame": picture, "i": frames, "t": 1000 * frames / self.fps}
                await socket.send_str(json.dumps({"data": data}))
                frames += 1
            if over:
                break
        self.audio_bytes.append(audio)
        self.frames.append(frames)
        if self.says_done:
            with contextlib.suppress(ConnectionResetError):
                await socket.send_str(json.dumps({"type": "idle"}))
            async for _ in socket:
                pass
        await socket.close()
        return socket

    async def render(self, request: web.Request) -> web.StreamResponse:
        """MJPEG of the audio in the body, pictures sent while it still comes."""
        response = await self._begin(request)
        audio = frames = 0
        async for piece in request.content.iter_any():
            audio += len(piece)
            while frames < audio // 2 * self.fps // RATE_HZ:
                await self._picture(response, frames)
                frames += 1
        while frames < -(-audio // 2 * self.fps // RATE_HZ):
            await self._picture(response, frames)
            frames += 1
        self.audio_bytes.append(audio)
        self.frames.append(frames)
        await response.write(b"--frame--\r\n")
        return response

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """MJPEG without an end, as a camera's."""
        response = await self._begin(request)
        frames = 0
        with contextlib.suppress(ConnectionResetError):
            while True:
                await self._picture(response, frames)
                frames += 1
                await asyncio.sleep(1 / self.fps)
        return response

    async def _begin(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        kind = "multipart/x-mixed-replace; boundary=frame"
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        return response

    async def _picture(self, response: web.StreamResponse, number: int) -> None:
        picture = drawn(number)
        length = b"Content-Length: %d\r\n" % len(picture) if self.length else b""
        head = b"--frame\r\nContent-Type: image/jpeg\r\n" + length + b"\r\n"
        # Cut in two, so that no read holds just one part.
        await response.write(head + picture[:50])
        await response.write(picture[50:] + b"\r\n")


@contextlib.asynccontextmanager
async def other_heads(heads: OtherHeads, tls: ssl.SSLContext | None = None) -> AsyncIterator[OtherHeads]:
    """Serves `/talk`, `/render` and `/watch` on a free port of 127.0.0.1 until the block ends."""
    app = web.Application()
    app.router.add_get("/talk", heads.talk)
    app.router.add_post("/render", heads.render)
    app.router.add_get("/watch", heads.watch)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    scheme = "http" if tls is None else "https"
    heads.url = f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield heads
    finally:
        await runner.cleanup()
