"""Real engines behind a server of ours: what is recorded is, sample for sample, what each puts in a file."""

import shutil
import subprocess
import time
import wave
from pathlib import Path
from typing import Final

import pytest

from cotenant.load.voice import Turn, speak
from cotenant.testing.truth_server import Script, Served, truth_server
from tests.load.rig import KeptRows, desk_for, new_stage, run, settings, tenant, voices

TEXT: Final = "The harbour is quiet tonight, and the rain has gone."
# How each writes to a pipe and to a file, with its text last.
ENGINES: Final = {
    "espeak-ng": (["espeak-ng", "--stdout"], ["espeak-ng", "-w"], []),
    "flite": (["flite", "-o", "/dev/stdout", "-t"], ["flite", "-o"], ["-t"]),
}
CHUNK_BYTES: Final = 4063  # odd, as a server that copies a pipe sends


@pytest.mark.parametrize("engine", ENGINES)
def test_what_an_engine_streams_is_what_it_writes(engine: str, tmp_path: Path) -> None:
    if shutil.which(engine) is None:
        pytest.skip(f"no {engine} on PATH (apt-get install {engine})")
    to_pipe, to_file, before_text = ENGINES[engine]
    path = tmp_path / "spoken.wav"
    subprocess.run([*to_file, str(path), *before_text, TEXT], check=True, capture_output=True)
    with wave.open(str(path)) as file:
        rate_hz, expected = file.getframerate(), file.readframes(file.getnframes())
    spoken = subprocess.run([*to_pipe, TEXT], check=True, capture_output=True).stdout
    rows = run(_heard(spoken))
    row = rows.stream()
    assert (row["end"], row["error"], row["stamp"]) == ("eos", None, "kernel")
    assert (row["rate_hz"], row["sample_format"]) == (rate_hz, "s16")
    assert bytes(rows.audio) == expected
    assert len(expected) > rate_hz  # a second of two bytes a sample, at the least half
    media_ns = sum(chunk["media"] for chunk in rows.rows["chunks"])
    assert abs(media_ns - len(expected) // 2 * 10**9 / rate_hz) < 2


async def _heard(stream: bytes) -> KeptRows:
    pieces = [(0, stream[at : at + CHUNK_BYTES]) for at in range(0, len(stream), CHUNK_BYTES)]

    def answer(served: Served) -> Script:
        assert TEXT.encode() in served.body
        return Script(headers={"Content-Type": "audio/wav"}, pieces=pieces)

    async with truth_server(answer) as server:
        one = tenant(server.url, rate_hz=None)
        async with desk_for(settings([one], [voices()], stall_limit_ns=10**10)) as (desk, rows):
            turn = Turn(
                listener=0, due_ns=time.monotonic_ns(), delayed_ns=0, line=lambda: (0, TEXT), tap=None
            )
            await speak(desk, new_stage(), voices(), turn)
            return rows
