"""A talking head's route: a WebSocket that takes audio and gives frames.

The client sends `{"type": "config", "sample_rate": 16000, "fps": 25, "format": "jpeg"}`, binary s16le audio
of any size, and `{"type": "end"}`. The server sends each frame as a header and a JPEG, then `{"type":
"done", "frames": n}`, or `{"type": "error", "message"}` for what it cannot serve.
"""

import asyncio
import json
import logging
from contextlib import suppress
from typing import Any, Final, Protocol

import numpy as np
from aiohttp import WSCloseCode, WSMsgType, web
from numpy.typing import NDArray

from cotenant.tenants.builtin.answers import Failed, Frame
from cotenant.tenants.builtin.mailbox import Mailbox, Unread, taken
from cotenant.wire.frames import AUDIO_RATE_HZ, pack_frame

log = logging.getLogger("cotenant.builtin")

_FPS_LIMIT: Final = 60
_AUDIO_LIMIT_S: Final = 600
_LAST_WORD_S: Final = 1.0


Shown = Frame | int | Failed  # a number of frames: it is complete


class Clip(Protocol):
    """One client as an engine takes it; every call comes from the event loop's thread."""

    def feed(self, samples: NDArray[np.int16]) -> None:
        """More of its audio, 16 kHz."""

    def end(self) -> None:
        """No more audio will come."""

    def drop(self) -> None:
        """The client is gone, or has everything."""


class Head(Protocol):
    """An engine as its front sees it."""

    def begin(self, fps: int, out: Mailbox[Shown]) -> Clip:
        """Begins a clip whose frames go to `out`; no more are made while that is full."""


class _Refused(Exception):
    """What the client sent that cannot be served; the message goes back to it."""


def add_routes(app: web.Application, head: Head) -> None:
    """Adds the head's route to an application."""

    async def face(request: web.Request) -> web.WebSocketResponse:
        return await _face(request, head)

    app.router.add_get("/v1/face", face)


async def _face(request: web.Request, head: Head) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(max_msg_size=16 * 2**20, compress=False)
    if not socket.can_prepare(request):
        raise web.HTTPBadRequest(text="this is a WebSocket: connect to it as one")
    await socket.prepare(request)
    with suppress(ConnectionError):  # the client went away, and what it asked for was dropped
        try:
            first = await socket.receive()
            mailbox: Mailbox[Shown] = Mailbox(_size_bytes)
            clip = head.begin(_fps(_object(first.data)), mailbox)
            await _serve(socket, clip, mailbox)
        except _Refused as refusal:
            await socket.send_json({"type": "error", "message": str(refusal)})
        except Unread as unread:
            await _hang_up(socket, request, f"the client was dropped: {unread}")
    await socket.close()
    return socket


def _size_bytes(item: Shown) -> int:
    return len(item.jpeg) if isinstance(item, Frame) else 0


async def _hang_up(socket: web.WebSocketResponse, request: web.Request, why: str) -> None:
    """Tells a client that does not read why, should it read after all; it keeps nothing open."""
    log.warning("face: %s", why)
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(_LAST_WORD_S):
            await socket.send_json({"type": "error", "message": why})
            await socket.close(code=WSCloseCode.POLICY_VIOLATION)
    if request.transport is not None:
        request.transport.abort()


async def _serve(socket: web.WebSocketResponse, clip: Clip, mailbox: Mailbox[Shown]) -> None:
    """Takes audio and sends frames at once, until all frames are sent or the client is gone."""
    tasks = (
        asyncio.create_task(_take_audio(socket, clip)),
        asyncio.create_task(_send_frames(socket, mailbox)),
    )
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        clip.drop()
        mailbox.close()
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
    if config.get("sample_rate", AUDIO_RATE_HZ) != AUDIO_RATE_HZ:
        raise _Refused(f"sample_rate must be {AUDIO_RATE_HZ}")
    if config.get("format", "jpeg") != "jpeg":
        raise _Refused("format must be jpeg")
    fps = config.get("fps", 25)
    if type(fps) is not int or not 1 <= fps <= _FPS_LIMIT:
        raise _Refused(f"fps must be a whole number from 1 to {_FPS_LIMIT}")
    return fps


async def _take_audio(socket: web.WebSocketResponse, clip: Clip) -> None:
    """Hands the audio over; returns only when the client is gone."""
    odd = b""
    taken_bytes, ended = 0, False
    async for message in socket:
        if ended:
            raise _Refused('nothing may follow {"type": "end"}')
        if message.type is WSMsgType.BINARY:
            taken_bytes += len(message.data)
            if taken_bytes > _AUDIO_LIMIT_S * 2 * AUDIO_RATE_HZ:
                raise _Refused(f"a session takes at most {_AUDIO_LIMIT_S} s of audio")
            data = odd + message.data
            whole = len(data) // 2 * 2
            odd = data[whole:]
            clip.feed(np.frombuffer(data[:whole], dtype="<i2").astype(np.int16))
        elif message.type is WSMsgType.TEXT:
            if _object(message.data).get("type") != "end":
                raise _Refused('after the configuration only audio and {"type": "end"} may come')
            ended = True
            clip.end()


async def _send_frames(socket: web.WebSocketResponse, mailbox: Mailbox[Shown]) -> None:
    while isinstance(item := await mailbox.get(), Frame):
        await taken(socket.send_bytes(pack_frame(item.index, item.media_time_ns, item.jpeg)))
    if isinstance(item, Failed):
        raise _Refused(item.message)
    await socket.send_json({"type": "done", "frames": item})
