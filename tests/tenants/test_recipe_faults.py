"""The recipes over other packages than the ones that they are for: what is wrong, and what is needed."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from cotenant.errors import CouldNotRun, UserError
from cotenant.tenants.builtin import source
from tests.tenants.test_recipes import HEAD, REAL_QWEN, STAND_INS, VOICE

QWEN_WRONG: Final = {
    "nothing in it": ("", "AttributeError: "),
    "half of it": ("import not_there_at_all\n", "ModuleNotFoundError: No module named 'not_there_at_all'"),
    "a name that is gone": ("from json import not_there\n", "ImportError: cannot import name 'not_there'"),
    "another class": ("class FasterQwen3TTS:\n    pass\n", "AttributeError: "),
    "other arguments": (
        "class FasterQwen3TTS:\n    @classmethod\n    def from_pretrained(cls): return cls()\n", "TypeError: "
    ),
    "no streaming": (
        "class FasterQwen3TTS:\n    sample_rate = 24000\n    def warmup(self): pass\n"
        "    @classmethod\n    def from_pretrained(cls, name): return cls()\n",
        "no attribute 'generate_custom_voice_streaming'",
    ),
    "another streaming": (
        "class FasterQwen3TTS:\n    sample_rate = 24000\n    def warmup(self): pass\n"
        "    @classmethod\n    def from_pretrained(cls, name): return cls()\n"
        "    def generate_custom_voice_streaming(self, text, chunk): pass\n",
        "TypeError: ",
    ),
}  # fmt: skip


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder on the path, for modules under the names of others' packages."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("DITTO_HOME", str(tmp_path))
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    for name in ("faster_qwen3_tts", "stream_pipeline_online"):
        sys.modules.pop(name, None)


def refused(target: str, kind: str) -> str:
    with pytest.raises(CouldNotRun) as caught:
        source.load(target, kind, batched=False)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("code", "words"), QWEN_WRONG.values(), ids=QWEN_WRONG)
def test_another_package_in_its_place_names_the_one_that_is_needed(
    package: Path, code: str, words: str
) -> None:
    (package / "faster_qwen3_tts.py").write_text(code, encoding="utf-8")
    message = refused(VOICE, "speech")
    assert "this recipe is for faster-qwen3-tts==0.5.4" in message
    assert f"{sys.executable} -m pip install faster-qwen3-tts==0.5.4" in message
    assert words in message
    assert "without arguments" not in message


@pytest.mark.skipif(REAL_QWEN, reason="faster-qwen3-tts is installed")
def test_an_empty_folder_in_its_place_is_named(package: Path) -> None:
    (package / "faster_qwen3_tts").mkdir()
    assert f"the one in {package / 'faster_qwen3_tts'} is not that" in refused(VOICE, "speech")


@pytest.mark.usefixtures("package")
def test_a_model_that_is_not_there_is_no_fault_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(STAND_INS))

    def missing(name: str) -> None:
        raise OSError(f"{name} is not a folder")

    stand_in = importlib.import_module("faster_qwen3_tts").FasterQwen3TTS
    monkeypatch.setattr(stand_in, "from_pretrained", missing)
    monkeypatch.setenv("QWEN3_TTS_MODEL", "/models/none")
    message = refused(VOICE, "speech")
    assert "does not load /models/none: OSError: /models/none is not a folder; QWEN3_TTS_MODEL" in message
    monkeypatch.setenv("QWEN3_TTS_CHUNK", "eight")
    with pytest.raises(UserError, match="QWEN3_TTS_CHUNK is 'eight'"):
        source.load(VOICE, "speech", batched=False)


DITTO: Final = "class StreamSDK:\n    def __init__(self, cfg, data): "
DITTO_WRONG: Final = {
    "nothing in it": ("", "AttributeError: "),
    "a name that is gone": ("from json import not_there\n", "ImportError: cannot import name 'not_there'"),
    "a library that is another": ("raise OSError('libnvinfer.so.8')\n", "OSError: libnvinfer.so.8"),
    "other arguments": ("class StreamSDK:\n    pass\n", "TypeError: "),
    "no chunks": (f"{DITTO}pass\n    def setup(self, a, b): pass\n", "no attribute 'run_chunk'"),
    "other chunks": (
        f"{DITTO}pass\n    def setup(self, a, b): pass\n    def run_chunk(self, a): pass\n", "TypeError: "
    ),
}  # fmt: skip


@pytest.mark.parametrize(("code", "words"), DITTO_WRONG.values(), ids=DITTO_WRONG)
def test_another_ditto_names_the_commit_that_is_needed(package: Path, code: str, words: str) -> None:
    (package / "stream_pipeline_online.py").write_text(code, encoding="utf-8")
    message = refused(HEAD, "face")
    assert "this recipe is for Ditto's commit e9191cf" in message
    assert f"git -C {package} checkout e9191cf" in message
    assert words in message


def test_dittos_engines_that_are_not_there_are_named(package: Path) -> None:
    text = f"{DITTO}open(cfg)\n    setup = run_chunk = print\n"
    (package / "stream_pipeline_online.py").write_text(text, encoding="utf-8")
    message = refused(HEAD, "face")
    assert "Ditto does not load" in message
    assert "FileNotFoundError" in message
    assert "DITTO_CFG and DITTO_DATA name others" in message
