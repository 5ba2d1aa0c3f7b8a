"""The built-in voice's routes: OpenAI's `POST /v1/audio/speech`, streamed or whole, as pcm or wav."""

import json
import struct
from typing import Any, Final

from aiohttp import web

from cotenant.resources import data_dir
from cotenant.tenants.builtin.json_errors import bad_request, read_object
from cotenant.tenants.builtin.packets import PacketPolicy
from cotenant.tenants.builtin.recordings import RATE_HZ, Recordings, Samples
from cotenant.tenants.builtin.step_loop import Mailbox, StepLoop
from cotenant.tenants.builtin.tts import TtsEngine, Utterance

_INPUT_LIMIT: Final = 4096  # characters, OpenAI's own limit
_UNKNOWN_BYTES: Final = 0xFFFFFFFF  # in a WAV header whose length is not known yet
_CONTENT_TYPES: Final = {"pcm": f"audio/pcm;rate={RATE_HZ}", "wav": "audio/wav"}


def add_routes(app: web.Application, loop: StepLoop[TtsEngine], *, packets: PacketPolicy, model: str) -> None:
    """Adds the voice's routes to an application."""
    voice = _Voice(loop, packets, model)
    app.router.add_post("/v1/audio/speech", voice.speak)
    app.router.add_get("/v1/models", voice.models)


class _Voice:
    def __init__(self, loop: StepLoop[TtsEngine], packets: PacketPolicy, model: str) -> None:
        self._loop, self._packets, self._model = loop, packets, model
        self._recordings = Recordings(data_dir("fixtures"))

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self._model, "object": "model"}]})

    async def speak(self, request: web.Request) -> web.StreamResponse:
        body = await read_object(request)
        text, form = _checked(body)
        samples = self._recordings.speech_for(text)
        limit = self._loop.engine.frames_limit * self._loop.engine.samples_per_frame
        if len(samples) > limit:
            raise bad_request(
                f"this text takes {len(samples) / RATE_HZ:.0f} s; the limit is {limit // RATE_HZ} s"
            )
        mailbox: Mailbox[Samples | None] = Mailbox()
        utterance = Utterance(text=text, samples=samples, packets=self._packets, send=mailbox.put)
        self._loop.post(lambda engine: engine.add(utterance))
        try:
            if body.get("stream"):
                return await _stream(request, mailbox, form)
            return await _whole(mailbox, form)
        finally:
            self._loop.drop(utterance)


def _checked(body: dict[str, Any]) -> tuple[str, str]:
    """The text and the format of the answer, or a 400 that says what would be right."""
    text, form = body.get("input"), body.get("response_format", "wav")
    if not isinstance(text, str) or not text.strip():
        raise bad_request("input must be the text to speak")
    if len(text) > _INPUT_LIMIT:
        raise bad_request(f"input has {len(text)} characters; at most {_INPUT_LIMIT} are allowed")
    if not isinstance(form, str) or form not in _CONTENT_TYPES:
        raise bad_request(f"response_format {json.dumps(form)} is not offered; write pcm or wav")
    if not isinstance(body.get("stream", False), bool):
        raise bad_request("stream must be true or false")
    if body.get("stream_format", "audio") != "audio":
        raise bad_request("stream_format must be audio: events are not offered")
    return text, form


async def _stream(request: web.Request, mailbox: Mailbox[Samples | None], form: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": _CONTENT_TYPES[form]})
    response.enable_chunked_encoding()
    await response.prepare(request)
    if form == "wav":
        await response.write(wav_header(_UNKNOWN_BYTES))
    while (packet := await mailbox.get()) is not None:
        await response.write(packet.tobytes())
    await response.write_eof()
    return response


async def _whole(mailbox: Mailbox[Samples | None], form: str) -> web.Response:
    parts = []
    while (packet := await mailbox.get()) is not None:
        parts.append(packet.tobytes())
    body = b"".join(parts)
    head = wav_header(len(body)) if form == "wav" else b""
    return web.Response(body=head + body, headers={"Content-Type": _CONTENT_TYPES[form]})


def wav_header(data_bytes: int) -> bytes:
    """The 44 bytes before 24 kHz mono s16 samples; `_UNKNOWN_BYTES` where the length is not known."""
    riff_bytes = min(36 + data_bytes, _UNKNOWN_BYTES)
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF", riff_bytes, b"WAVE", b"fmt ", 16, 1, 1, RATE_HZ, 2 * RATE_HZ, 2, 16, b"data", data_bytes,
    )  # fmt: skip
