"""What the built-in voice says: the recording of a known sentence, or known speech of a fitting length."""

import zlib
from functools import cache
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

RATE_HZ = 24_000
NAMES = ("short", "long")

Samples = NDArray[np.int16]


class Recordings:
    """The recordings under a fixtures folder, by sentence. Raises OSError where the folder is not whole."""

    def __init__(self, fixtures: Path) -> None:
        self._files: dict[str, Path] = {}
        for name in NAMES:
            lines = (fixtures / "texts" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
            for number, line in enumerate(lines, 1):
                self._files[line] = fixtures / "speech" / f"{name}-{number:02}.flac"
        self._read = cache(_read)
        frames = sum(soundfile.info(path).frames for path in self._files.values())
        self._samples_per_character = frames / sum(map(len, self._files))

    def speech_for(self, text: str) -> Samples:
        """s16 samples at 24 kHz. A sentence that was recorded gives exactly its recording.

        Any other text gives recordings one after another, beginning with one that the text picks, cut at
        the length that its characters take at the recordings' own pace; never empty.
        """
        text = text.strip()
        if text in self._files:
            return self._read(self._files[text])
        wanted = max(1, round(len(text) * self._samples_per_character))
        files = list(self._files.values())
        at = zlib.crc32(text.encode()) % len(files)
        parts: list[Samples] = []
        have = 0
        while have < wanted:
            parts.append(self._read(files[at % len(files)]))
            have += len(parts[-1])
            at += 1
        return np.concatenate(parts)[:wanted]


def _read(path: Path) -> Samples:
    samples, rate_hz = soundfile.read(path, dtype="int16")
    if rate_hz != RATE_HZ or samples.ndim != 1:
        raise OSError(f"{path.name} is not a mono recording at {RATE_HZ} Hz")
    found: Samples = samples
    found.flags.writeable = False
    return found
