"""The recipe over faster-qwen3-tts and qwen-tts themselves: a small model of random weights, on the CPU."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import numpy as np
import pytest

from cotenant.errors import CouldNotRun
from cotenant.tenants.builtin import source
from tests.tenants.built_in import Running, serving
from tests.tenants.test_recipes import VOICE
from tests.tenants.test_source_speech import health, speak

pytestmark = [
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("faster_qwen3_tts", "qwen_tts")),
        reason='pip install faster-qwen3-tts==0.5.4 "transformers<5.17"',
    ),
    pytest.mark.filterwarnings("ignore"),  # theirs
]
ROOT: Final = Path(__file__).parents[2]
SITE: Final = Path(__file__).parent / "real_models" / "site"
FRAME_BYTES: Final = 2 * 1_920


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("qwen") / "model"
    command = [sys.executable, "-m", "tests.tenants.real_models.qwen3_tts", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def voice(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QWEN3_TTS_MODEL", str(checkpoint))
        patch.setenv("QWEN3_TTS_CHUNK", "4")
        patch.setattr(sys, "path", [str(SITE), str(ROOT), *sys.path])
        with serving("speech", VOICE, tmp_path_factory.mktemp("real") / "log") as server:
            yield server


async def messages(url: str, *, leave_after: int | None = None) -> list[int]:
    """The bytes of each message of an utterance."""
    body = {"input": "Good day to you.", "voice": "aiden", "response_format": "pcm", "stream": True}
    sizes, size = [], 0
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/audio/speech", json=body) as answer,
    ):
        assert (answer.status, answer.content_type) == (200, "audio/pcm")
        async for data, ends in answer.content.iter_chunks():
            size += len(data)
            if ends and size:
                sizes.append(size)
                size = 0
            if len(sizes) == leave_after:
                break
    return sizes


def test_a_message_is_four_frames_and_the_last_one_the_rest(voice: Running) -> None:
    assert voice.ready["rate_hz"] == 24_000
    *most, last = asyncio.run(messages(voice.url))
    assert all(size == 4 * FRAME_BYTES for size in most)
    assert last in [count * FRAME_BYTES for count in (1, 2, 3, 4)]
    _, body = asyncio.run(speak(voice.url, "Good day", voice="vivian"))
    heard = np.frombuffer(body, "<i2")
    assert len(heard) % 1_920 == 0
    assert heard.std() > 1_000


def test_a_client_that_leaves_ends_its_utterance_and_the_next_is_served(voice: Running) -> None:
    async def leave_and_ask() -> list[int]:
        await messages(voice.url, leave_after=1)
        for _ in range(1_000):
            if not (await health(voice.url))["active"]:
                break
        return await messages(voice.url)

    assert asyncio.run(leave_and_ask())


def test_its_refusals_are_told(voice: Running) -> None:
    async def ask(text: str, speaker: str) -> str:
        response, body = await speak(voice.url, text, voice=speaker)
        assert response.status == 500
        return str(json.loads(body)["error"]["message"])

    assert "Unsupported speakers: ['nobody']" in asyncio.run(ask("Hi", "nobody"))
    assert "Input is too long" in asyncio.run(ask("word " * 700, "aiden"))
    assert asyncio.run(messages(voice.url))


def refused(monkeypatch: pytest.MonkeyPatch, model: Path) -> str:
    monkeypatch.setenv("QWEN3_TTS_MODEL", str(model))
    with pytest.raises(CouldNotRun) as caught:
        source.load(VOICE, "speech", batched=False)
    return str(caught.value)


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, checkpoint: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert "needs an NVIDIA GPU, and the torch" in refused(monkeypatch, checkpoint)


def test_a_model_of_another_kind_is_refused_at_the_start(checkpoint: Path, tmp_path: Path) -> None:
    config: dict[str, Any] = json.loads((checkpoint / "config.json").read_text())
    other = tmp_path / "design"
    other.mkdir()
    for path in checkpoint.iterdir():
        (other / path.name).symlink_to(path)
    (other / "config.json").unlink()
    (other / "config.json").write_text(json.dumps({**config, "tts_model_type": "voice_design"}))
    environment = {**os.environ, "QWEN3_TTS_MODEL": str(other), "PYTHONPATH": f"{SITE}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "cotenant", "serve", "speech", "--from", VOICE, "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 5
    assert "is a voice_design model, and this recipe speaks with a CustomVoice one" in ended.stderr
