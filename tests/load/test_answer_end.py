"""Where an LLM's answer ends: by `[DONE]`, by its reason, by its usage; and what may come after that."""

import asyncio
import dataclasses
import json
import time
from typing import Any

import pytest

from cotenant.load import asker, let_end
from cotenant.load.asker import ask, prepare
from cotenant.testing.truth_server import Script, truth_server
from cotenant.units import NS_PER_MS, NS_PER_S
from tests.load.rig import SSE_HEADERS, KeptRows, completions, desk_for, new_stage, run, settings, tenant

NOTE = "the answer ended without [DONE]"
GRACE = 60 * NS_PER_MS


def event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def token(reason: str | None = None, **chunk: Any) -> bytes:
    return event({"choices": [{"text": "a", "finish_reason": reason}], **chunk})


def usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 9, "completion_tokens": tokens}


ALONE = event({"choices": [], "usage": usage(2)})
DONE = b"data: [DONE]\n\n"


@pytest.fixture(autouse=True)
def short_graces(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a last moment that no test could wait for."""
    monkeypatch.setattr(asker, "_REASON_GRACE_NS", GRACE)
    monkeypatch.setattr(asker, "_USAGE_GRACE_NS", GRACE)
    monkeypatch.setattr(let_end, "_LINGER_NS", 600 * NS_PER_S)


async def asked(script: Script, count: int = 1) -> tuple[KeptRows, list[int]]:
    """The rows of so many requests one after another, and the ports that they came from."""
    ports = []
    async with truth_server(lambda _: script) as server:
        serve = server.serve

        async def noted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ports.append(writer.get_extra_info("peername")[1])
            await serve(reader, writer)

        listener = await asyncio.start_server(noted, "127.0.0.1", 0)
        async with listener:
            url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            load = completions()
            async with desk_for(settings([tenant(url, "llm")], [load])) as (desk, rows):
                for _ in range(count):
                    body = prepare(desk, load, load.output)
                    await ask(desk, new_stage(), load, 0, time.monotonic_ns(), body)
    return rows, ports


def tokens(rows: KeptRows) -> int:
    return sum(row["tokens"] for row in rows.rows["tokens"])


# Name: the pieces, the tokens, the output by the usage.
OPEN: dict[str, tuple[list[tuple[int, bytes]], int, int | None]] = {
    "a reason and nothing more": ([(0, token()), (0, token("length"))], 2, None),
    "usage at once": ([(0, token()), (0, token("length") + ALONE)], 2, 2),
    "usage a little later": ([(0, token()), (0, token("length")), (GRACE // 2, ALONE)], 2, 2),
    "usage in the last chunk": ([(0, token()), (0, token("length", usage=usage(2)))], 2, 2),
    "usage running and alone": (
        [(0, token(usage=usage(1))), (0, token("stop", usage=usage(2))), (GRACE // 2, ALONE)], 2, 2,
    ),
    "comments for ever": (
        [(0, token()), (0, token("stop")), *((i * GRACE // 10, b": ping\n\n") for i in range(1, 60))],
        2, None,
    ),
    "half a [DONE]": ([(0, token()), (0, token("stop")), (0, b"data: [DONE]\n")], 2, None),
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_a_reason_ends_an_answer_whose_connection_stays_open(name: str) -> None:
    pieces, count, output = OPEN[name]
    script = Script(headers=SSE_HEADERS, pieces=pieces, ending="silent")
    rows, _ = run(asked(script))
    row = rows.stream()
    assert (row["end"], row["error_kind"], row["error"]) == ("eos", None, NOTE)
    assert (tokens(rows), row.get("output_tokens")) == (count, output)
    assert row["done"] >= rows.rows["tokens"][-1]["arrival"]


@pytest.mark.parametrize("ending", ["silent", "close", "reset", "finish"])
def test_a_reason_in_every_chunk_is_no_end(ending: Any) -> None:
    """Some gateways do so, and some tell the usage each time."""
    pieces = [(0, token("stop")), (0, token("stop")), (3 * GRACE, token("stop")), (3 * GRACE, DONE)]
    rows, _ = run(asked(Script(headers=SSE_HEADERS, pieces=pieces, ending=ending)))
    assert (rows.stream()["end"], rows.stream()["error"], tokens(rows)) == ("eos", None, 3)


def test_without_a_reason_only_the_request_limit_ends_it() -> None:
    async def work() -> KeptRows:
        pieces = [(0, token()), (0, event({"choices": [], "usage": usage(1)}))]
        script = Script(headers=SSE_HEADERS, pieces=pieces, ending="silent")
        async with truth_server(lambda _: script) as server:
            load = completions()
            told = settings([tenant(server.url, "llm")], [load], request_limit_ns=4 * GRACE)
            async with desk_for(told) as (desk, rows):
                await ask(desk, new_stage(), load, 0, time.monotonic_ns(), prepare(desk, load, 4))
                return rows

    row = run(work()).stream()
    assert (row["end"], row["error_kind"]) == ("truncated", "timeout")
    assert row["done"] - row["due"] >= 4 * GRACE


TAILS = {
    "nothing": b"",
    "tokens": token() + DONE,
    "an error": event({"error": {"message": "too late"}}),
    "nonsense": b"data: {\n\n\xff\xfe",
    "another [DONE]": DONE,
}


@pytest.mark.parametrize("ending", ["silent", "close", "reset", "finish"])
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("apart", [False, True])
def test_nothing_counts_after_done(tail: str, ending: Any, apart: bool) -> None:
    """In the chunk of the `[DONE]` or after it; nor is the end of the connection waited for."""
    last = [(0, DONE), (0, TAILS[tail])] if apart else [(0, DONE + TAILS[tail])]
    pieces = [(0, token()), (0, token("length")), (0, ALONE), *(piece for piece in last if piece[1])]
    rows, _ = run(asked(Script(headers=SSE_HEADERS, pieces=pieces, ending=ending)))
    row = rows.stream()
    assert (row["end"], row["error_kind"], row["error"]) == ("eos", None, None)
    assert (tokens(rows), row["output_tokens"]) == (2, 2)


def test_what_is_no_http_after_the_end_is_nobodys_fault() -> None:
    body = token() + DONE
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body)
    rows, _ = run(asked(Script(raw=True, pieces=[(0, head + body + b"\0garbage HTTP/9")], ending="silent")))
    assert (rows.stream()["end"], tokens(rows)) == ("eos", 1)


@pytest.mark.parametrize("last", [DONE, b""], ids=["[DONE]", "a reason"])
@pytest.mark.parametrize("header", [{}, {"Connection": "keep-alive", "Keep-Alive": "timeout=60"}])
def test_no_connection_serves_a_second_request(last: bytes, header: dict[str, str]) -> None:
    script = Script(headers={**SSE_HEADERS, **header}, pieces=[(0, token("length") + last)], ending="silent")
    rows, ports = run(asked(script, 3))
    assert len(set(ports)) == 3
    assert [rows.stream(number)["end"] for number in range(3)] == ["eos"] * 3


def test_a_connection_is_closed_a_moment_after_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(let_end, "_LINGER_NS", 20 * NS_PER_MS)
    ends: list[bytes] = []

    async def work() -> None:
        over = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + token() + DONE)
            await writer.drain()
            # The end of the request's body, and then the client's close.
            ends.append(await reader.read())
            writer.close()
            over.set()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            load = completions()
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with desk_for(settings([tenant(url, "llm")], [load])) as (desk, rows):
                await ask(desk, new_stage(), load, 0, time.monotonic_ns(), prepare(desk, load, 4))
                assert rows.stream()["end"] == "eos"
                await over.wait()

    run(work())
    assert len(ends) == 1


def test_the_next_request_of_a_stream_is_due_when_the_answer_ended() -> None:
    """Not when the connection did: it would be late through no fault of ours."""

    async def work() -> KeptRows:
        script = Script(headers=SSE_HEADERS, pieces=[(0, token("length") + DONE)], ending="silent")
        async with truth_server(lambda _: script) as server:
            load = dataclasses.replace(completions(), streams=1)
            async with desk_for(settings([tenant(server.url, "llm")], [load])) as (desk, rows):
                stage = new_stage(start_ns=time.monotonic_ns())
                stage.failure = asyncio.get_running_loop().create_future()
                asker.start_askers(desk, stage, load)
                while sum(row["end"] == "eos" for row in rows.rows["streams"]) < 3:
                    assert not stage.failure.done()
                    await asyncio.sleep(0.005)
                await stage.drain("open")
                stage.failure.cancel()
                return rows

    rows = run(work())
    ended = [row for row in rows.rows["streams"] if row["end"] == "eos"]
    assert [row["due"] for row in ended[1:]] == [row["done"] for row in ended[:-1]]
