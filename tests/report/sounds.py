"""A small run with audio that was really written, read back through the run directory."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cotenant.run_dir import manifest
from cotenant.run_dir.writer import RunWriter
from cotenant.wire.pcm import media_ns
from tests.verdict.recordings import MS, SCENARIO

RATE_HZ = 24_000


def samples_of(
    count: int, *, seed: int = 0, sample_format: str = "s16"
) -> "np.ndarray[tuple[int], np.dtype[np.int16 | np.float32]]":
    """Samples that are all loud, so that none is taken for silence."""
    random = np.random.default_rng(seed)
    if sample_format == "f32":
        return random.uniform(0.1, 1.0, count).astype("<f4")
    return random.integers(1, 30_000, count).astype("<i2")


def write_voice_run(
    path: Path,
    voices: Sequence[Sequence[tuple[float, int]]],
    *,
    rate_hz: int = RATE_HZ,
    sample_format: str = "s16",
    end: str | None = "eos",
    audio_limit_bytes: int | None = 500_000_000,
    stage: str = "alone",
    window: tuple[int, int] | None = None,
) -> list[bytes]:
    """Voice v: its chunks as (arrival in ms after it is due, samples); due at second 10 v. `end` None: the
    writer was killed. `window`: what was measured. Returns the audio of each."""
    manifest.write(
        path,
        {"schema": 1, "tool": "cotenant", "run_id": "r", "status": "complete", "scenario": dict(SCENARIO)},
    )
    writer = RunWriter(path, "listeners", audio_limit_bytes)
    for edge, t in zip(("start", "end"), window or (), strict=False):
        writer.append("marks", t=t, what="measure", name=stage, edge=edge)
    audio = []
    for number, chunks in enumerate(voices):
        due_ns = 1_000 * MS + number * 10_000 * MS
        row = {
            "stream": 1_000_001 + number, "tenant": "tts", "load": "voices", "kind": "voices", "stage": stage,
            "round": 0, "listener": number % 2, "utterance": number // 2, "due": due_ns, "sent": due_ns,
        }  # fmt: skip
        writer.append("streams", **row)
        samples = samples_of(sum(count for _, count in chunks), seed=number, sample_format=sample_format)
        taken = 0
        for seq, (arrival_ms, count) in enumerate(chunks):
            piece = samples[taken : taken + count].tobytes()
            writer.append(
                "chunks",
                stream=row["stream"],
                seq=seq,
                arrival=due_ns + round(arrival_ms * MS),
                media=media_ns(taken, count, rate_hz),
                bytes=len(piece) + (44 if seq == 0 else 0),
                shared_read=False,
                audio_offset=writer.append_audio(piece) if piece else None,
            )
            taken += count
        done = due_ns + round(max((arrival for arrival, _ in chunks), default=1_000.0) * MS)
        if end is not None:
            writer.append(
                "streams", **row, rate_hz=rate_hz, sample_format=sample_format, done=done, end=end,
                error_kind=None if end == "eos" else "timeout",
            )  # fmt: skip
        audio.append(samples.tobytes())
    writer.close()
    return audio
