"""A talking head that draws nothing: the right number of frames at once, and the faults of real heads."""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import WSMsgType, web

from cotenant.units import NS_PER_S
from cotenant.wire.frames import AUDIO_RATE_HZ, pack_frame

Fault = Literal["none", "refuse", "close", "silent", "error", "garbage", "no_frames", "deaf"]


@dataclass(slots=True, kw_only=True)
class TruthFace:
    """`fault` strikes after `good_frames`; `audio_bytes` of each clip, in order of their ends.

    `silent` reads and sends nothing more, `deaf` does not read either.
    """

    fault: Fault = "none"
    good_frames: int = 0
    url: str = ""
    audio_bytes: list[int] = field(default_factory=list)
    configs: list[dict[str, object]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One clip: a frame as soon as its audio is whole."""
        if self.fault == "refuse":
            return web.Response(status=401, text="no key")
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        fps, audio, frames = 25, 0, 0
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                audio += len(message.data)
                ready = audio // 2 * fps // AUDIO_RATE_HZ
            else:
                value = json.loads(message.data)
                if value["type"] == "config":
                    self.configs.append(value)
                    fps = value["fps"]
                    continue
                ready = -(-audio // 2 * fps // AUDIO_RATE_HZ)
            while frames < ready and self.fault != "no_frames":
                if self.fault != "none" and frames >= self.good_frames:
                    await self._strike(request, socket)
                    return socket
                await socket.send_bytes(pack_frame(frames, frames * NS_PER_S // fps, b"JPEG"))
                frames += 1
            if message.type is WSMsgType.TEXT:
                self.audio_bytes.append(audio)
                await socket.send_str(json.dumps({"type": "done", "frames": frames}))
        return socket

    async def _strike(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        if self.fault == "close":
            await socket.close()
        elif self.fault == "error":
            await socket.send_str(json.dumps({"type": "error", "message": "out of memory"}))
        elif self.fault == "deaf":
            assert request.transport is not None
            request.transport.pause_reading()
        elif self.fault == "garbage":
            await socket.send_bytes(b"not a frame")
        async for _ in socket:
            pass


@contextlib.asynccontextmanager
async def truth_face(face: TruthFace) -> AsyncIterator[TruthFace]:
    """Serves on a free port of 127.0.0.1 until the block ends; `face.url` is where."""
    app = web.Application()
    app.router.add_get("/v1/face", face.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    face.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield face
    finally:
        await runner.cleanup()
