"""Raw samples: whole ones out of bytes cut anywhere, and how long they last."""

from typing import Final

from cotenant.units import NS_PER_S

BYTES_PER_SAMPLE: Final = {"s16": 2, "f32": 4}
# Sample rates that a voice may have; what a server tells beyond them is a fault of it.
LEAST_RATE_HZ: Final = 1_000
MOST_RATE_HZ: Final = 192_000


def is_rate(rate_hz: int) -> bool:
    """Whether samples of this rate are played."""
    return LEAST_RATE_HZ <= rate_hz <= MOST_RATE_HZ


def media_ns(samples_before: int, samples: int, rate_hz: int) -> int:
    """Duration of `samples` that follow `samples_before` of the same stream.

    The difference of the rounded cumulative durations: rounded one by one they would drift.
    """
    return _position_ns(samples_before + samples, rate_hz) - _position_ns(samples_before, rate_hz)


def _position_ns(samples: int, rate_hz: int) -> int:
    return (2 * samples * NS_PER_S + rate_hz) // (2 * rate_hz)


class PcmDecoder:
    """Carries the bytes of a sample that was cut over to the piece that completes it."""

    def __init__(self, sample_bytes: int) -> None:
        self._sample_bytes = sample_bytes
        self._carry = b""

    def feed(self, data: bytes) -> bytes:
        """The whole samples that are complete with `data`."""
        if self._carry:
            data = self._carry + data
        whole = len(data) - len(data) % self._sample_bytes
        self._carry = data[whole:]
        return data[:whole]

    @property
    def pending_bytes(self) -> int:
        """Bytes of a sample that is not complete yet; at the end of a stream they are lost."""
        return len(self._carry)
