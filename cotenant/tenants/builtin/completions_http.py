"""The built-in LLM's routes: OpenAI's completions and chats as vLLM streams them, and `/metrics`."""

import asyncio
import json
import time
import uuid
from typing import Any, Final

from aiohttp import web

from cotenant.tenants.builtin import completions_request, llm_metrics
from cotenant.tenants.builtin.completions_request import Asked
from cotenant.tenants.builtin.json_errors import bad_request, read_object
from cotenant.tenants.builtin.llm import LlmEngine, Sequence
from cotenant.tenants.builtin.mailbox import Mailbox
from cotenant.tenants.builtin.shapes.decoder_llm import LlmSizes
from cotenant.tenants.builtin.step_loop import StepLoop

_Token = tuple[int, str | None]
_SYLLABLES: Final = tuple(c + v for c in ("", *"bdfgklmnprstvz") for v in ("a", "e", "i", "o", "u"))


def add_routes(app: web.Application, loop: StepLoop[LlmEngine], *, sizes: LlmSizes, model: str) -> None:
    """Adds the LLM's routes to an application."""
    llm = _Llm(loop, sizes, model)
    app.router.add_post("/v1/completions", llm.complete)
    app.router.add_post("/v1/chat/completions", llm.chat)
    app.router.add_get("/v1/models", llm.models)
    app.router.add_get("/metrics", llm.metrics)


def token_text(token: int) -> str:
    """The text of a token: a space and two syllables (no tokeniser is real here)."""
    count = len(_SYLLABLES)
    return f" {_SYLLABLES[token // count % count]}{_SYLLABLES[token % count]}"


class _Llm:
    def __init__(self, loop: StepLoop[LlmEngine], sizes: LlmSizes, model: str) -> None:
        self._loop, self._sizes, self._model = loop, sizes, model

    async def models(self, request: web.Request) -> web.Response:
        entry = {"id": self._model, "object": "model", "max_model_len": self._sizes.context}
        return web.json_response({"object": "list", "data": [entry]})

    async def metrics(self, request: web.Request) -> web.Response:
        text = llm_metrics.render(self._loop.engine, self._model)
        return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, chat=False)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, chat=True)

    async def _answer(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        body = await read_object(request)
        try:
            asked = completions_request.parse(
                body, vocabulary=self._sizes.vocabulary, context=self._sizes.context, chat=chat
            )
        except ValueError as error:
            raise bad_request(str(error)) from error
        mailbox: Mailbox[_Token] = Mailbox()
        sequence = Sequence(
            prompt=asked.prompt,
            max_tokens=asked.max_tokens,
            min_tokens=asked.min_tokens,
            ignore_eos=asked.ignore_eos,
            temperature=asked.temperature,
            send=mailbox.put,
        )
        self._loop.post(lambda engine: engine.add(sequence))
        model = asked.model or self._model
        answer = _ChatAnswer(asked, model) if chat else _Answer(asked, model)
        try:
            if asked.stream:
                return await answer.stream(request, mailbox)
            return await answer.whole(mailbox)
        except ConnectionResetError:
            raise asyncio.CancelledError from None  # nobody is there to answer
        finally:
            self._loop.drop(sequence)


class _Answer:
    """What goes back for one request."""

    identifier = "cmpl"
    whole_object = chunk_object = "text_completion"

    def __init__(self, asked: Asked, model: str) -> None:
        self._asked = asked
        self._head = {
            "id": f"{self.identifier}-{uuid.uuid4().hex}",
            "object": self.chunk_object if asked.stream else self.whole_object,
            "created": int(time.time()),
            "model": model,
        }

    def _usage(self, output: int) -> dict[str, int]:
        prompt = len(self._asked.prompt)
        return {"prompt_tokens": prompt, "total_tokens": prompt + output, "completion_tokens": output}

    def _choice(self, text: str, reason: str | None) -> dict[str, Any]:
        return {
            "index": 0,
            **self._content(text),
            "logprobs": None,
            "finish_reason": reason,
            "stop_reason": None,
        }

    def _content(self, text: str) -> dict[str, Any]:
        return {"text": text}

    def _opening(self) -> dict[str, Any] | None:
        """The choice of an event before the first token, if there is one."""
        return None

    async def stream(self, request: web.Request, mailbox: Mailbox[_Token]) -> web.StreamResponse:
        """One event a token, then the usage if it was asked for, then `[DONE]`."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        output, reason = 0, None
        while reason is None:
            token, reason = await mailbox.get()
            if not output and (opening := self._opening()) is not None:
                await response.write(self._chunk(opening, 0))
            output += 1
            await response.write(self._chunk(self._choice(token_text(token), reason), output))
        if self._asked.include_usage:
            await response.write(_event({**self._head, "choices": [], "usage": self._usage(output)}))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    def _chunk(self, choice: dict[str, Any], output: int) -> bytes:
        event = {**self._head, "choices": [choice]}
        if self._asked.continuous_usage:
            event["usage"] = self._usage(output)
        return _event(event)

    async def whole(self, mailbox: Mailbox[_Token]) -> web.Response:
        """Everything at once, after the last token."""
        texts: list[str] = []
        reason = None
        while reason is None:
            token, reason = await mailbox.get()
            texts.append(token_text(token))
        choices = [self._choice("".join(texts), reason)]
        return web.json_response({**self._head, "choices": choices, "usage": self._usage(len(texts))})


class _ChatAnswer(_Answer):
    """A chat's: who speaks comes first, with the first token but in an event of its own."""

    identifier = "chatcmpl"
    whole_object, chunk_object = "chat.completion", "chat.completion.chunk"

    def _content(self, text: str) -> dict[str, Any]:
        if self._asked.stream:
            return {"delta": {"content": text}}
        return {"message": {"role": "assistant", "content": text}}

    def _opening(self) -> dict[str, Any] | None:
        delta = {"role": "assistant", "content": ""}
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"
