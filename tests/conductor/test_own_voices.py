"""Real engines behind `serve speech --from`, in a run: its audio is what each writes to a file itself."""

import asyncio
import functools
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import soundfile

from cotenant.resources import data_dir
from cotenant.run_dir.reader import read, read_audio
from tests.conductor.harness import Ended, free_port, ran

pytestmark = pytest.mark.slow

# As users write them.
VOICES: Final = {
    "hibari": """
from hibari import Hibari

tts = Hibari()

def generate(text, voice):
    for sentence in tts.stream(text, seed=0):
        yield sentence, 24000
""",
    "espeak": """
import subprocess

def generate(text, voice):
    return subprocess.run(["espeak-ng", "--stdout", text], stdout=subprocess.PIPE, check=True).stdout
""",
    "flite": """
import subprocess
import tempfile

def generate(text, voice):
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        subprocess.run(["flite", "-t", text, "-o", file.name], check=True)
        return file.read()
""",
}
FORMATS: Final = {"hibari": "f32", "espeak": "s16", "flite": "s16"}
MISSING: Final = {
    name: None if there else f"{name} is not installed: {how}"
    for name, there, how in (
        ("hibari", importlib.util.find_spec("hibari") is not None, "pip install hibari-tts"),
        ("espeak", shutil.which("espeak-ng") is not None, "apt-get install espeak-ng"),
        ("flite", shutil.which("flite") is not None, "apt-get install flite"),
    )
}
HERE: Final = [name for name, reason in MISSING.items() if reason is None]


@functools.cache
def hibari_engine() -> Any:
    import hibari

    return hibari.Hibari()


def hibari_file(text: str, path: Path) -> None:
    hibari_engine().save(text, str(path), seed=0)


def hibari_bytes(heard: bytes, rate_hz: int, path: Path) -> bytes:
    """The recorded floats through the engine's own writer of 16-bit files."""
    from hibari.tts import write_wav

    write_wav(str(path), np.frombuffer(heard, "<f4"), rate_hz)
    return bytes(soundfile.read(path, dtype="int16")[0].tobytes())


def as_heard(heard: bytes, rate_hz: int, path: Path) -> bytes:
    return heard


def espeak_file(text: str, path: Path) -> None:
    subprocess.run(["espeak-ng", "-w", str(path), text], check=True)


def flite_file(text: str, path: Path) -> None:
    subprocess.run(["flite", "-t", text, "-o", str(path)], check=True)


ENGINES: Final[dict[str, tuple[Callable[[str, Path], None], Callable[[bytes, int, Path], bytes]]]] = {
    "hibari": (hibari_file, hibari_bytes),
    "espeak": (espeak_file, as_heard),
    "flite": (flite_file, as_heard),
}


def tenant(name: str, port: int) -> dict[str, Any]:
    # By the command, and by the module, which a model's own environment has without the command's parts.
    server = ["cotenant.cli.main", "serve"] if name == "hibari" else ["cotenant.tenants.builtin.server"]
    command = [
        sys.executable, "-m", *server, "speech", "--from", f"{name}_voice:generate", "--port", str(port),
        "--sample-format", FORMATS[name],
    ]  # fmt: skip
    return {
        "kind": "speech", "engine": "launch", "command": command, "url": f"http://127.0.0.1:{port}",
        "protocol": "openai", "sample_format": FORMATS[name],
    }  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Every engine that is here, each with a listener of its own, all in one stage."""
    if not HERE:
        pytest.skip("; ".join(filter(None, MISSING.values())))
    folder = tmp_path_factory.mktemp("voices")
    for name in HERE:
        (folder / f"{name}_voice.py").write_text(VOICES[name], encoding="utf-8")
    voices = {"kind": "voices", "mode": "open", "listeners": 1, "every": "1s"}
    scenario = {
        "name": "own-voices",
        "tenants": {name: tenant(name, free_port()) for name in HERE},
        "load": {f"to-{name}": {"tenant": name, **voices} for name in HERE},
        "stages": [{"name": "together", "load": [f"to-{name}" for name in HERE]}],
        "timing": {"settle": "200ms", "measure": "2s", "stall_limit": "10s"},
        "gate": ["voice"],
    }
    return asyncio.run(ran(folder, scenario, deadline_s=120))


@pytest.mark.parametrize("name", list(VOICES))
def test_what_is_recorded_is_what_the_engine_writes_to_a_file(name: str, run: Ended, tmp_path: Path) -> None:
    if reason := MISSING[name]:
        pytest.skip(reason)
    assert run.run_dir is not None, run.err
    assert run.code in (0, 1, 4), run.err
    lines = (data_dir("fixtures") / "texts" / "short.txt").read_text(encoding="utf-8").splitlines()
    recording = read(run.run_dir)
    rows = [row for row in run.measured("together") if row["load"] == f"to-{name}"]
    assert rows
    write_file, played = ENGINES[name]
    for row in rows:
        assert (row["end"], row["error"]) == ("eos", None)
        text = lines[(row["listener"] * 7 + row["utterance"]) % (len(lines) - 6)]
        write_file(text, tmp_path / "own.wav")
        own, rate_hz = soundfile.read(tmp_path / "own.wav", dtype="int16")
        assert (row["rate_hz"], row["sample_format"]) == (rate_hz, FORMATS[name])
        heard = read_audio(run.run_dir, recording, row["stream"])
        assert heard is not None
        assert played(heard, rate_hz, tmp_path / "heard.wav") == own.tobytes()
