"""A generator of speech behind the built-in server, in a process of its own: what clients and its log see."""

import asyncio
import io
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
import soundfile

from cotenant.errors import ServiceError
from cotenant.wire.http1 import Body, Head
from cotenant.wire.speech import SpeechDecoder
from tests.tenants.built_in import Running, serving
from tests.tenants.generators import PIECE, RATE_HZ, spoken


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("source") / "log"


@pytest.fixture(scope="module")
def voice(log: Path) -> Iterator[Running]:
    with serving("speech", "generators:say", log) as server:
        yield server


@pytest.fixture(scope="module")
def object_voice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("object") / "log"
    with serving("speech", "generators:Voice", log, "--batch", "3") as server:
        yield server


async def speak(url: str, text: str, **more: Any) -> tuple[aiohttp.ClientResponse, bytes]:
    """The answer and as much of its body as came."""
    body = {"input": text, "response_format": "pcm", "stream": True, **more}
    got = b""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/audio/speech", json=body) as response,
    ):
        try:
            async for data in response.content.iter_any():
                got += data
        except aiohttp.ClientPayloadError:
            got += b"CUT"
    return response, got


async def health(url: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/health") as response:
        found: dict[str, Any] = await response.json()
        return found


def events(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix(b"data: ")) for line in body.split(b"\n\n") if line]


def test_the_pieces_are_the_messages_and_the_first_tells_the_rate(voice: Running) -> None:
    assert {key: voice.ready[key] for key in ("kind", "from", "workers")} == {
        "kind": "speech", "from": "generators:say", "workers": 1,
    }  # fmt: skip

    async def chunks() -> tuple[str, list[bytes]]:
        parts, part = [], b""
        body = {"input": "hello", "response_format": "pcm", "stream": True, "voice": "x"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{voice.url}/v1/audio/speech", json=body) as response,
        ):
            async for data, ends in response.content.iter_chunks():
                part += data
                if ends and part:
                    parts.append(part)
                    part = b""
        return response.headers["Content-Type"], [*parts, *([part] if part else [])]

    content_type, parts = asyncio.run(chunks())
    assert content_type == f"audio/pcm;rate={RATE_HZ}"
    assert parts == [(PIECE + np.int16(ord(letter))).tobytes() for letter in "hello"]


def test_whole_answers_and_wavs_have_the_same_samples(voice: Running) -> None:
    for more in ({"stream": False, "response_format": "wav"}, {"stream": True, "response_format": "wav"}):
        _, body = asyncio.run(speak(voice.url, "abc", **more))
        samples, rate_hz = soundfile.read(io.BytesIO(body), dtype="int16")
        assert rate_hz == RATE_HZ
        assert (samples == spoken("abc")).all()


def test_an_error_within_cuts_the_samples_and_the_server_lives_on(voice: Running, log: Path) -> None:
    response, body = asyncio.run(speak(voice.url, "break"))
    assert (response.status, body[-3:]) == (200, b"CUT")
    assert body[:-3] == spoken("brea").tobytes()
    assert "ValueError: no k today" in log.read_text()
    assert asyncio.run(health(voice.url)) == {"status": "ok", "active": 0}


def test_an_error_within_is_an_event_where_events_are_asked_for(voice: Running) -> None:
    response, body = asyncio.run(speak(voice.url, "break", stream_format="sse"))
    assert response.headers["X-Sample-Rate"] == str(RATE_HZ)
    found = events(body)
    assert [event["type"] for event in found] == ["speech.audio.delta"] * 4 + ["error"]
    assert found[-1]["error"]["message"] == "ValueError: no k today"
    head = Head(
        status=200, headers={name.lower(): value for name, value in response.headers.items()}, chunked=True
    )
    heard = SpeechDecoder(head, rate_hz=None, sample_format=None).feed(
        Body(data=body, closes=True, after_bytes=0)
    )
    assert isinstance(heard[-1], ServiceError)
    assert (heard[-1].kind, str(heard[-1])) == ("in_stream", "ValueError: no k today")
    _, body = asyncio.run(speak(voice.url, "ok", stream_format="sse"))
    assert [event["type"] for event in events(body)][-1] == "speech.audio.done"


def test_silence_is_an_empty_answer(voice: Running) -> None:
    for stream in (True, False):
        response, body = asyncio.run(speak(voice.url, "silence", stream=stream))
        assert (response.status, body) == (200, b"")


def test_a_client_that_leaves_closes_the_generator(tmp_path: Path) -> None:
    told = tmp_path / "closed"

    async def leave(url: str) -> None:
        async with aiohttp.ClientSession() as session:
            body = {"input": str(told), "response_format": "pcm", "stream": True}
            response = await session.post(f"{url}/v1/audio/speech", json=body)
            await response.content.readany()
            response.close()
            async with asyncio.timeout(20):
                while (await health(url))["active"] or not told.exists():
                    pass

    with serving("speech", "generators:Voice", tmp_path / "log") as server:
        asyncio.run(leave(server.url))
        assert server.ready["rate_hz"] == 16_000
        assert server.stop() == 0


def test_waiting_requests_are_given_together_to_a_batch(object_voice: Running) -> None:
    texts = ["a", "bcd", "efghi", "jk", "l"]

    async def all_at_once() -> list[tuple[aiohttp.ClientResponse, bytes]]:
        return list(await asyncio.gather(*(speak(object_voice.url, text) for text in texts)))

    assert object_voice.ready["batch"] == 3
    for text, (response, body) in zip(texts, asyncio.run(all_at_once()), strict=True):
        assert response.headers["Content-Type"] == "audio/pcm;rate=16000"
        assert body == spoken(text).tobytes()


def test_two_workers_speak_at_once_and_floats_stay_floats(tmp_path: Path) -> None:
    async def two(url: str) -> list[tuple[aiohttp.ClientResponse, bytes]]:
        return list(await asyncio.gather(speak(url, "a"), speak(url, "b", voice="x")))

    flags = ("--rate", "24000", "--sample-format", "f32", "--workers", "2")
    with serving("speech", "generators:both", tmp_path / "log", *flags) as server:
        answers = asyncio.run(two(server.url))
    for text, (response, body) in zip(("aNone", "bx"), answers, strict=True):
        assert response.headers["Content-Type"] == "audio/pcm;rate=24000"
        assert response.headers["X-Bit-Depth"] == "32"
        assert (np.frombuffer(body, "<f4") * 32_768 == spoken(text)).all()


def test_an_async_generator_and_a_rate_that_nobody_told(tmp_path: Path) -> None:
    with serving("speech", "generators:say_async", tmp_path / "log") as server:
        response, body = asyncio.run(speak(server.url, "abc"))
        assert response.status == 500
        assert "start with --rate 24000" in json.loads(body)["error"]["message"]
    with serving("speech", "generators:say_async", tmp_path / "log", "--rate", "8000") as server:
        response, body = asyncio.run(speak(server.url, "abc"))
        assert response.headers["Content-Type"] == "audio/pcm;rate=8000"
        assert body == spoken("abc").tobytes()


def test_it_ends_at_once_though_a_generator_goes_on(tmp_path: Path) -> None:
    async def ask(server: Running) -> int:
        async with aiohttp.ClientSession() as session:
            body = {"input": str(tmp_path / "closed"), "response_format": "pcm", "stream": True}
            async with session.post(f"{server.url}/v1/audio/speech", json=body) as response:
                await response.content.readany()
                server.process.send_signal(signal.SIGTERM)
                return await asyncio.to_thread(server.process.wait, 30)

    with serving("speech", "generators:Voice", tmp_path / "log") as server:
        assert asyncio.run(ask(server)) == 0
    assert (tmp_path / "closed").read_text() == "closed"
