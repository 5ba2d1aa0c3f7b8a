"""A neural TTS that a run attaches to: hibari behind `cotenant serve speech --from`, started by the test."""

import contextlib
import importlib.util
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cotenant.resources import data_dir
from cotenant.run_dir.reader import read, read_audio
from tests.conductor.harness import Ended, free_port
from tests.conductor.test_own_voices import VOICES, hibari_bytes, hibari_file

MISSING: Final = None if importlib.util.find_spec("hibari") else "no hibari: pip install hibari-tts"
_LIMIT_S: Final = 120


@contextlib.contextmanager
def hibari_server(folder: Path) -> Iterator[str]:
    """Its address, while the block runs; `folder` gets the generator and a log."""
    (folder / "hibari_voice.py").write_text(VOICES["hibari"], encoding="utf-8")
    port = free_port()
    command = [
        sys.executable, "-m", "cotenant.cli.main", "serve", "speech", "--from", "hibari_voice:generate",
        "--port", str(port), "--sample-format", "f32",
    ]  # fmt: skip
    with (folder / "hibari.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(server, url)
            yield url
        finally:
            server.terminate()
            server.wait(10)


def tenant(url: str) -> dict[str, Any]:
    """As a scenario names it."""
    return {"kind": "speech", "engine": "attach", "url": url, "protocol": "openai", "sample_format": "f32"}


def check_samples(ended: Ended, rows: list[dict[str, Any]], folder: Path) -> None:
    """What was recorded of each stream of the built-in texts is what hibari writes to a file."""
    assert ended.run_dir is not None
    recording = read(ended.run_dir)
    lines = (data_dir("fixtures") / "texts" / "short.txt").read_text(encoding="utf-8").splitlines()
    for row in rows:
        text = lines[(row["listener"] * 7 + row["utterance"]) % (len(lines) - 6)]
        hibari_file(text, folder / "own.wav")
        heard = read_audio(ended.run_dir, recording, row["stream"])
        assert heard is not None
        hibari_bytes(heard, row["rate_hz"], folder / "heard.wav")
        assert (folder / "heard.wav").read_bytes() == (folder / "own.wav").read_bytes()


def _wait(server: "subprocess.Popen[bytes]", url: str) -> None:
    end_s = time.monotonic() + _LIMIT_S
    while time.monotonic() < end_s:
        assert server.poll() is None
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(0.1)
    raise AssertionError("hibari does not answer")
