"""The recipe over Ditto's own online pipeline: narrow networks of random weights, on the CPU."""

import asyncio
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from cotenant.errors import CouldNotRun
from cotenant.tenants.builtin import source
from cotenant.wire.frames import HEADER_BYTES
from tests.tenants.built_in import serving
from tests.tenants.test_recipes import HEAD, audio_of
from tests.tenants.test_source_face import show

CHECKOUT: Final = os.environ.get("DITTO_CHECKOUT")
pytestmark = [
    pytest.mark.skipif(
        CHECKOUT is None,
        reason="DITTO_CHECKOUT names no checkout of Ditto's e9191cf, whose packages are there, and onnx",
    ),
    pytest.mark.filterwarnings("ignore"),  # theirs
]
ROOT: Final = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("ditto") / "home"
    command = [sys.executable, "-m", "tests.tenants.real_models.ditto", str(CHECKOUT), str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DITTO_HOME", str(folder))
        patch.setenv("DITTO_CFG", str(folder / "cfg.pkl"))
        patch.setenv("DITTO_DATA", str(folder / "weights"))
        patch.setenv("DITTO_PORTRAIT", str(folder / "portrait.png"))
        patch.setattr(sys, "path", [str(ROOT), *sys.path])
        yield folder
    sys.modules.pop("stream_pipeline_online", None)


@pytest.fixture(scope="module")
def call(home: Path) -> Any:
    assert home.is_dir()
    return source.load(HEAD, "face", batched=False).call


def noise(count: int) -> NDArray[np.int16]:
    return np.random.default_rng(7).integers(-9_000, 9_000, count).astype(np.int16)


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "worker" in thread.name or "ditto" in thread.name]


@pytest.mark.parametrize("count", [0, 1, 641, 6_401])
def test_a_frame_for_each_40_ms(call: Any, count: int) -> None:
    frames = list(call(audio_of(noise(count)), 25))
    assert [(frame.shape, frame.dtype) for frame in frames] == [((128, 128, 3), np.uint8)] * -(-count // 640)
    assert count <= 640 or any((frame != frames[0]).any() for frame in frames)  # the face moves
    assert workers() == []


def test_a_client_that_leaves_ends_its_threads_and_the_next_is_served(call: Any) -> None:
    frames = call(audio_of(noise(64_000)), 25)
    next(frames)
    frames.close()
    assert workers() == []
    assert len(list(call(audio_of(noise(640)), 25))) == 1


def test_what_fails_in_one_of_its_threads_is_told(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_features: Any) -> None:
        raise RuntimeError("its engine broke")

    with monkeypatch.context() as patch:
        patch.setattr(call._sdk.warp_f3d, "warp_net", breaks)
        with pytest.raises(RuntimeError, match="its engine broke"):
            list(call(audio_of(noise(16_000)), 25))
    assert workers() == []
    assert len(list(call(audio_of(noise(640)), 25))) == 1


def test_a_portrait_of_nobody_is_told_at_the_start(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DITTO_PORTRAIT", str(home / "none.png"))
    with pytest.raises(CouldNotRun, match="DITTO_PORTRAIT names another picture"):
        source.load(HEAD, "face", batched=False)


def test_it_is_served(home: Path, tmp_path: Path) -> None:
    assert home.is_dir()
    with serving("face", HEAD, tmp_path / "log") as server:
        frames, last = asyncio.run(show(server.url, noise(3_300).astype("<i2").tobytes()))
    assert last == {"type": "done", "frames": 6}
    assert Image.open(io.BytesIO(frames[5][HEADER_BYTES:])).size == (128, 128)
