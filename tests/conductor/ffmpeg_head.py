"""ffmpeg as a stream of pictures: its own HTTP server, which serves one client, started for each that comes.

Its `-listen 1` ends with its client, and its `-listen 2` lets clients in and answers none. What stands in
between here hands bytes on as they are, in both directions.
"""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from tests.conductor.harness import free_port

FFMPEG: Final = shutil.which("ffmpeg")
MISSING: Final = "no ffmpeg: apt-get install ffmpeg"
FPS: Final = 25
CONTENT_TYPE: Final = "multipart/x-mixed-replace;boundary=ffmpeg"
_LIMIT_S: Final = 20.0


@dataclass(slots=True, kw_only=True)
class FfmpegHead:
    """Where it is, and how many clients came."""

    url: str = ""
    clients: int = 0

    def tenant(self) -> dict[str, Any]:
        """As a scenario names it."""
        watched = {"audio": {"send": "none"}}
        return {
            "kind": "face", "engine": "attach", "url": self.url, "protocol": "mjpeg", "frames": watched,
        }  # fmt: skip


@contextlib.asynccontextmanager
async def ffmpeg_head() -> AsyncIterator[FfmpegHead]:
    """Serves pictures at `FPS` on a free port until the block ends."""
    head = FfmpegHead()
    open_ones: set[asyncio.Task[None]] = set()

    def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head.clients += 1
        task = asyncio.ensure_future(_serve(reader, writer))
        open_ones.add(task)
        task.add_done_callback(open_ones.discard)

    server = await asyncio.start_server(came, "127.0.0.1", 0)
    head.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        yield head
    finally:
        server.close()
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)


async def _serve(client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
    assert FFMPEG is not None
    port = free_port()
    ffmpeg = await asyncio.create_subprocess_exec(
        FFMPEG, "-nostdin", "-loglevel", "fatal", "-threads", "1", "-re", "-f", "lavfi",
        "-i", f"testsrc=size=320x240:rate={FPS}", "-content_type", CONTENT_TYPE, "-f", "mpjpeg",
        "-listen", "1", f"http://127.0.0.1:{port}/",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    to_it: asyncio.StreamWriter | None = None
    handing: list[asyncio.Task[None]] = []
    try:
        from_it, to_it = await _connected(port)
        handing = [asyncio.create_task(_hand(client, to_it)), asyncio.create_task(_hand(from_it, back))]
        await asyncio.wait(handing, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in handing:
            task.cancel()
        await asyncio.gather(*handing, return_exceptions=True)
        for writer in (to_it, back):
            if writer is not None:
                writer.close()
        with contextlib.suppress(ProcessLookupError):
            ffmpeg.kill()
        await ffmpeg.wait()


async def _connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(_LIMIT_S):
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                return await asyncio.open_connection("127.0.0.1", port)
            await asyncio.sleep(0.005)


async def _hand(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
