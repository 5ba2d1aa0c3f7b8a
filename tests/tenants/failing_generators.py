"""Generators that fail in every way there is, for `--from failing_generators:NAME`."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 24_000
PIECE = np.zeros(480, np.int16)
PICTURE = np.zeros((16, 16, 3), np.uint8)


class NoText(Exception):
    """Cannot be written."""

    def __str__(self) -> str:
        raise ValueError("nor can this")

    __repr__ = __str__


class NoNotes(NoText):
    """Cannot even be looked at."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise SystemExit(1)


class Exits(Exception):
    """Exits where it is written."""

    def __str__(self) -> str:
        sys.exit(3)


class NoName(type(Exception)):  # type: ignore[misc]
    """A class of errors without a name."""

    @property
    def __name__(cls) -> NoReturn:
        raise RuntimeError


class Nameless(Exception, metaclass=NoName):
    """One of them."""


ERRORS: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("no luck today"),
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "RecursionError": RecursionError,
    "MemoryError": MemoryError,
    "BaseExceptionGroup": lambda: BaseExceptionGroup("two", [SystemExit(1), NoText()]),
    "NoText": NoText,
    "NoNotes": NoNotes,
    "Exits": Exits,
    "Nameless": Nameless,
    "long": lambda: ValueError("x" * 10_000_000),
    "surrogate": lambda: ValueError("\ud800 \x1b[31m"),
}


def plain(error: str, piece: Any) -> Iterator[Any]:
    """After one piece."""
    yield piece
    raise ERRORS[error]()


def at_once(error: str, piece: Any) -> Iterator[Any]:
    """Instead of giving anything."""
    raise ERRORS[error]()


async def after_one(error: str, piece: Any) -> AsyncIterator[Any]:
    """After one piece, async."""
    yield piece
    raise ERRORS[error]()


async def awaited(error: str, piece: Any) -> Iterator[Any]:
    """While it is awaited."""
    await asyncio.sleep(0)
    raise ERRORS[error]()


async def in_a_task(error: str, piece: Any) -> AsyncIterator[Any]:
    """In a task of its own, which is waited for."""
    yield piece

    async def failing() -> None:
        raise ERRORS[error]()

    await asyncio.create_task(failing())


async def in_a_callback(error: str, piece: Any) -> AsyncIterator[Any]:
    """In a callback of the loop, which nobody waits for; then it fails in plain words."""
    yield piece

    def failing() -> None:
        raise ERRORS[error]()

    asyncio.get_running_loop().call_soon(failing)
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.001)
    raise ValueError("no luck today")


async def at_its_end(error: str, piece: Any) -> AsyncIterator[Any]:
    """While it is closed."""
    try:
        yield piece
        raise ValueError("no luck today")
    finally:
        raise ERRORS[error]()


class Iterating:
    """Where each next piece is asked for, and where it is closed."""

    def __init__(self, error: str, piece: Any) -> None:
        self._error = error

    def __iter__(self) -> "Iterating":
        return self

    def __next__(self) -> Any:
        raise ERRORS[self._error]()

    def close(self) -> None:
        """Cannot be."""
        raise ERRORS[self._error]()


WAYS: dict[str, Callable[[str, Any], Iterator[Any] | AsyncIterator[Any] | Awaitable[Any]]] = {
    one.__name__: one
    for one in (plain, at_once, after_one, awaited, in_a_task, in_a_callback, at_its_end, Iterating)
}


def say(text: str, voice: str | None) -> Any:
    """`way error`, or a piece for anything else."""
    way, _, error = text.partition(" ")
    piece = (PIECE, RATE_HZ)
    return WAYS[way](error, piece) if way in WAYS else iter([piece])


def show(audio: Iterator[NDArray[np.int16]], fps: int) -> Any:
    """The way and the error whose numbers the first two samples are; below 0, a picture."""
    way, error = (int(sample) for sample in next(audio)[:2])
    if way < 0:
        return iter([PICTURE])
    return list(WAYS.values())[way](list(ERRORS)[error], PICTURE)


class NoRate:
    """Fails where its rate is read."""

    @property
    def rate(self) -> int:
        raise RuntimeError("no rate")

    def __call__(self, text: str, voice: str | None) -> Iterator[Any]:
        """Never called."""
        yield PIECE


class NoAttributes:
    """Fails where it is asked for what it has not."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ZeroDivisionError(name)

    def __call__(self, text: str, voice: str | None) -> Iterator[Any]:
        """Never called."""
        yield PIECE


class OddRate(NoRate):
    """Has a rate that cannot be compared, nor written."""

    class _Rate:
        def __int__(self) -> int:
            raise RuntimeError("no number")

        def __repr__(self) -> str:
            raise RuntimeError("no text")

    rate = _Rate()  # type: ignore[assignment]


class ExitsWhenMade(NoRate):
    """Ends the process where it is made."""

    def __init__(self) -> None:
        sys.exit(4)


class BadTextWhenMade(NoRate):
    """Fails without words where it is made."""

    def __init__(self) -> None:
        raise NoText


class OddSignature(NoRate):
    """Fails where its signature is read."""

    @property
    def __signature__(self) -> NoReturn:
        raise RuntimeError("no signature")


def __getattr__(name: str) -> NoReturn:
    if name == "gone":
        raise RuntimeError("this module is lazy")
    raise AttributeError(name)
