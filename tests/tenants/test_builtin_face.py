"""The built-in talking head as its clients see it: frames, their times, bursts, and what it refuses."""

import asyncio
import io
from collections.abc import Iterator
from typing import Any

import aiohttp
import numpy as np
import pytest
from PIL import Image

from cotenant.wire.frames import HEADER_BYTES, parse_frame
from tests.tenants.built_in import Running, running

pytestmark = pytest.mark.slow

CONFIG = {"type": "config", "sample_rate": 16000, "fps": 25, "format": "jpeg"}


@pytest.fixture(scope="module")
def head() -> Iterator[Running]:
    with running("face") as server:
        yield server


def noise(samples: int) -> bytes:
    return np.random.default_rng(1).integers(-3000, 3000, samples, dtype=np.int16).tobytes()


async def frames_until(
    socket: aiohttp.ClientWebSocketResponse, count: int | None
) -> list[tuple[int, int, bytes]]:
    """(index, media time, JPEG) of the next `count` frames, or of all until `done`."""
    frames: list[tuple[int, int, bytes]] = []
    while count is None or len(frames) < count:
        message = await socket.receive(timeout=30)
        if message.type is aiohttp.WSMsgType.TEXT:
            done = message.json()
            assert done == {"type": "done", "frames": done["frames"]}
            assert count is None
            frames.append((done["frames"], -1, b""))
            return frames
        assert message.type is aiohttp.WSMsgType.BINARY, message
        header = parse_frame(message.data)
        frames.append((header.index, header.media_time_ns, message.data[HEADER_BYTES:]))
    return frames


async def play(url: str, audio: bytes, piece: int, fps: int = 25) -> list[tuple[int, int, bytes]]:
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{url}/v1/face") as socket:
        await socket.send_json({**CONFIG, "fps": fps})
        for at in range(0, len(audio), piece):
            await socket.send_bytes(audio[at : at + piece])
        await socket.send_json({"type": "end"})
        return await frames_until(socket, None)


@pytest.mark.parametrize(
    ("samples", "piece", "fps"), [(16_000, 641, 25), (17_001, 100_000, 25), (9_700, 2_000, 30), (1, 2, 25)]
)
def test_every_frame_comes_once_in_order_at_its_time(
    head: Running, samples: int, piece: int, fps: int
) -> None:
    *frames, (count, _, _) = asyncio.run(play(head.url, noise(samples), piece, fps))
    assert count == -(-samples * fps // 16_000)
    assert [index for index, _, _ in frames] == list(range(count))
    assert [media_ns for _, media_ns, _ in frames] == [index * 10**9 // fps for index in range(count)]
    pictures = [Image.open(io.BytesIO(jpeg)) for _, _, jpeg in frames]
    assert {(picture.format, picture.size) for picture in pictures} == {("JPEG", (128, 128))}


def test_no_audio_gives_no_frames(head: Running) -> None:
    assert asyncio.run(play(head.url, b"", 1)) == [(0, -1, b"")]


def test_frames_come_while_the_audio_still_does(head: Running) -> None:
    async def client() -> list[int]:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{head.url}/v1/face") as socket:
            await socket.send_json(CONFIG)
            await socket.send_bytes(noise(3_200 + 1_360))
            frames = await frames_until(socket, 5)
            await socket.send_bytes(noise(3_200))
            return [index for index, _, _ in frames + await frames_until(socket, 5)]

    assert asyncio.run(client()) == list(range(10))


def test_two_sessions_take_turns(head: Running) -> None:
    async def client() -> list[int]:
        order: list[int] = []

        async def listen(number: int, socket: aiohttp.ClientWebSocketResponse) -> None:
            while (await socket.receive(timeout=30)).type is aiohttp.WSMsgType.BINARY:
                order.append(number)

        async with aiohttp.ClientSession() as session:
            sockets = [await session.ws_connect(f"{head.url}/v1/face") for _ in range(2)]
            for socket in sockets:
                await socket.send_json(CONFIG)
            for socket in sockets:
                await socket.send_bytes(noise(32_000))
                await socket.send_json({"type": "end"})
            await asyncio.gather(*(listen(number, socket) for number, socket in enumerate(sockets)))
        return order

    order = asyncio.run(client())
    assert sorted(order) == [0] * 50 + [1] * 50
    # Neither is served through before the other begins.
    assert max(order.index(number) for number in (0, 1)) < 40


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ("nonsense", "JSON"),
        ('{"type": "end"}', "first message"),
        ('{"type": "config", "sample_rate": 24000}', "16000"),
        ('{"type": "config", "fps": 0}', "fps"),
        ('{"type": "config", "format": "png"}', "jpeg"),
    ],
)
def test_a_bad_configuration_is_told_what_would_be_right(head: Running, message: str, part: str) -> None:
    async def client() -> Any:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{head.url}/v1/face") as socket:
            await socket.send_str(message)
            return await socket.receive_json(timeout=30)

    error = asyncio.run(client())
    assert error["type"] == "error"
    assert part in error["message"]


@pytest.mark.parametrize(
    ("samples", "ended", "frames"),
    [(480_000, False, 1), (480_000, True, 1), (0, False, 0), (1_000, False, 0), (3_200 + 1_360, False, 5)],
    ids=["at work", "at work on the last", "no audio", "too little audio", "waiting for more"],
)
def test_a_client_that_leaves_frees_its_session(
    head: Running, samples: int, ended: bool, frames: int
) -> None:
    async def health(session: aiohttp.ClientSession) -> int:
        async with session.get(f"{head.url}/health") as response:
            count: int = (await response.json())["active"]
        return count

    async def client() -> None:
        async with aiohttp.ClientSession() as session:
            socket = await session.ws_connect(f"{head.url}/v1/face")
            await socket.send_json(CONFIG)
            await socket.send_bytes(noise(samples))
            if ended:
                await socket.send_json({"type": "end"})
            await frames_until(socket, frames)
            async with asyncio.timeout(20):
                while not await health(session):
                    pass
            await socket.close()
            async with asyncio.timeout(20):
                while await health(session):
                    pass

    asyncio.run(client())
