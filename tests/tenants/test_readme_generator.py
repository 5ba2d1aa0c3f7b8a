"""The README's example of a generator of one's own: as printed it speaks, and its scenario names it."""

import importlib.util
import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from cotenant.scenario.load import load
from cotenant.tenants.builtin import source
from cotenant.tenants.builtin.source_pieces import SpeechPieces

README: Final = Path(__file__).resolve().parents[2] / "README.md"


def printed(language: str, name: str) -> str:
    """The block of the README that names this file in its first line."""
    blocks = re.findall(
        rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    found: list[str] = [block for block in blocks if f"# {name}" in block.split("\n")[0]]
    assert len(found) == 1
    return found[0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for language, name in (("python", "my_tts.py"), ("yaml", "my-voice.yaml")):
        (tmp_path / name).write_text(printed(language, name), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_its_scenario_serves_it(folder: Path) -> None:
    tts = load(str(folder / "my-voice.yaml")).tenants["tts"]
    assert tts.command == ["cotenant", "serve", "speech", "--from", "my_tts:generate", "--port", "8091"]
    assert (tts.engine, tts.url) == ("launch", "http://127.0.0.1:8091")


@pytest.mark.skipif(importlib.util.find_spec("hibari") is None, reason="pip install hibari-tts")
@pytest.mark.usefixtures("folder")
def test_it_speaks() -> None:
    found = source.load("my_tts:generate", "speech", batched=False)
    pieces = SpeechPieces(found.rate_hz, "s16")
    said: list[Any] = [pieces.read(piece) for piece in found.call("Hello there. How are you?", None)]
    assert len(said) == 2
    assert {spoken.rate_hz for spoken in said} == {24_000}
    heard = np.frombuffer(b"".join(spoken.data for spoken in said), "<i2")
    assert 1 < len(heard) / 24_000 < 6
    assert np.abs(heard.astype(np.int32)).max() > 3_000
