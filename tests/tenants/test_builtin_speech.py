"""The built-in voice as its clients see it: what it sends, in which pieces, and what it refuses."""

import asyncio
import io
import json
from collections.abc import Iterator
from typing import Any

import aiohttp
import numpy as np
import pytest
import soundfile

from cotenant.resources import data_dir
from tests.tenants.built_in import Running, running

pytestmark = pytest.mark.slow

FRAME = 1920
PACKETS = {"first": 1, "steady": 4, "ramp": [2]}


@pytest.fixture(scope="module")
def voice() -> Iterator[Running]:
    with running("speech", "--packets", json.dumps(PACKETS)) as server:
        yield server


def line(name: str, number: int) -> tuple[str, bytes]:
    """A sentence and the samples of its recording."""
    text = (data_dir("fixtures") / "texts" / f"{name}.txt").read_text().splitlines()[number - 1]
    samples, _ = soundfile.read(data_dir("fixtures") / "speech" / f"{name}-{number:02}.flac", dtype="int16")
    return text, samples.tobytes()


async def speak(
    session: aiohttp.ClientSession, url: str, **body: Any
) -> tuple[aiohttp.ClientResponse, list[bytes]]:
    """The answer and its transfer chunks."""
    asked = {"model": "tiny", "voice": "x", "response_format": "pcm", "stream": True, **body}
    chunks, part = [], b""
    async with session.post(f"{url}/v1/audio/speech", json=asked) as response:
        async for data, ends in response.content.iter_chunks():
            part += data
            if ends and part:
                chunks.append(part)
                part = b""
    return response, [*chunks, *([part] if part else [])]


async def active(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(f"{url}/health") as response:
        health = await response.json()
    assert health["status"] == "ok"
    count: int = health["active"]
    return count


async def until_idle(session: aiohttp.ClientSession, url: str) -> None:
    async with asyncio.timeout(20):
        while await active(session, url):
            pass


def test_a_known_sentence_gives_its_recording_in_the_packets_asked_for(voice: Running) -> None:
    async def client() -> tuple[aiohttp.ClientResponse, list[bytes]]:
        async with aiohttp.ClientSession() as session:
            return await speak(session, voice.url, input=line("short", 3)[0])

    response, chunks = asyncio.run(client())
    audio = line("short", 3)[1]
    assert response.status == 200
    assert response.headers["Content-Type"] == "audio/pcm;rate=24000"
    assert response.headers["Transfer-Encoding"] == "chunked"
    assert b"".join(chunks) == audio
    frames = -(-len(audio) // (2 * FRAME))
    sizes = [1, 2, *[4] * frames][: len(chunks)]
    assert [len(chunk) for chunk in chunks[:-1]] == [2 * FRAME * size for size in sizes[:-1]]
    assert sum(sizes[:-1]) < frames <= sum(sizes)


def test_two_at_once_are_batched_and_each_hears_its_own_sentence(voice: Running) -> None:
    async def client() -> list[tuple[aiohttp.ClientResponse, list[bytes]]]:
        async with aiohttp.ClientSession() as session:
            asked = [speak(session, voice.url, input=line("short", number)[0]) for number in (1, 2, 5)]
            return list(await asyncio.gather(*asked))

    for number, (_, chunks) in zip((1, 2, 5), asyncio.run(client()), strict=True):
        assert b"".join(chunks) == line("short", number)[1]


def test_wav_begins_with_a_header_of_its_own(voice: Running) -> None:
    async def client() -> tuple[aiohttp.ClientResponse, list[bytes]]:
        async with aiohttp.ClientSession() as session:
            return await speak(session, voice.url, input=line("short", 4)[0], response_format="wav")

    response, chunks = asyncio.run(client())
    assert response.headers["Content-Type"] == "audio/wav"
    assert len(chunks[0]) == 44
    assert chunks[0][:4] == b"RIFF"
    assert chunks[0][40:] == b"\xff\xff\xff\xff"
    assert b"".join(chunks[1:]) == line("short", 4)[1]


def test_a_whole_answer_is_a_wav_that_any_reader_opens(voice: Running) -> None:
    async def client() -> bytes:
        asked = {"input": line("short", 6)[0], "model": "tiny", "voice": "x"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{voice.url}/v1/audio/speech", json=asked) as response,
        ):
            return await response.read()

    samples, rate_hz = soundfile.read(io.BytesIO(asyncio.run(client())), dtype="int16")
    assert rate_hz == 24_000
    assert samples.tobytes() == line("short", 6)[1]


def test_other_text_gives_speech_of_a_fitting_length(voice: Running) -> None:
    async def client() -> list[bytes]:
        async with aiohttp.ClientSession() as session:
            return (await speak(session, voice.url, input="Nobody has recorded this."))[1]

    samples = np.frombuffer(b"".join(asyncio.run(client())), dtype=np.int16)
    assert 1.0 < len(samples) / 24_000 < 2.5
    assert np.abs(samples.astype(int)).max() > 3000


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"input": ""}, "input must be"),
        ({"input": 3}, "input must be"),
        ({"input": "x" * 5000}, "at most 4096"),
        ({"input": "x", "response_format": "mp3"}, "pcm or wav"),
        ({"input": "x", "stream": "yes"}, "true or false"),
        ({"input": "x", "stream_format": "sse"}, "must be audio"),
        ([], "JSON object"),
    ],
)
def test_a_bad_request_is_told_what_would_be_right(voice: Running, body: Any, part: str) -> None:
    async def client() -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{voice.url}/v1/audio/speech", json=body) as response,
        ):
            return response.status, (await response.json())["error"]["message"]

    status, message = asyncio.run(client())
    assert status == 400
    assert part in message


def test_a_client_that_leaves_frees_its_slot(voice: Running) -> None:
    async def client() -> int:
        async with aiohttp.ClientSession() as session:
            await until_idle(session, voice.url)
            asked = {"input": "a long text " * 300, "response_format": "pcm", "stream": True}
            response = await session.post(f"{voice.url}/v1/audio/speech", json=asked)
            await response.content.readany()
            was = await active(session, voice.url)
            response.close()
            await until_idle(session, voice.url)
            return was

    assert asyncio.run(client()) == 1


def test_it_ends_with_0_when_asked_to_even_while_it_speaks() -> None:
    async def client(url: str) -> None:
        async with aiohttp.ClientSession() as session:
            asked = {"input": "a long text " * 300, "response_format": "pcm", "stream": True}
            async with session.post(f"{url}/v1/audio/speech", json=asked) as response:
                await response.content.readany()
                assert server.stop() == 0

    with running("speech") as server:
        assert server.ready["kind"] == "speech"
        assert server.ready["pid"] == server.process.pid
        asyncio.run(client(server.url))
