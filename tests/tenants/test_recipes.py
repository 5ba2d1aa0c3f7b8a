"""The recipes for models of others: each over a stand-in with that model's signatures, and without it."""

import asyncio
import importlib
import importlib.util
import inspect
import io
import json
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
from cotenant.scenario.load import load
from cotenant.tenants.builtin import source
from cotenant.tenants.builtin.source_head import Audio
from cotenant.tenants.builtin.source_pieces import SpeechPieces
from cotenant.tenants.recipes import ditto_online
from cotenant.wire.frames import HEADER_BYTES
from tests.conductor.harness import free_port, ran
from tests.tenants.built_in import serving
from tests.tenants.recipe_stand_ins import faster_qwen3_tts as qwen_stand_in
from tests.tenants.recipe_stand_ins.stream_pipeline_online import BREAKS
from tests.tenants.test_source_face import show
from tests.tenants.test_source_speech import speak

STAND_INS: Final = Path(qwen_stand_in.__file__).parent
VOICE: Final = "cotenant.tenants.recipes.faster_qwen3_tts:Voice"
HEAD: Final = "cotenant.tenants.recipes.ditto_online:Head"
REAL_QWEN: Final = importlib.util.find_spec("faster_qwen3_tts") is not None
FRAME: Final = 640


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(STAND_INS))
    monkeypatch.setenv("DITTO_HOME", str(STAND_INS))
    _forget()
    yield
    _forget()


def _forget() -> None:
    for name in ("faster_qwen3_tts", "stream_pipeline_online"):
        sys.modules.pop(name, None)


def head() -> Any:
    return source.load(HEAD, "face", batched=False).call


def greys(count: int) -> NDArray[np.int16]:
    """Audio whose frames of 40 ms are 1, 2, 3 ..."""
    return (np.arange(count) // FRAME + 1).astype(np.int16)


def audio_of(samples: NDArray[np.int16], piece: int = 1_600) -> Audio:
    audio = Audio()
    for start in range(0, len(samples), piece):
        audio.put(samples[start : start + piece])
    audio.put(None)
    return audio


def ditto_threads() -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if "worker" in thread.name or "ditto" in thread.name
    ]


@pytest.mark.usefixtures("stand_ins")
def test_qwen_pieces_are_the_samples_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QWEN3_TTS_CHUNK", "3")
    found = source.load(VOICE, "speech", batched=False)
    assert found.rate_hz == 24_000
    for voice in (None, "vivian"):
        pieces = SpeechPieces(found.rate_hz, "s16")
        said = [spoken for piece in found.call("Hello", voice) if (spoken := pieces.read(piece)) is not None]
        assert [len(spoken.data) for spoken in said] == [3 * 2 * 1_920, 2 * 2 * 1_920]
        heard = np.frombuffer(b"".join(spoken.data for spoken in said), "<i2")
        wanted = np.rint(np.repeat([ord(letter) / 256 for letter in "Hello"], 1_920) * 32767)
        assert np.array_equal(heard, wanted)
    with pytest.raises(ValueError, match="Unsupported speakers: nobody"):
        next(found.call("Hello", "nobody"))


@pytest.mark.skipif(not REAL_QWEN, reason="faster-qwen3-tts is not installed")
def test_the_stand_in_has_the_signature_of_the_package() -> None:
    real = importlib.import_module("faster_qwen3_tts").FasterQwen3TTS
    for name in ("generate_custom_voice_streaming", "warmup", "from_pretrained"):
        theirs = inspect.signature(getattr(real, name)).parameters
        ours = inspect.signature(getattr(qwen_stand_in.FasterQwen3TTS, name)).parameters
        assert list(theirs)[: len(ours)] == list(ours)


@pytest.mark.parametrize("count", [0, 1, 641, 3_200, 6_401, 16_000, 48_000])
@pytest.mark.usefixtures("stand_ins")
def test_ditto_shows_a_frame_for_each_40_ms(count: int) -> None:
    samples = greys(count)
    call = head()
    for piece in (1_600, 7_001):
        frames = list(call(audio_of(samples, piece), 25))
        assert len(frames) == -(-count // FRAME)
        whole = count // FRAME
        assert [frame[0, 0, 0] for frame in frames[:whole]] == list(range(1, whole + 1))
    assert ditto_threads() == []


@pytest.mark.usefixtures("stand_ins")
def test_dittos_portrait_is_registered_once() -> None:
    made = head()
    for _ in range(2):
        list(made(audio_of(greys(700)), 25))
    sdk = made._sdk
    assert sdk.registered == 1
    assert sdk.avatar_registrar(f"{STAND_INS}/example/image.png", max_dim=1920)["path"].endswith("image.png")


@pytest.mark.parametrize("count", [0, 1, 6_479, 6_480, 20_000])
def test_windows_do_not_depend_on_the_pieces(count: int) -> None:
    samples = np.random.default_rng(7).integers(-32768, 32767, count, dtype=np.int16)
    whole = list(ditto_online.windows([samples], 10))
    padded = np.concatenate([np.zeros(1_920), samples / 32768, np.zeros(20_000)])
    assert len(whole) == max(2, -(-count // 3_200))
    for number, window in enumerate(whole):
        assert np.array_equal(window, padded[3_200 * number : 3_200 * number + 6_480].astype(np.float32))
    pieces = [samples[at : at + 999] for at in range(0, count, 999)]
    assert np.array_equal(np.stack(list(ditto_online.windows(pieces, 10))), np.stack(whole))


@pytest.mark.usefixtures("stand_ins")
def test_a_client_of_ditto_that_leaves_ends_its_threads() -> None:
    call = head()
    audio = Audio()
    audio.put(greys(48_000))
    frames = call(audio, 25)
    assert next(frames)[0, 0, 0] == 1
    audio.leave()
    frames.close()
    assert ditto_threads() == []
    audio = Audio()
    audio.leave()
    with pytest.raises(ConnectionAbortedError):
        list(call(audio, 25))
    assert len(list(call(audio_of(greys(16_000)), 25))) == 25
    assert ditto_threads() == []


@pytest.mark.usefixtures("stand_ins")
def test_a_thread_of_ditto_that_fails_is_told_and_the_next_client_is_served() -> None:
    call = head()
    # Far more audio than its queues hold: the one that fails is not there to take it.
    samples = np.concatenate([greys(FRAME * 20), np.full(FRAME, BREAKS, np.int16), greys(FRAME * 800)])
    with pytest.raises(RuntimeError, match="its engine broke"):
        list(call(audio_of(samples), 25))
    assert ditto_threads() == []
    assert len(list(call(audio_of(greys(16_000)), 25))) == 25


@pytest.mark.usefixtures("stand_ins")
def test_what_ditto_cannot_do_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="ask for fps: 25"):
        next(head()(Audio(), 30))
    monkeypatch.setenv("DITTO_CFG", "/x/v0.4_hubert_cfg_trt.pkl")
    with pytest.raises(CouldNotRun, match="DITTO_CFG names an online one"):
        head()
    assert ditto_threads() == []


def served(scenario: str, tenant: str) -> tuple[str, str]:
    """The kind and the target of the scenario's `cotenant serve KIND --from TARGET`."""
    command = load(scenario).tenants[tenant].command
    assert command is not None
    kind, target = command[2], command[4]
    assert command[:-1] == ["cotenant", "serve", kind, "--from", target, "--port"]
    return kind, target


@pytest.mark.usefixtures("stand_ins")
def test_the_commands_of_the_scenarios_serve(tmp_path: Path) -> None:
    kind, target = served("faster-qwen3-tts", "tts")
    tenant = load("faster-qwen3-tts").tenants["tts"]
    with serving(kind, target, tmp_path / "tts.log") as server:
        response, body = asyncio.run(speak(server.url, "Good day", voice=tenant.voice))
    assert response.status == 200
    assert len(body) == len("Good day") * 1_920 * 2
    kind, target = served("ditto-online", "head")
    with serving(kind, target, tmp_path / "head.log") as server:
        frames, last = asyncio.run(show(server.url, (greys(6_400) * 8).astype("<i2").tobytes()))
    assert last == {"type": "done", "frames": 10}
    picture = np.asarray(Image.open(io.BytesIO(frames[9][HEADER_BYTES:])), np.int16)
    assert picture.shape == (8, 16, 3)
    assert np.abs(picture - 80).max() < 5


@pytest.mark.skipif(REAL_QWEN, reason="faster-qwen3-tts is installed")
def test_a_run_without_the_package_names_the_command_that_gets_it(tmp_path: Path) -> None:
    kind, target = served("faster-qwen3-tts", "tts")
    port = free_port()
    serve = [sys.executable, "-m", "cotenant", "serve", kind, "--from", target, "--port", str(port)]
    ended = asyncio.run(
        ran(
            tmp_path,
            "faster-qwen3-tts",
            *("--set", f"tenants.tts.command={json.dumps(serve)}"),
            *("--set", f"tenants.tts.url=http://127.0.0.1:{port}"),
        )
    )
    assert ended.code == 5
    assert "Traceback" not in ended.err
    assert f"{sys.executable} -m pip install faster-qwen3-tts==0.5.4" in ended.err.splitlines()[-1]


def test_what_is_missing_of_ditto_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DITTO_HOME", str(tmp_path))
    with pytest.raises(
        CouldNotRun, match=r"git clone https://github\.com/antgroup/ditto-talkinghead, pip install"
    ):
        head()
    (tmp_path / "stream_pipeline_online.py").write_text("import not_there_at_all\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CouldNotRun, match=r"Ditto needs 'not_there_at_all'.*-m pip install gets it"):
        head()
    assert not hasattr(ditto_online, "Hed")


def test_the_recipes_say_that_they_were_not_tried() -> None:
    for name in ("faster-qwen3-tts", "ditto-online", "one-gpu-96gb"):
        assert "not tried" in load(name).about
