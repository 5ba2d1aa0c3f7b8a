"""Heads that are not ours: base64 in JSON, and real JPEGs as MJPEG, in a load process too."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from cotenant.load.face import show
from cotenant.load.face_audio import FaceFeed
from cotenant.run_dir import manifest, reader
from cotenant.testing.other_heads import OtherHeads, drawn, other_heads
from cotenant.testing.truth_server import Script, truth_server
from cotenant.units import NS_PER_MS
from tests.load.conductor import load_process, spec
from tests.load.rig import PCM_HEADERS, KeptRows, desk_for, faces, new_stage, run, settings, tenant

JSON_FRAMES: dict[str, Any] = {
    "image": "data.frame",
    "index": "data.i",
    "time_ms": "data.t",
    "done": {"type": "idle"},
    "start": {"type": "hello"},
    "end": {"type": "flush"},
    "audio": {"send": "base64", "path": "voice.pcm", "fields": {"type": "audio"}},
}
WATCHED: dict[str, Any] = {"audio": {"send": "none"}}
AUDIO_S = 1.02  # 25.5 frames


async def clip(url: str, protocol: str, frames: dict[str, Any], **told: Any) -> KeptRows:
    """One clip with about a second of audio in two pieces."""
    one = faces()
    head = tenant(url, "head", protocol=protocol, frames=frames, headers={"Authorization": "Bearer sk-0123"})
    async with desk_for(settings([head], [one], stall_limit_ns=2 * 10**9, **told)) as (desk, rows):
        stage, feed, due_ns = new_stage(), FaceFeed(one, lambda: 4), time.monotonic_ns()
        ticket = stage.plan(due_ns, followed=True)
        for _ in range(2):
            feed.feed(bytes(int(AUDIO_S * 24_000) // 2 * 2), 24_000, "s16")
        feed.end()
        await show(desk, stage, feed, 0, due_ns, ticket)
        assert not stage.tickets
        return rows


def check(rows: KeptRows, count: int = 26) -> None:
    row, frames = rows.stream(), rows.rows["frames"]
    assert (row["end"], row["error"], row["utterance"]) == ("eos", None, 4)
    assert [frame["media_time"] for frame in frames] == [n * 40 * NS_PER_MS for n in range(count)]
    assert [frame["bytes"] > 500 for frame in frames] == [True] * count
    assert all(frame["audio_handed"] is not None for frame in frames)
    assert row["due"] <= row["sent"] <= row["first_byte"] <= frames[0]["arrival"] <= row["done"]


@pytest.mark.parametrize("says_done", [True, False])
def test_json_over_a_websocket(says_done: bool) -> None:
    async def work() -> tuple[KeptRows, OtherHeads]:
        async with other_heads(OtherHeads(says_done=says_done)) as heads:
            told = {**JSON_FRAMES, "done": JSON_FRAMES["done"] if says_done else None}
            return await clip(f"{heads.url}/talk", "websocket", told), heads

    rows, heads = run(work())
    check(rows)
    assert heads.messages[0] == {"type": "hello"}
    assert heads.messages[-1] == {"type": "flush"}
    assert abs(heads.audio_bytes[0] - AUDIO_S * 32_000) < 8
    assert heads.headers[0]["Authorization"] == "Bearer sk-0123"


def test_binary_audio_into_a_head_that_speaks_json() -> None:
    async def work() -> KeptRows:
        async with other_heads(OtherHeads()) as heads:
            told = {"image": "data.frame", "end": {"type": "flush"}, "audio": {"send": "binary"}}
            return await clip(f"{heads.url}/talk", "websocket", told)

    check(run(work()))


@pytest.mark.parametrize("length", [True, False])
def test_mjpeg_of_audio_in_the_body(length: bool) -> None:
    async def work() -> tuple[KeptRows, OtherHeads]:
        async with other_heads(OtherHeads(length=length)) as heads:
            return await clip(f"{heads.url}/render", "mjpeg", {}), heads

    rows, heads = run(work())
    check(rows)
    assert rows.stream()["status"] == 200
    assert [frame["bytes"] for frame in rows.rows["frames"]] == [len(drawn(n)) for n in range(26)]
    assert abs(heads.audio_bytes[0] - AUDIO_S * 32_000) < 8
    assert heads.headers[0]["Content-Type"] == "audio/pcm;rate=16000"


def test_mjpeg_that_is_watched_has_shown_a_clip_when_it_has_shown_its_length() -> None:
    async def work() -> KeptRows:
        async with other_heads(OtherHeads(fps=200)) as heads:
            return await clip(f"{heads.url}/watch", "mjpeg", WATCHED)

    check(run(work()))


@contextlib.asynccontextmanager
async def answering(status: int, body: bytes, **headers: str) -> AsyncIterator[str]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body, headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


MULTIPART = "multipart/x-mixed-replace; boundary=f"


@pytest.mark.parametrize(
    ("status", "body", "content_type", "end", "kind", "words"),
    [
        (401, b"no key", "text/plain", "error", "unauthorized", "no key"),
        (200, b"\xff\xd8", "image/jpeg", "error", "protocol", "not multipart/x-mixed-replace"),
        (200, b"--f\r\n\r\n<html>", MULTIPART, "error", "protocol", "no JPEG"),
        (200, b"--f--\r\n", MULTIPART, "error", "empty", "without a frame"),
    ],
)
@pytest.mark.parametrize("frames", [{}, WATCHED], ids=["POST", "GET"])
def test_faults(
    status: int, body: bytes, content_type: str, end: str, kind: str, words: str, frames: dict[str, Any]
) -> None:
    async def work() -> KeptRows:
        async with answering(status, body, **{"Content-Type": content_type}) as url:
            return await clip(url, "mjpeg", frames)

    row = run(work()).stream()
    assert (row["end"], row["error_kind"]) == (end, kind)
    assert words in row["error"]
    assert row["status"] == status


@pytest.mark.parametrize(("protocol", "frames"), [("mjpeg", {}), ("websocket", JSON_FRAMES)])
def test_nobody_there(protocol: str, frames: dict[str, Any]) -> None:
    row = run(clip("http://127.0.0.1:1", protocol, frames)).stream()
    assert (row["end"], row["error_kind"]) == ("error", "refused")


def test_silence_is_given_up() -> None:
    async def work() -> KeptRows:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            return await clip(url, "mjpeg", WATCHED)

    row = run(work()).stream()
    assert (row["end"], row["error_kind"]) == ("error", "timeout")


def test_a_redirect_gets_no_key() -> None:
    async def work() -> tuple[list[KeptRows], OtherHeads]:
        async with (
            other_heads(OtherHeads()) as heads,
            answering(307, b"", Location=f"{heads.url}/watch") as url,
        ):
            rows = [await clip(url, "mjpeg", WATCHED), await clip(url, "websocket", JSON_FRAMES)]
            return rows, heads

    found, heads = run(work())
    assert not heads.headers
    assert [rows.stream()["error_kind"] for rows in found] == ["protocol", "protocol"]
    assert all("redirect" in rows.stream()["error"] for rows in found)


PIECE = bytes(4800)
VOICE = Script(headers=PCM_HEADERS, pieces=[(i * 20 * NS_PER_MS, PIECE) for i in range(5)])


def test_a_load_process_with_a_real_mjpeg_stream(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()

    async def work() -> tuple[int, int]:
        async with (
            other_heads(OtherHeads()) as heads,
            truth_server(lambda _: VOICE) as tts,
            load_process(tmp_path) as (conductor, child),
        ):
            told = spec(run_dir, tts.url, f"{heads.url}/render", "http://127.0.0.1:1")
            told["tenants"]["head"] |= {"protocol": "mjpeg", "frames": {}}
            conductor.tell(**told)
            conductor.tell(do="warm", load="faces")
            warmed = await conductor.wait("warmed")
            assert (warmed["ok"], warmed["error"]) == (1, None)
            at_ns = time.monotonic_ns() + 50 * NS_PER_MS
            conductor.tell(do="start", stage="all", round=1, loads=["voices", "faces"], at_ns=at_ns)
            for _ in range(2):
                await conductor.wait("settled")
            window = (time.monotonic_ns() + 50 * NS_PER_MS, time.monotonic_ns() + 1000 * NS_PER_MS)
            conductor.tell(do="measure", start_ns=window[0], end_ns=window[1])
            await conductor.wait("followed")
            conductor.tell(do="stop")
            assert await child.wait() == 0
            return window

    window = run(work(), uv=False)
    manifest.write(run_dir, {"schema": 1, "tool": "cotenant", "run_id": "run-1"})
    recording = reader.read(run_dir)
    streams = recording.tables["streams"].to_pylist()
    shown = [row for row in streams if row["kind"] == "faces" and window[0] <= row["due"] < window[1]]
    assert shown
    assert {(row["end"], row["status"]) for row in shown} == {("eos", 200)}
    frames = recording.tables["frames"].to_pylist()
    for row in shown:
        mine = [frame["bytes"] for frame in frames if frame["stream"] == row["stream"]]
        # Half a second of audio at 25 frames a second.
        assert mine == [len(drawn(n)) for n in range(13)]
