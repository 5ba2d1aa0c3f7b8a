"""Chromium's screencast as a head on a WebSocket: base64 pictures in the JSON of a server that is not ours.

It sends a picture only for one that was acknowledged, so the messages that bring the audio are those that it
waits for; a field more in them does not trouble it.
"""

import asyncio
import contextlib
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp
import psutil
import pytest

from cotenant.load.face import show
from cotenant.load.face_audio import FaceFeed
from cotenant.units import NS_PER_MS
from tests.load.rig import KeptRows, desk_for, faces, new_stage, run, settings, tenant

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM: Final = next(filter(None, map(shutil.which, NAMES)), None)
# A head that never rests: each picture is another colour.
PAGE: Final = (
    "data:text/html,<body><script>let n=0;function draw(){document.body.style.background="
    "'hsl('+(n++*7%25360)+',60%25,50%25)';requestAnimationFrame(draw)}draw()</script>"
)
FLAGS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
    "--window-size=320,400", "--remote-debugging-port=0",
)  # fmt: skip
ACKNOWLEDGE: Final = {"id": 2, "method": "Page.screencastFrameAck", "params": {"sessionId": 1}}
FRAMES: Final[dict[str, Any]] = {
    "image": "params.data",
    "start": {"id": 1, "method": "Page.startScreencast", "params": {"format": "jpeg", "quality": 50}},
    "end": {"id": 3, "method": "Page.stopScreencast"},
    "done": {"id": 3},
    "error": "error.message",
    "audio": {"send": "base64", "path": "params.audio", "fields": ACKNOWLEDGE},
}
AUDIO_S = 1.0
# More than it sends unasked: some were sent for audio that it took.
UNASKED = 3

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[str]:
    """The address of the WebSocket of its only page, which is drawn already."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM, *FLAGS, f"--user-data-dir={profile}", PAGE,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        try:
            while (
                found := re.search(rb"listening on ws://([^/]+)/", await process.stderr.readline())
            ) is None:
                assert process.returncode is None
            url = await _page_of(f"http://{found[1].decode()}/json/list")
            await _drawn(url)
            yield url
        finally:
            family = psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            await process.communicate()
            await asyncio.to_thread(psutil.wait_procs, family, 10)


async def _page_of(listed: str) -> str:
    async with aiohttp.ClientSession() as web:
        while True:
            async with web.get(listed) as answer:
                pages = [one for one in await answer.json() if one["type"] == "page"]
            if pages:
                return str(pages[0]["webSocketDebuggerUrl"])
            await asyncio.sleep(0.02)


async def _drawn(url: str) -> None:
    async with aiohttp.ClientSession() as web, web.ws_connect(url, max_msg_size=0) as socket:
        await socket.send_json(FRAMES["start"])
        while "data" not in (await socket.receive_json()).get("params", {}):
            pass


async def clip(url: str, frames: dict[str, Any]) -> KeptRows:
    """A second of audio, 40 ms of it each 40 ms."""
    one = faces(realtime=True)
    head = tenant(url, "head", protocol="websocket", frames=frames)
    async with desk_for(settings([head], [one], stall_limit_ns=10**10)) as (desk, rows):
        stage, feed, due_ns = new_stage(), FaceFeed(one, lambda: 4), time.monotonic_ns()
        ticket = stage.plan(due_ns, followed=True)
        feed.feed(bytes(int(AUDIO_S * 24_000) * 2), 24_000, "s16")
        feed.end()
        await show(desk, stage, feed, 0, due_ns, ticket)
        return rows


def test_a_clip_and_a_refusal() -> None:
    async def work() -> tuple[KeptRows, KeptRows]:
        async with chromium() as url:
            unknown = {**FRAMES, "start": {"id": 1, "method": "Page.nothingOfTheKind"}}
            return await clip(url, FRAMES), await clip(url, unknown)

    shown, refused = run(work())
    row, frames = shown.stream(), shown.rows["frames"]
    assert (row["end"], row["error"], row["status"]) == ("eos", None, 101)
    assert len(frames) > UNASKED
    assert [frame["media_time"] for frame in frames] == [n * 40 * NS_PER_MS for n in range(len(frames))]
    assert all(frame["bytes"] > 500 for frame in frames)
    assert row["bytes"] == sum(frame["bytes"] for frame in frames)
    assert row["due"] <= row["sent"] <= row["first_byte"] <= frames[0]["arrival"] <= row["done"]
    row = refused.stream()
    assert (row["end"], row["error_kind"]) == ("error", "in_stream")
    assert "'Page.nothingOfTheKind' wasn't found" in row["error"]
