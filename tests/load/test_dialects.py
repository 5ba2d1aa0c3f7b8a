"""What an LLM tenant is found to accept before anything is measured, by servers that refuse this and that."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from cotenant.load.asker import ask, prepare
from cotenant.load.prompts import WORDS, prompt_text
from cotenant.load.warm import Warmth, warm
from cotenant.records import WARM_STAGE
from cotenant.testing.truth_server import Script, truth_server
from cotenant.wire.dialect import CHAT, Dialect
from tests.load.rig import SSE_HEADERS, KeptRows, completions, desk_for, new_stage, run, settings, tenant


class Picky:
    """An OpenAI-compatible server that refuses the fields in `refuses`, and ids where it takes only text.

    `paths`: where it answers; `gap_s` before each token. Two tokens a word; three more in a chat.
    `bodies` and `prompt_tokens` are of what it answered.
    """

    def __init__(
        self, *paths: str, refuses: tuple[str, ...] = (), ids: bool = False, gap_s: float = 0
    ) -> None:
        self.paths = paths or ("/v1/completions",)
        self.refuses, self.ids, self.gap_s = refuses, ids, gap_s
        self.bodies: list[dict[str, Any]] = []
        self.prompt_tokens: list[int] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if request.path not in self.paths:
            return web.json_response({"detail": "Not Found"}, status=404)
        said = json.dumps({name: value for name, value in body.items() if name not in ("prompt", "messages")})
        for name in self.refuses:
            if f'"{name}"' in said:
                return web.json_response({"error": {"message": f"unknown field: {name}"}}, status=400)
        if isinstance(body.get("prompt"), list) and not self.ids:
            return web.json_response({"error": "prompt: expected a string"}, status=422)
        self.bodies.append(body)
        chat = "messages" in body
        text = body["messages"][0]["content"] if chat else body["prompt"]
        tokens = len(text) if isinstance(text, list) else 2 * len(text.split()) + 3 * chat
        self.prompt_tokens.append(tokens)
        response = web.StreamResponse(headers=SSE_HEADERS)
        await response.prepare(request)
        for number in range(4):
            await asyncio.sleep(self.gap_s)
            choice: dict[str, Any] = {"delta": {"content": "a"}} if chat else {"text": "a"}
            await response.write(
                event({"choices": [{**choice, "finish_reason": "length" if number == 3 else None}]})
            )
        if "stream_options" in body:
            await response.write(
                event({"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 4}})
            )
        return response


def event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


@contextlib.asynccontextmanager
async def serving(picky: Picky) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/{path:.*}", picky.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def warmed(
    picky: Picky, path: str = "", protocol: str = "openai", **load: Any
) -> tuple[Warmth, Dialect | None, KeptRows]:
    """A warm-up, and one request after it."""
    async with serving(picky) as url:
        one = completions(**{"streams": 2, "prompt": 300, **load})
        told = settings([tenant(url + path, "llm", protocol=protocol)], [one])
        async with desk_for(told) as (desk, rows):
            warmth = await warm(desk, new_stage(WARM_STAGE), "decode")
            if warmth.ok:
                await ask(desk, new_stage(), one, 0, time.monotonic_ns(), prepare(desk, one, 4))
            return warmth, desk.dialects.get("llm"), rows


ALL = ("/v1/completions", "/v1/chat/completions")
FEW = ("continuous_usage_stats", "ignore_eos", "temperature")


@pytest.mark.parametrize(
    ("picky", "protocol", "found"),
    [
        (Picky(ids=True), "openai", None),
        (Picky(*ALL), "openai", Dialect(ids=False)),
        (Picky(ALL[1]), "openai", CHAT),
        (Picky(*ALL, ids=True), "chat", None),
        (
            Picky(refuses=FEW),
            "completions",
            Dialect(ids=False, usage="last", ignore_eos=False, temperature=False),
        ),
        (
            Picky(*ALL, refuses=("stream_options",)),
            "chat",
            Dialect(chat=True, ids=False, usage="none"),
        ),
    ],
)  # fmt: skip
def test_the_dialect_is_found(picky: Picky, protocol: str, found: Dialect | None) -> None:
    warmth, dialect, rows = run(warmed(picky, protocol=protocol))
    assert dialect == found
    assert (warmth.ok, warmth.failures) == (2, [])
    assert len(picky.bodies) == 3
    row = rows.stream(-1)
    used = dialect or (CHAT if protocol == "chat" else Dialect())
    assert warmth.request == used.fact()
    assert warmth.event("decode")["request"]["protocol"] == ("chat" if used.chat else "completions")
    assert row["end"] == "eos"
    # By the server's count, if it told that; without one nobody knows how long a text is.
    assert picky.prompt_tokens[-1] == 300 or not used.ids
    assert row["prompt_tokens"] == (None if used.usage == "none" else picky.prompt_tokens[-1])


def test_prompts_of_words_are_as_long_as_asked_and_new_each_time() -> None:
    picky = Picky(*ALL)
    _, _, rows = run(warmed(picky))
    texts = [body["prompt"] for body in picky.bodies]
    assert [len(text.split()) for text in texts] == [300, 150, 150]
    assert len({text[:20] for text in texts}) == 3
    assert rows.stream(-1)["prompt_tokens"] == 300


@pytest.mark.parametrize(
    ("path", "picky"),
    [
        ("/v1", Picky("/v1/completions")),
        ("/api/v1", Picky("/api/v1/completions")),
        ("/llm/chat/completions", Picky("/llm/chat/completions")),
        ("/v1/chat/completions", Picky("/v1/chat/completions")),
        ("/llm/v1/completions", Picky("/llm/v1/completions")),
    ],
)
def test_an_address_with_a_path_of_its_own(path: str, picky: Picky) -> None:
    warmth, _, _ = run(warmed(picky, path))
    assert (warmth.ok, warmth.failures) == (2, [])
    assert ("messages" in picky.bodies[0]) == path.endswith("chat/completions")


@pytest.mark.parametrize("protocol", ["completions", "chat"])
def test_a_protocol_that_is_named_is_kept(protocol: str) -> None:
    warmth, _, _ = run(warmed(Picky("/elsewhere"), protocol=protocol))
    assert (warmth.ok, len(warmth.failures)) == (0, 2)
    assert warmth.failures[0][0] == "not_found"


def test_a_server_that_is_not_there_is_asked_as_often_as_planned() -> None:
    async def work() -> tuple[Warmth, int]:
        one = completions(streams=3)
        async with desk_for(settings([tenant("http://127.0.0.1:1", "llm")], [one])) as (desk, rows):
            warmth = await warm(desk, new_stage(WARM_STAGE), "decode")
            return warmth, len({row["stream"] for row in rows.rows["streams"]})

    warmth, streams = run(work())
    assert warmth.ok == 0
    assert [kind for kind, _ in warmth.failures] == ["refused"] * 3
    assert streams == 4


@pytest.mark.parametrize(
    ("pieces", "ending", "end", "kind"),
    [
        ([{"choices": [{"text": "a", "finish_reason": "length"}]}], "finish", "eos", None),
        ([{"choices": [{"text": "a", "finish_reason": "length"}]}], "close", "eos", None),
        ([{"choices": [{"text": "a"}]}], "finish", "truncated", "truncated"),
        ([{"choices": [{"text": "a"}]}], "close", "truncated", "truncated"),
        ([{"choices": [{"text": "a"}]}, {"error": {"message": "x"}}], "finish", "error", "in_stream"),
        ([], "finish", "error", "empty"),
    ],
)
def test_how_an_answer_without_done_ended(pieces: list[Any], ending: Any, end: str, kind: str | None) -> None:
    script = Script(headers=SSE_HEADERS, pieces=[(0, event(piece)) for piece in pieces], ending=ending)

    async def work() -> KeptRows:
        async with truth_server(lambda _: script) as server:
            one = completions()
            async with desk_for(settings([tenant(server.url, "llm")], [one])) as (desk, rows):
                await ask(desk, new_stage(), one, 0, time.monotonic_ns(), prepare(desk, one, 4))
                return rows

    row = run(work()).stream()
    assert (row["end"], row["error_kind"]) == (end, kind)
    # One that ended well has a note, one that did not says why.
    assert (row["error"] == "the answer ended without [DONE]") == (kind is None)
    assert row["error"]


def test_a_redirect_is_told_and_not_followed() -> None:
    async def work() -> tuple[KeptRows, int]:
        async with truth_server(lambda _: Script(headers=SSE_HEADERS)) as other:
            script = Script(status=307, headers={"Location": other.url + "/v1/completions"})
            async with truth_server(lambda _: script) as server:
                one = completions()
                key = {"Authorization": "Bearer sk-secret-0123"}
                told = settings([tenant(server.url, "llm", headers=key)], [one])
                async with desk_for(told) as (desk, rows):
                    await ask(desk, new_stage(), one, 0, time.monotonic_ns(), prepare(desk, one, 4))
                asked = {name.lower(): value for name, value in server.served[0].headers.items()}
                assert asked["authorization"] == "Bearer sk-secret-0123"
                return rows, len(other.served)

    rows, followed = run(work())
    row = rows.stream()
    assert followed == 0
    assert (row["end"], row["error_kind"], row["status"]) == ("error", "protocol", 307)
    assert "redirect" in row["error"]


def test_words() -> None:
    assert len(set(WORDS)) == len(WORDS) >= 200
    assert all(word.isalpha() and len(word) <= 4 for word in WORDS)
    assert prompt_text("a", 5) == prompt_text("a", 5) != prompt_text("b", 5)
    assert len(prompt_text("a", 5).split()) == 5
