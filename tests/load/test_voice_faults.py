"""What a speech service does wrong, and what is recorded of it: end, kind and the samples that came."""

import asyncio
import dataclasses
import time
from typing import Any

import pytest

from cotenant.load.voice import Heard, Turn, speak
from cotenant.testing.truth_server import Script, truth_server
from cotenant.units import NS_PER_MS
from tests.load.rig import (
    PCM_HEADERS,
    SSE_HEADERS,
    KeptRows,
    desk_for,
    new_stage,
    run,
    settings,
    tenant,
    voices,
)

PIECE = bytes(range(240)) * 20  # 100 ms at 24 kHz
GOOD = Script(headers=PCM_HEADERS, pieces=[(0, PIECE), (20 * NS_PER_MS, PIECE)])


async def spoken(script: Script, *, stamps: bool = True, **fields: Any) -> tuple[KeptRows, Heard, int]:
    """One utterance against a server that answers so; rows, outcome and the time it was due."""
    async with truth_server(lambda _: script) as server:
        told = settings([tenant(server.url, **fields)], [voices()])
        async with desk_for(told, stamps=stamps) as (desk, rows):
            due_ns = time.monotonic_ns()
            turn = Turn(listener=0, due_ns=due_ns, delayed_ns=5, line=lambda: (3, "Hello."), tap=None)
            load = voices()
            heard = await speak(desk, new_stage(), load, turn)
            return rows, heard, due_ns


@pytest.mark.parametrize("uv", [True, False], ids=["uvloop", "asyncio"])
def test_a_good_utterance(uv: bool) -> None:
    rows, heard, due_ns = run(spoken(GOOD), uv=uv)
    first, last = rows.rows["streams"]
    assert (first["end"], first["stream"]) == (None, last["stream"])
    assert first["sent"] == last["sent"] >= due_ns
    expected = {
        "stream": 1_000_000, "tenant": "tts", "load": "voices", "kind": "voices", "stage": "one", "round": 1,
        "listener": 0, "utterance": 3, "due": due_ns, "delayed": 5, "end": "eos", "error_kind": None,
        "status": 200, "bytes": 2 * len(PIECE), "rate_hz": 24_000, "sample_format": "s16", "stamp": "kernel",
    }  # fmt: skip
    assert {key: last[key] for key in expected} == expected
    assert due_ns <= last["sent"] <= last["first_byte"] <= last["done"]
    assert last["connected"] <= last["sent"]
    chunks = rows.rows["chunks"]
    assert [(row["seq"], row["media"], row["bytes"]) for row in chunks] == [
        (0, 100 * NS_PER_MS, len(PIECE)),
        (1, 100 * NS_PER_MS, len(PIECE)),
    ]
    assert chunks[0]["arrival"] < chunks[1]["arrival"] <= last["done"]
    assert [row["audio_offset"] for row in chunks] == [0, len(PIECE)]
    assert bytes(rows.audio) == PIECE * 2
    assert last["leading_silence"] == 0
    assert not heard.failed
    # 200 ms of audio with a lookahead of 400: it plays from the end of the stream on.
    assert heard.end_ns == last["done"] + 200 * NS_PER_MS


def test_without_kernel_stamps_the_row_says_so() -> None:
    rows, _, _ = run(spoken(GOOD, stamps=False))
    assert rows.stream()["stamp"] == "user"
    assert rows.stream()["end"] == "eos"


def test_the_request_that_was_sent() -> None:
    async def requests() -> dict[str, str]:
        async with truth_server(lambda _: GOOD) as server:
            one = tenant(server.url, headers={"Authorization": "Bearer k"}, voice="v", model="m")
            async with desk_for(settings([one], [voices()])) as (desk, _):
                due_ns = time.monotonic_ns()
                turn = Turn(listener=0, due_ns=due_ns, delayed_ns=0, line=lambda: (0, "Hi."), tap=None)
                await speak(desk, new_stage(), voices(), turn)
            (served,) = server.served
            assert served.path == "/v1/audio/speech"
            assert b'"input": "Hi."' in served.body
            return served.headers

    headers = run(requests())
    assert headers["x-request-id"] == "run-1-1000000"
    assert headers["authorization"] == "Bearer k"


def refused(status: int) -> Script:
    return Script(status=status, framing="length", pieces=[(0, b'{"error":"told why"}')])


FAULTS: dict[str, tuple[Script, str, str, int]] = {
    "401": (refused(401), "error", "unauthorized", 0),
    "403": (refused(403), "error", "forbidden", 0),
    "404": (refused(404), "error", "not_found", 0),
    "429": (refused(429), "error", "rate_limited", 0),
    "500": (refused(500), "error", "server_error", 0),
    "503": (refused(503), "error", "overloaded", 0),
    "302": (refused(302), "error", "protocol", 0),
    "closed mid-stream": (dataclasses.replace(GOOD, ending="close"), "truncated", "truncated", 200),
    "reset mid-stream": (dataclasses.replace(GOOD, ending="reset"), "truncated", "truncated", 200),
    "cut within a message": (
        Script(
            raw=True, ending="close",
            pieces=[(0, b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nTransfer-Encoding: chunked\r\n\r\n"),
                    (0, b"%x\r\n%b\r\n%x\r\n%b" % (4800, PIECE, 4800, PIECE[:2400]))],
        ), "truncated", "truncated", 150,
    ),
    "cut before any audio": (Script(headers=PCM_HEADERS, ending="close"), "truncated", "truncated", 0),
    "shorter than promised": (
        Script(raw=True, ending="close", pieces=[
            (0, b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nContent-Length: 9999\r\n\r\n"), (0, PIECE)]),
        "truncated", "truncated", 100,
    ),
    "silent after some audio": (dataclasses.replace(GOOD, ending="silent"), "truncated", "timeout", 200),
    "silent after the head": (Script(headers=PCM_HEADERS, ending="silent"), "error", "timeout", 0),
    "silent from the start": (Script(head=False, ending="silent"), "error", "timeout", 0),
    "closed without an answer": (Script(head=False, ending="close"), "error", "protocol", 0),
    "reset without an answer": (Script(head=False, ending="reset"), "error", "protocol", 0),
    "half a head": (Script(raw=True, pieces=[(0, b"HTTP/1.1 20")], ending="close"), "error", "protocol", 0),
    "not HTTP": (Script(raw=True, pieces=[(0, b"220 x\r\n\r\n")], ending="silent"), "error", "protocol", 0),
    "no samples": (Script(headers=PCM_HEADERS), "error", "empty", 0),
    "half a sample": (Script(headers=PCM_HEADERS, pieces=[(0, b"x")]), "error", "empty", 0),
    "not audio": (Script(headers={"Content-Type": "text/html"}, pieces=[(0, b"<")]), "error", "protocol", 0),
    "error in the stream": (
        Script(headers=SSE_HEADERS, pieces=[
            (0, b'data: {"type":"speech.audio.delta","audio":"AAAAAA=="}\n\n'),
            (0, b'data: {"type":"speech.audio.error","error":{"message":"CUDA"}}\n\n')]),
        "error", "in_stream", 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("script", "end", "kind", "media_ms"), FAULTS.values(), ids=FAULTS.keys())
def test_faults(script: Script, end: str, kind: str, media_ms: int) -> None:
    rows, heard, due_ns = run(spoken(script))
    row = rows.stream()
    assert (row["end"], row["error_kind"]) == (end, kind)
    assert row["error"]
    assert row["done"] >= due_ns
    media_ns = sum(chunk["media"] for chunk in rows.rows["chunks"])
    assert media_ns // NS_PER_MS == media_ms
    assert heard.failed
    assert heard.end_ns >= heard.done_ns == row["done"]


def test_what_the_server_said_about_its_refusal_is_kept() -> None:
    rows, _, _ = run(spoken(refused(503)))
    assert rows.stream()["status"] == 503
    assert "told why" in rows.stream()["error"]


def test_given_up_at_the_stall_limit_and_not_before() -> None:
    rows, _, _ = run(spoken(dataclasses.replace(GOOD, ending="silent")))
    row = rows.stream()
    last_ns = rows.rows["chunks"][-1]["arrival"]
    assert row["done"] - last_ns >= 300 * NS_PER_MS


def test_a_server_that_does_not_close_after_its_last_event_is_not_waited_for() -> None:
    done = b'data: {"type":"speech.audio.done"}\n\n'
    delta = b'data: {"type":"speech.audio.delta","audio":"AAAAAA=="}\n\n'
    script = Script(headers=SSE_HEADERS, pieces=[(0, delta), (0, done)], ending="silent")
    rows, heard, _ = run(spoken(script))
    assert rows.stream()["end"] == "eos"
    assert not heard.failed


@pytest.mark.parametrize(
    ("url", "kind"),
    [("http://127.0.0.1:1", "refused"), ("http://no-such-host.invalid", "dns")],
)
def test_no_connection(url: str, kind: str) -> None:
    async def spoken_to() -> KeptRows:
        async with desk_for(settings([tenant(url)], [voices()], stall_limit_ns=10**10)) as (desk, rows):
            turn = Turn(listener=0, due_ns=0, delayed_ns=0, line=lambda: (0, "Hi."), tap=None)
            heard = await speak(desk, new_stage(), voices(), turn)
            assert heard.failed
            return rows

    row = run(spoken_to()).stream()
    assert (row["end"], row["error_kind"]) == ("error", kind)
    assert (row["sent"], row["connected"], row["status"]) == (None, None, None)


def test_what_is_open_when_it_is_stopped_is_recorded_as_open() -> None:
    async def stopped() -> KeptRows:
        script = dataclasses.replace(GOOD, ending="silent")
        async with truth_server(lambda _: script) as server:
            told = settings([tenant(server.url)], [voices()], stall_limit_ns=10**11)
            async with desk_for(told) as (desk, rows):
                stage = new_stage()
                turn = Turn(
                    listener=0, due_ns=time.monotonic_ns(), delayed_ns=0, line=lambda: (0, "Hi."), tap=None
                )

                async def work() -> None:
                    await speak(desk, stage, voices(), turn)

                stage.spawn(work())
                while len(rows.rows["chunks"]) < 2:  # noqa: ASYNC110 - rows are kept, not announced
                    await asyncio.sleep(0.005)
                await stage.drain("open")
                return rows

    rows = run(stopped())
    assert rows.stream()["end"] == "open"
    assert rows.stream()["done"] >= rows.rows["chunks"][-1]["arrival"]


def test_over_the_audio_limit_only_what_stalled_is_kept() -> None:
    async def two(script: Script) -> tuple[KeptRows, KeptRows]:
        late = KeptRows()
        async with truth_server(lambda _: script) as server:
            told = settings([tenant(server.url)], [voices()])
            async with desk_for(told, rows=KeptRows(len(PIECE)), late=late) as (desk, rows):
                for _ in range(2):
                    turn = Turn(listener=0, due_ns=0, delayed_ns=0, line=lambda: (0, "Hi."), tap=None)
                    await speak(desk, new_stage(), voices(), turn)
                return rows, late

    rows, late = run(two(GOOD))
    assert [row["audio_offset"] for row in rows.rows["chunks"]] == [0, None, None, None]
    assert late.rows["chunks"] == []
    rows, late = run(two(dataclasses.replace(GOOD, ending="close")))
    assert [row["audio_offset"] for row in late.rows["chunks"]] == [4800 * i for i in range(4)]
    assert [row["seq"] for row in late.rows["chunks"]] == [0, 1, 0, 1]
    assert bytes(late.audio) == PIECE * 4
