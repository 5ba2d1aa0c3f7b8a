"""The built-in talking head's route: a WebSocket that takes audio and gives frames.

The client sends `{"type": "config", "sample_rate": 16000, "fps": 25, "format": "jpeg"}`, binary s16le audio
of any size, and `{"type": "end"}`. The server sends each frame as a header and a JPEG, then `{"type":
"done", "frames": n}`.
"""

import asyncio
import json
from typing import Any, Final

import numpy as np
from aiohttp import WSMsgType, web

from cotenant.tenants.builtin.shapes.ditto import SAMPLE_RATE_HZ
from cotenant.tenants.builtin.step_loop import Mailbox, StepLoop
from cotenant.tenants.builtin.talking_head import Frame, HeadEngine, Session
from cotenant.wire.frames import pack_frame

_FPS_LIMIT: Final = 60
_AUDIO_LIMIT_S: Final = 600


class _Refused(Exception):
    """What the client sent that cannot be served; the message goes back to it."""


def add_routes(app: web.Application, loop: StepLoop[HeadEngine]) -> None:
    """Adds the head's route to an application."""

    async def face(request: web.Request) -> web.WebSocketResponse:
        return await _face(request, loop)

    app.router.add_get("/v1/face", face)


async def _face(request: web.Request, loop: StepLoop[HeadEngine]) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(max_msg_size=16 * 2**20, compress=False)
    if not socket.can_prepare(request):
        raise web.HTTPBadRequest(text="this is a WebSocket: connect to it as one")
    await socket.prepare(request)
    try:
        first = await socket.receive()
        mailbox: Mailbox[Frame | int] = Mailbox()
        session = Session(fps=_fps(_object(first.data)), send=mailbox.put)
        await _serve(socket, loop, session, mailbox)
    except _Refused as refusal:
        await socket.send_json({"type": "error", "message": str(refusal)})
    except ConnectionError:
        pass  # the client went away, and what it asked for was dropped
    await socket.close()
    return socket


async def _serve(
    socket: web.WebSocketResponse, loop: StepLoop[HeadEngine], session: Session, mailbox: Mailbox[Frame | int]
) -> None:
    """Takes audio and sends frames at once, until all frames are sent or the client is gone."""
    loop.post(lambda engine: engine.add(session))
    tasks = (
        asyncio.create_task(_take_audio(socket, loop, session)),
        asyncio.create_task(_send_frames(socket, mailbox)),
    )
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        loop.drop(session)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _object(data: Any) -> dict[str, Any]:
    try:
        found = json.loads(data) if isinstance(data, str) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _Refused(
            'text messages must be JSON objects, first {"type": "config", "sample_rate": 16000, "fps": 25}'
        )
    return found


def _fps(config: dict[str, Any]) -> int:
    if config.get("type") != "config":
        raise _Refused('the first message must be {"type": "config", ...}')
    if config.get("sample_rate", SAMPLE_RATE_HZ) != SAMPLE_RATE_HZ:
        raise _Refused(f"sample_rate must be {SAMPLE_RATE_HZ}")
    if config.get("format", "jpeg") != "jpeg":
        raise _Refused("format must be jpeg")
    fps = config.get("fps", 25)
    if type(fps) is not int or not 1 <= fps <= _FPS_LIMIT:
        raise _Refused(f"fps must be a whole number from 1 to {_FPS_LIMIT}")
    return fps


async def _take_audio(socket: web.WebSocketResponse, loop: StepLoop[HeadEngine], session: Session) -> None:
    """Hands the audio over; returns only when the client is gone."""
    odd = b""
    taken_bytes, ended = 0, False
    async for message in socket:
        if ended:
            raise _Refused('nothing may follow {"type": "end"}')
        if message.type is WSMsgType.BINARY:
            taken_bytes += len(message.data)
            if taken_bytes > _AUDIO_LIMIT_S * 2 * SAMPLE_RATE_HZ:
                raise _Refused(f"a session takes at most {_AUDIO_LIMIT_S} s of audio")
            data = odd + message.data
            whole = len(data) // 2 * 2
            odd = data[whole:]
            samples = np.frombuffer(data[:whole], dtype="<i2").astype(np.int16)
            loop.post(lambda engine, samples=samples: engine.feed(session, samples))  # type: ignore[misc]
        elif message.type is WSMsgType.TEXT:
            if _object(message.data).get("type") != "end":
                raise _Refused('after the configuration only audio and {"type": "end"} may come')
            ended = True
            loop.post(lambda engine: engine.end(session))


async def _send_frames(socket: web.WebSocketResponse, mailbox: Mailbox[Frame | int]) -> None:
    while isinstance(item := await mailbox.get(), Frame):
        await socket.send_bytes(pack_frame(item.index, item.media_time_ns, item.jpeg))
    await socket.send_json({"type": "done", "frames": item})
