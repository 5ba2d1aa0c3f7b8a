"""Generators as users write them, for `--from generators:NAME`: good ones and bad ones. No torch."""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 22_050
PIECE = np.arange(-400, 400, dtype=np.int16)

print("what a module prints is no ready line")  # noqa: T201 - a module that does


def spoken(text: str) -> NDArray[np.int16]:
    """What is said: one piece for each character, of its code."""
    return np.concatenate([PIECE + np.int16(ord(letter)) for letter in text])


def say(text: str, voice: str | None) -> Iterator[Any]:
    """Says each character; `break` breaks, `silence` says nothing."""
    assert "torch" not in sys.modules, "the server has imported torch"
    if text == "silence":
        return
    for letter in text:
        if text.startswith("break") and letter == "k":
            raise ValueError(f"no {letter} today")
        yield PIECE + np.int16(ord(letter)), RATE_HZ


def at_once(text: str, voice: str | None) -> tuple[NDArray[np.float32], int]:
    """One whole array instead of pieces."""
    return (spoken(text) / 32767).astype(np.float32), RATE_HZ


async def say_async(text: str, voice: str | None) -> AsyncIterator[Any]:
    """The same, async."""
    for letter in text:
        await asyncio.sleep(0)
        yield PIECE + np.int16(ord(letter))


class Voice:
    """An object that knows its rate, and can be closed."""

    rate = 16_000

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def __call__(self, text: str, voice: str | None) -> Iterator[bytes]:
        """Goes on until it is closed; the text is the path of a file to write then."""
        try:
            while True:
                yield PIECE.tobytes()
                time.sleep(0.01)
        except GeneratorExit:
            Path(text).write_text("closed", encoding="utf-8")
            raise

    def batch(self, texts: list[str], voices: list[str | None]) -> Iterator[list[Any]]:
        """Says all texts at once, each as long as it is."""
        for at in range(max(map(len, texts))):
            yield [PIECE + np.int16(ord(text[at])) if at < len(text) else None for text in texts]


together = threading.Barrier(2)


def both(text: str, voice: str | None) -> Iterator[NDArray[np.int16]]:
    """Speaks only while another does too."""
    together.wait(30)
    yield spoken(f"{text}{voice}")


def show(audio: Iterator[NDArray[np.int16]], fps: int) -> Iterator[Any]:
    """A picture for each frame's time of audio, as grey as its first sample."""
    samples = np.zeros(0, np.int16)
    for part in audio:
        assert part.dtype == np.int16
        samples = np.concatenate((samples, part))
        while len(samples) >= 16_000 // fps:
            if samples[0] == 666:
                raise RuntimeError("this face breaks")
            yield np.full((32, 48, 3), samples[0] % 256, np.uint8)
            samples = samples[16_000 // fps :]


async def show_async(audio: Any, fps: int) -> AsyncIterator[Any]:
    """A picture for each piece of audio, at the time that it says."""
    at_s = 0.0
    async for part in audio:
        yield np.zeros((16, 16, 3), np.uint8), at_s
        at_s += len(part) / 16_000


def wait_for_audio(audio: Iterator[NDArray[np.int16]], fps: int) -> Iterator[Any]:
    """Shows nothing and tells in its log how the audio ended."""
    try:
        for _ in audio:
            sys.stderr.write("some audio came\n")
            sys.stderr.flush()
        sys.stderr.write("the audio ended\n")
    except ConnectionAbortedError:
        sys.stderr.write("the client left\n")
        sys.stderr.flush()
        raise
    yield from ()


def too_few(text: str) -> Iterator[bytes]:
    """Cannot be called as a voice is."""
    yield text.encode()


class Broken:
    """Cannot be made."""

    def __init__(self) -> None:
        raise OSError("no weights in ./models")


class Wants:
    """Cannot be made without a folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder


number = 3
