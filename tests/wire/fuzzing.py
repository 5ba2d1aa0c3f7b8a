"""Streams that went wrong at random, thrown at a decoder by the hundred thousand; what is held of each."""

import contextlib
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, TypedDict

import pytest

from cotenant.errors import ServiceError
from cotenant.records import ERROR_KINDS

THROWN: Final = 100_000  # at every decoder
# Of processor time, for a few hundred bytes: what takes longer never ends.
HANG_S: Final = 3.0


class Hang(BaseException):
    """Not an Exception, that no decoder takes it for bad input."""


@dataclass(slots=True, kw_only=True)
class Thrown:
    """What came of the streams: by decoder how many it was fed, by kind how many ended in a fault."""

    streams: Counter[type] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def fault(self, error: ServiceError, length: int) -> None:
        """Holds one fault to what is promised: a kind, and where in the stream's `length` bytes."""
        assert error.kind in ERROR_KINDS
        assert error.offset is not None
        assert 0 <= error.offset <= length
        self.faults[error.kind] += 1


class Told(TypedDict):
    """The same by the decoders' names, from one process to another."""

    streams: dict[str, int]
    faults: int


def told(thrown: Thrown) -> Told:
    streams = {decoder.__name__: count for decoder, count in thrown.streams.items()}
    assert len(streams) == len(thrown.streams)
    return {"streams": streams, "faults": thrown.faults.total()}


# Feeds one stream to a new decoder, and returns that.
One = Callable[[random.Random, Thrown], object]


def throw(one: One, seed: str, count: int = THROWN, *, hang_s: float = HANG_S) -> Thrown:
    """Fails the test for a stream at which a decoder raises what it should not, or hangs."""
    thrown, rng = Thrown(), random.Random(seed)
    with _stopped():
        try:
            for _ in range(count):
                signal.setitimer(signal.ITIMER_VIRTUAL, hang_s)
                decoder = one(rng, thrown)
                thrown.streams[type(decoder)] += 1
        except Hang:
            pytest.fail(f"stream {thrown.streams.total()} of {seed!r} kept its decoder busy for {hang_s:g} s")
        except Exception as error:
            raise AssertionError(f"stream {thrown.streams.total()} of {seed!r}") from error
    return thrown


@contextlib.contextmanager
def _stopped() -> Iterator[None]:
    def stop(_: int, __: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def mutated(rng: random.Random, data: bytes, tokens: Sequence[bytes]) -> bytes:
    """One to three changes: a byte, a piece left out or doubled, an end, or a token put in or over others."""
    for _ in range(1 + rng.getrandbits(8) % 3):
        at = int(rng.random() * (len(data) + 1))
        size = 1 << (rng.getrandbits(8) % 5)
        change = rng.getrandbits(3)
        if change < 2:
            data = data[:at] + rng.getrandbits(8).to_bytes(1, "little") + data[at + 1 :]
        elif change == 2:
            data = data[:at] + data[at + size :]
        elif change == 3:
            data = data[:at] + data[max(0, at - size) :]
        elif change == 4:
            data = data[:at]
        else:
            token = tokens[rng.getrandbits(8) % len(tokens)]
            data = data[:at] + token + data[at + (len(token) if change == 5 else 0) :]
    return data


def cut(rng: random.Random, data: bytes) -> list[bytes]:
    """In two, anywhere."""
    at = int(rng.random() * (len(data) + 1))
    return [data[:at], data[at:]]
