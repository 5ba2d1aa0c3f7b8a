"""Qwen3-TTS by faster-qwen3-tts, for `serve speech --from`. Not tried: written from version 0.5.4's source.

`QWEN3_TTS_MODEL` is a CustomVoice model's name or folder, `QWEN3_TTS_CHUNK` the frames of 80 ms in a piece.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

from cotenant.errors import CouldNotRun

PACKAGE: Final = "faster-qwen3-tts==0.5.4"


class _Voice:
    """One model: its recorded graphs hold one utterance at a time, so it is served by one worker."""

    def __init__(self) -> None:
        made: Any = importlib.import_module("faster_qwen3_tts").FasterQwen3TTS
        name = os.environ.get("QWEN3_TTS_MODEL", "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice")
        self._chunk = int(os.environ.get("QWEN3_TTS_CHUNK", "8"))  # as it is benchmarked; its default is 12
        self._model = made.from_pretrained(name)
        self._model.warmup()
        self.rate = self._model.sample_rate

    def __call__(self, text: str, voice: str | None) -> Iterator[tuple[Any, int]]:
        """Float samples, shape (n,), with their rate in Hz; a speaker that it does not know raises there."""
        pieces = self._model.generate_custom_voice_streaming(
            text=text, speaker=voice or "aiden", language="Auto", chunk_size=self._chunk
        )
        for samples, rate_hz, _timing in pieces:
            yield samples, rate_hz


def __getattr__(name: str) -> Any:
    """`Voice`. Its package is looked for here: any Python can import this module, and a missing one is told
    in a sentence (CouldNotRun), without a traceback.
    """
    if name != "Voice":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if importlib.util.find_spec("faster_qwen3_tts") is None:
        raise CouldNotRun(
            f"there is no faster-qwen3-tts in {sys.prefix}; {sys.executable} -m pip install {PACKAGE} gets it"
        )
    return _Voice
