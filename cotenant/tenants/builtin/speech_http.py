"""A voice's routes: OpenAI's `POST /v1/audio/speech`, streamed or whole, as pcm or wav, or as events."""

import asyncio
import base64
import json
import logging
import struct
from collections.abc import Callable
from typing import Any, Final, Protocol

from aiohttp import web

from cotenant.tenants.builtin.answers import Failed, SampleFormat, Spoken
from cotenant.tenants.builtin.json_errors import bad_request, failure, read_object
from cotenant.tenants.builtin.mailbox import Mailbox, Unread, taken

log = logging.getLogger("cotenant.builtin")

_INPUT_LIMIT: Final = 4096  # characters, OpenAI's own limit
_UNKNOWN_BYTES: Final = 0xFFFFFFFF  # in a WAV header whose length is not known yet
_WHOLE_LIMIT_BYTES: Final = 256 << 20  # of an answer that is not streamed, and so held until its end
_FORMS: Final = ("pcm", "wav")
_WAV_FORMATS: Final = {"s16": (1, 2), "f32": (3, 4)}

Said = Spoken | Failed | None  # None: it is complete


class Voice(Protocol):
    """An engine as its front sees it.

    `format` is the rate and the form of its samples where both are known before it speaks: the answer's head
    is then sent at once, else with the first piece.
    """

    @property
    def model(self) -> str:
        """Its name in `/v1/models`."""

    @property
    def format(self) -> tuple[int, SampleFormat] | None:
        """Rate in Hz and sample format, or None."""

    def speak(self, text: str, voice: str | None, out: Mailbox[Said]) -> Callable[[], None]:
        """Begins an utterance; what is returned drops it, done or not. Raises a 400 for what it refuses."""


def add_routes(app: web.Application, voice: Voice) -> None:
    """Adds the voice's routes to an application."""

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": voice.model, "object": "model"}]})

    async def speech(request: web.Request) -> web.StreamResponse:
        body = await read_object(request)
        text, form, name = _checked(body)
        mailbox: Mailbox[Said] = Mailbox(_size_bytes)
        drop = voice.speak(text, name, mailbox)
        try:
            if not body.get("stream"):
                return await _whole(mailbox, form)
            answer = _Events(request) if body.get("stream_format") == "sse" else _Samples(request, form)
            return await _stream(answer, mailbox, voice.format)
        except Unread as unread:
            log.warning("speech: the client was dropped: %s", unread)
            if request.transport is not None:
                request.transport.abort()
            raise asyncio.CancelledError from None  # nobody is there to answer
        finally:
            drop()
            mailbox.close()

    app.router.add_post("/v1/audio/speech", speech)
    app.router.add_get("/v1/models", models)


def _size_bytes(item: Said) -> int:
    return len(item.data) if isinstance(item, Spoken) else 0


def _checked(body: dict[str, Any]) -> tuple[str, str, str | None]:
    """The text, the form of the answer and the voice's name, or a 400 that says what would be right."""
    text, form, name = body.get("input"), body.get("response_format", "wav"), body.get("voice")
    if not isinstance(text, str) or not text.strip():
        raise bad_request("input must be the text to speak")
    if len(text) > _INPUT_LIMIT:
        raise bad_request(f"input has {len(text)} characters; at most {_INPUT_LIMIT} are allowed")
    if not isinstance(form, str) or form not in _FORMS:
        raise bad_request(f"response_format {json.dumps(form)} is not offered; write pcm or wav")
    if not isinstance(body.get("stream", False), bool):
        raise bad_request("stream must be true or false")
    events = body.get("stream_format", "audio")
    if events not in ("audio", "sse") or (events == "sse" and not (body.get("stream") and form == "pcm")):
        raise bad_request("stream_format must be audio, or with stream: true and response_format: pcm sse")
    return text, form, name if isinstance(name, str) else None


class _Samples:
    """A streamed answer that is the samples alone. It tells a failure by ending before its end."""

    def __init__(self, request: web.Request, form: str) -> None:
        self._request, self._form = request, form

    async def begin(self, rate_hz: int, sample_format: SampleFormat) -> web.StreamResponse:
        response = await _prepared(self._request, _headers(self._form, rate_hz, sample_format))
        if self._form == "wav":
            await response.write(wav_header(_UNKNOWN_BYTES, rate_hz, sample_format))
        return response

    async def piece(self, response: web.StreamResponse, spoken: Spoken) -> None:
        await response.write(spoken.data)

    async def fail(self, response: web.StreamResponse, failed: Failed) -> None:
        # What was written is sent, and then the connection closes without the chunk that would end the body.
        if self._request.transport is not None:
            self._request.transport.close()

    async def end(self, response: web.StreamResponse) -> None:
        await response.write_eof()


class _Events:
    """A streamed answer of server-sent events, in which a failure can be told."""

    def __init__(self, request: web.Request) -> None:
        self._request = request

    async def begin(self, rate_hz: int, sample_format: SampleFormat) -> web.StreamResponse:
        headers = {**_headers("pcm", rate_hz, sample_format), "X-Sample-Rate": str(rate_hz)}
        return await _prepared(self._request, {**headers, "Content-Type": "text/event-stream"})

    async def piece(self, response: web.StreamResponse, spoken: Spoken) -> None:
        audio = base64.b64encode(spoken.data).decode()
        await self._event(response, {"type": "speech.audio.delta", "audio": audio})

    async def fail(self, response: web.StreamResponse, failed: Failed) -> None:
        error = {"message": failed.message, "type": "InternalServerError", "code": 500}
        await self._event(response, {"type": "error", "error": error})
        await response.write_eof()

    async def end(self, response: web.StreamResponse) -> None:
        await self._event(response, {"type": "speech.audio.done"})
        await response.write_eof()

    async def _event(self, response: web.StreamResponse, event: dict[str, Any]) -> None:
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")


async def _prepared(request: web.Request, headers: dict[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers=headers)
    response.enable_chunked_encoding()
    await response.prepare(request)
    return response


async def _stream(
    answer: _Samples | _Events, mailbox: Mailbox[Said], known: tuple[int, SampleFormat] | None
) -> web.StreamResponse:
    response = await answer.begin(*known) if known is not None else None
    while isinstance(item := await mailbox.get(), Spoken):
        if response is None:
            response = await answer.begin(item.rate_hz, item.sample_format)
        await taken(answer.piece(response, item))
    if response is None:
        return _silence(item)
    if isinstance(item, Failed):
        await taken(answer.fail(response, item))
    else:
        await taken(answer.end(response))
    return response


async def _whole(mailbox: Mailbox[Said], form: str) -> web.Response:
    parts: list[Spoken] = []
    total_bytes = 0
    while isinstance(item := await mailbox.get(), Spoken):
        parts.append(item)
        total_bytes += len(item.data)
        if total_bytes > _WHOLE_LIMIT_BYTES:
            raise failure(f"the answer has over {_WHOLE_LIMIT_BYTES >> 20} MiB; ask for it with stream: true")
    if isinstance(item, Failed) or not parts:
        return _silence(item)
    body = b"".join(part.data for part in parts)
    rate_hz, sample_format = parts[0].rate_hz, parts[0].sample_format
    head = wav_header(len(body), rate_hz, sample_format) if form == "wav" else b""
    return web.Response(body=head + body, headers=_headers(form, rate_hz, sample_format))


def _silence(item: Failed | None) -> web.Response:
    """The answer where nothing was spoken: why, or an empty body."""
    if item is None:
        return web.Response(body=b"", headers={"Content-Type": "audio/pcm"})
    raise failure(item.message)


def _headers(form: str, rate_hz: int, sample_format: SampleFormat) -> dict[str, str]:
    """What tells the samples: a WAV does itself, and raw ones are 16-bit integers if nothing is said."""
    if form == "wav":
        return {"Content-Type": "audio/wav"}
    floats = {"X-Bit-Depth": "32"} if sample_format == "f32" else {}
    return {"Content-Type": f"audio/pcm;rate={rate_hz}", **floats}


def wav_header(data_bytes: int, rate_hz: int, sample_format: SampleFormat = "s16") -> bytes:
    """The 44 bytes before mono samples; `_UNKNOWN_BYTES` where the length is not known."""
    riff_bytes = min(36 + data_bytes, _UNKNOWN_BYTES)
    tag, width = _WAV_FORMATS[sample_format]
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF", riff_bytes, b"WAVE", b"fmt ", 16, tag, 1, rate_hz, width * rate_hz, width, 8 * width,
        b"data", data_bytes,
    )  # fmt: skip
