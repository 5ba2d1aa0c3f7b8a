"""A generator of frames behind the built-in server: audio in as it comes, frames out, faults told."""

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from PIL import Image

from cotenant.wire.frames import HEADER_BYTES, config_message, parse_frame
from tests.tenants.built_in import Running, serving

SAMPLES = np.repeat(np.arange(10, 60, 10, dtype="<i2"), 640)  # 200 ms: five frames of a grey of their own


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving("face", "generators:show", tmp_path_factory.mktemp("head") / "log") as server:
        yield server


async def show(url: str, *parts: bytes) -> tuple[list[bytes], dict[str, Any]]:
    """The frames and the last message."""
    frames: list[bytes] = []
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{url}/v1/face") as socket:
        await socket.send_str(config_message(25))
        for part in parts:
            await socket.send_bytes(part)
        await socket.send_str('{"type": "end"}')
        async for message in socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                return frames, json.loads(message.data)
            frames.append(message.data)
    raise AssertionError("closed before it was done")


def test_each_frame_has_its_number_its_time_and_its_picture(head: Running) -> None:
    data = SAMPLES.tobytes()
    frames, last = asyncio.run(show(head.url, data[:1001], data[1001:]))
    assert last == {"type": "done", "frames": 5}
    for number, frame in enumerate(frames):
        header = parse_frame(frame)
        assert (header.index, header.media_time_ns) == (number, number * 40_000_000)
        picture = np.asarray(Image.open(io.BytesIO(frame[HEADER_BYTES:])), np.int16)
        assert picture.shape == (32, 48, 3)
        assert np.abs(picture - 10 * (number + 1)).max() < 5


def test_an_error_is_told_and_the_next_client_is_served(head: Running) -> None:
    bad = SAMPLES.copy()
    bad[640 * 2] = 666
    frames, last = asyncio.run(show(head.url, bad.tobytes()))
    assert len(frames) == 2
    assert last == {"type": "error", "message": "RuntimeError: this face breaks"}
    assert asyncio.run(show(head.url, SAMPLES.tobytes()))[1] == {"type": "done", "frames": 5}


def test_a_client_that_leaves_before_it_begins_is_no_fault(tmp_path: Path) -> None:
    async def leave(url: str) -> None:
        async with aiohttp.ClientSession() as session:
            async with session.ws_connect(f"{url}/v1/face"):
                pass
            socket = await session.ws_connect(f"{url}/v1/face")
            await socket.send_str(config_message(25))
            assert socket._response.connection is not None
            socket._response.connection.close()
            assert (await show(url, SAMPLES.tobytes()))[1]["frames"] == 5

    with serving("face", "generators:show", tmp_path / "log") as server:
        asyncio.run(leave(server.url))
        assert server.stop() == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_one_worker_shows_one_face_after_another(head: Running) -> None:
    async def three() -> list[tuple[list[bytes], dict[str, Any]]]:
        return list(await asyncio.gather(*(show(head.url, SAMPLES.tobytes()) for _ in range(3))))

    assert [last["frames"] for _, last in asyncio.run(three())] == [5, 5, 5]


def test_a_client_that_leaves_ends_a_generator_that_waits_for_audio(tmp_path: Path) -> None:
    async def leave(url: str) -> None:
        async with aiohttp.ClientSession() as session:
            async with session.ws_connect(f"{url}/v1/face") as socket:
                await socket.send_str(config_message(25))
                await socket.send_bytes(SAMPLES.tobytes())
                async with asyncio.timeout(20):
                    # A client that leaves before its turn is dropped without a word.
                    while "some audio came" not in (tmp_path / "log").read_text():
                        async with session.get(f"{url}/health") as response:
                            assert response.status == 200
            async with asyncio.timeout(20):
                active = 1
                while active or "the client left" not in (tmp_path / "log").read_text():
                    async with session.get(f"{url}/health") as response:
                        active = (await response.json())["active"]

    with serving("face", "generators:wait_for_audio", tmp_path / "log") as server:
        asyncio.run(leave(server.url))
        assert "Traceback" not in (tmp_path / "log").read_text()
        assert asyncio.run(show(server.url, SAMPLES.tobytes())) == ([], {"type": "done", "frames": 0})
        assert server.stop() == 0


def test_an_async_generator_tells_the_time_of_its_frames(tmp_path: Path) -> None:
    with serving("face", "generators:show_async", tmp_path / "log") as server:
        frames, last = asyncio.run(show(server.url, SAMPLES[:1600].tobytes(), SAMPLES[1600:].tobytes()))
    assert last == {"type": "done", "frames": 2}
    assert [parse_frame(frame).media_time_ns for frame in frames] == [0, 100_000_000]
