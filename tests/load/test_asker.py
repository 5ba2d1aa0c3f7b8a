"""Askers: prompts, always-alive and open loops, token rows, and what an LLM server does wrong."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from cotenant.load.asker import ask, prepare, start_askers
from cotenant.load.desk import Desk
from cotenant.load.prompts import prompt_ids
from cotenant.load.settings import CompletionsLoad, Settings
from cotenant.load.stage import Stage
from cotenant.testing.idle_llm import IdleLlm
from cotenant.testing.truth_server import Script, truth_server
from cotenant.units import NS_PER_MS, NS_PER_S
from tests.load.rig import SSE_HEADERS, KeptRows, completions, desk_for, new_stage, run, settings, tenant


def event(text: str, count: int | None = None) -> bytes:
    value: dict[str, object] = {"choices": [{"text": text}]}
    if count is not None:
        value["usage"] = {"prompt_tokens": 16, "completion_tokens": count}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


@contextlib.asynccontextmanager
async def idle_llm(tokens_per_s: float = 500, prefill_tokens_per_s: float = 1e5) -> AsyncIterator[str]:
    llm = IdleLlm(tokens_per_s=tokens_per_s, prefill_tokens_per_s=prefill_tokens_per_s)
    runner = web.AppRunner(llm.app(), shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def asked(script: Script, **told: int) -> KeptRows:
    async with truth_server(lambda _: script) as server:
        load = completions()
        async with desk_for(settings([tenant(server.url, "llm")], [load], **told)) as (desk, rows):
            due_ns = time.monotonic_ns()
            await ask(desk, new_stage(), load, 0, due_ns, prepare(desk, load, load.output))
            return rows


def test_prompts_have_their_length_and_range_and_share_no_prefix() -> None:
    prompts = [prompt_ids(f"run/7/1/{i}", 4000) for i in range(20)]
    assert all(len(prompt) == 4000 and min(prompt) >= 100 and max(prompt) < 4000 for prompt in prompts)
    assert len({tuple(prompt[:4]) for prompt in prompts}) == 20
    assert prompt_ids("run/7/1/0", 4000) == prompts[0]
    assert all(type(token) is int for token in prompts[0][:5])


def test_a_good_answer() -> None:
    pieces = [(0, event("", 1)), (5 * NS_PER_MS, event("ab", 3)), (0, event("", 3)), (0, DONE)]
    rows = run(asked(Script(headers=SSE_HEADERS, pieces=pieces)))
    row = rows.stream()
    assert (row["end"], row["prompt_tokens"], row["output_tokens"]) == ("eos", 16, 3)
    assert (row["kind"], row["stamp"]) == ("completions", "kernel")
    tokens = rows.rows["tokens"]
    assert [(token["seq"], token["tokens"]) for token in tokens] == [(0, 1), (1, 2)]
    assert tokens[0]["arrival"] < tokens[1]["arrival"] <= row["done"]


@pytest.mark.parametrize(
    ("script", "end", "kind"),
    [
        (Script(headers=SSE_HEADERS, pieces=[(0, event("a"))], ending="close"), "truncated", "truncated"),
        (Script(headers=SSE_HEADERS, pieces=[(0, event("a"))], ending="silent"), "truncated", "timeout"),
        (Script(headers=SSE_HEADERS, ending="silent"), "error", "timeout"),
        (Script(head=False, ending="silent"), "error", "timeout"),
        (Script(headers=SSE_HEADERS, pieces=[(0, DONE)]), "error", "empty"),
        (
            Script(
                headers=SSE_HEADERS, pieces=[(0, event("a")), (0, b'data: {"error": {"message": "x"}}\n\n')]
            ),
            "error",
            "in_stream",
        ),
        (Script(status=503, framing="length", pieces=[(0, b"queue full")]), "error", "overloaded"),
        (Script(status=401, framing="length", pieces=[(0, b"no key")]), "error", "unauthorized"),
        (
            Script(headers={"Content-Type": "application/json"}, framing="length", pieces=[(0, b"{}")]),
            "error",
            "protocol",
        ),
    ],
)
def test_faults(script: Script, end: str, kind: str) -> None:
    row = run(asked(script, request_limit_ns=200 * NS_PER_MS)).stream()
    assert (row["end"], row["error_kind"]) == (end, kind)
    assert row["error"]


def test_only_the_request_limit_ends_a_slow_answer() -> None:
    # Five times the stall limit between two tokens.
    pieces = [(0, event("a")), (100 * NS_PER_MS, event("b")), (0, DONE)]
    rows = run(asked(Script(headers=SSE_HEADERS, pieces=pieces), stall_limit_ns=20 * NS_PER_MS))
    assert rows.stream()["end"] == "eos"


async def loaded(load: CompletionsLoad, seconds: float) -> tuple[KeptRows, Stage]:
    async with idle_llm() as url:
        # It is the limit of connecting too, which a busy machine needs longer for.
        told = settings([tenant(url, "llm", rate_hz=None)], [load], stall_limit_ns=30 * NS_PER_S)
        return await loaded_by(told, load, seconds)


async def loaded_by(told: Settings, load: CompletionsLoad, seconds: float) -> tuple[KeptRows, Stage]:
    async with desk_for(told) as (desk, rows):
        stage = new_stage(start_ns=time.monotonic_ns(), window=(0, 10**18))
        stage.failure = asyncio.get_running_loop().create_future()
        start_askers(desk, stage, load)
        await asyncio.wait((stage.failure,), timeout=seconds)
        await stage.drain("open")
        assert not stage.failure.done()
        stage.failure.cancel()
        return rows, stage


def test_alive_keeps_its_streams_in_flight() -> None:
    load = completions(streams=3, output=20, prompt=50)
    rows, stage = run(loaded(load, 0.6))
    last = {row["stream"]: row for row in rows.rows["streams"]}
    ended = [row for row in last.values() if row["end"] == "eos"]
    assert len(ended) >= 6
    # The drain may fall between two requests of a stream; each follows the one before at once.
    assert sum(row["end"] == "open" for row in last.values()) <= 3
    for listener in range(3):
        mine = [row for row in last.values() if row["listener"] == listener]
        assert [row["due"] for row in mine[1:]] == [row["done"] for row in mine[:-1]]
    assert all((row["prompt_tokens"], row["output_tokens"]) == (50, 20) for row in ended)
    assert stage.is_settled("decode")
    assert stage.counts.tokens == sum(token["tokens"] for token in rows.rows["tokens"])
    for number in range(3):
        mine = sorted((row for row in ended if row["listener"] == number), key=lambda row: row["due"])
        assert [row["due"] for row in mine[1:]] == [row["done"] for row in mine[:-1]]


def test_rate_sends_every_request_however_slow_the_answers() -> None:
    load = completions(mode="rate", rate_per_s=50.0, output=10_000)
    rows, stage = run(loaded(load, 0.5))
    last = {row["stream"]: row for row in rows.rows["streams"]}
    assert {row["end"] for row in last.values()} == {"open"}, {row["error"] for row in last.values()}
    assert len(last) >= 15
    assert stage.is_settled("decode")
    assert len({row["listener"] for row in last.values()}) == len(last)


def test_bodies_differ_for_each_request() -> None:
    async def bodies() -> list[bytes]:
        async with desk_for(settings([tenant("http://x", "llm")], [completions()])) as (desk, _):
            return [made(desk) for _ in range(5)]

    def made(desk: Desk) -> bytes:
        return prepare(desk, completions(), 4)

    prompts = [tuple(json.loads(body)["prompt"]) for body in run(bodies())]
    assert len(set(prompts)) == 5
    assert all(len(prompt) == 16 for prompt in prompts)


@pytest.mark.parametrize("uv", [True, False], ids=["uvloop", "asyncio"])
def test_a_server_that_does_not_read_its_request(uv: bool) -> None:
    async def work() -> KeptRows:
        # Connections are taken by the kernel and never read: a long prompt does not fit into its buffers.
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            load = completions(prompt=2_000_000)
            url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
            told = settings([tenant(url, "llm")], [load], request_limit_ns=300 * NS_PER_MS)
            async with desk_for(told) as (desk, rows):
                body = prepare(desk, load, 4)
                await ask(desk, new_stage(), load, 0, time.monotonic_ns(), body)
                return rows

    row = run(work(), uv=uv).stream()
    assert (row["end"], row["error_kind"], row["first_byte"]) == ("error", "timeout", None)


def test_an_answer_before_the_request_was_read_counts() -> None:
    async def work() -> KeptRows:
        async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 503 Full\r\nContent-Length: 4\r\n\r\nfull")
            await writer.drain()
            await gone.wait()
            writer.close()

        gone = asyncio.Event()
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        async with server:
            load = completions(prompt=2_000_000)
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with desk_for(settings([tenant(url, "llm")], [load])) as (desk, rows):
                await ask(desk, new_stage(), load, 0, time.monotonic_ns(), prepare(desk, load, 4))
            gone.set()
        return rows

    row = run(work()).stream()
    assert (row["end"], row["error_kind"], row["status"]) == ("error", "overloaded", 503)
