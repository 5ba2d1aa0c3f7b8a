"""Samples of any rate and format -> 16 kHz s16le, piece by piece, as many as their duration asks for."""

from math import gcd
from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.wire.frames import AUDIO_RATE_HZ

_ZERO_CROSSINGS: Final = 12
_DTYPES: Final = {"s16": "<i2", "f32": "<f4"}


def to_float(data: bytes, sample_format: str) -> npt.NDArray[np.float32]:
    """Whole samples as floats from -1 to 1; what is no number is silence."""
    samples = np.frombuffer(data, dtype=_DTYPES[sample_format])
    if sample_format == "s16":
        return samples.astype(np.float32) / 32768.0
    return np.clip(np.nan_to_num(samples.astype(np.float32)), -1, 1)


def to_s16(samples: npt.NDArray[np.float32]) -> bytes:
    """Floats as s16le, clipped."""
    data: bytes = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2").tobytes()
    return data


class Resampler:
    """A windowed-sinc filter over a stream of samples at `rate_hz`.

    After `feed` of n samples in all, and `end`, exactly floor(n * 16000 / rate) samples have come out,
    however the input was cut. `feed` holds back what the filter has to look ahead for (under 2 ms at 24 kHz).
    """

    def __init__(self, rate_hz: int) -> None:
        common = gcd(rate_hz, AUDIO_RATE_HZ)
        self._up, self._down = AUDIO_RATE_HZ // common, rate_hz // common
        self._half = -(-_ZERO_CROSSINGS * max(self._up, self._down) // self._up)
        self._bank = _filter_bank(self._up, self._down, self._half)
        # `_half` zeros stand before the first sample, so that its window is whole.
        self._input = np.zeros(self._half, dtype=np.float32)
        self._input_start = -self._half
        self._received = 0
        self._emitted = 0

    def feed(self, samples: npt.NDArray[np.float32]) -> bytes:
        """What can be told so far, as s16le."""
        self._input = np.concatenate([self._input, samples])
        self._received += len(samples)
        return self._emit((self._received - self._half) * self._up // self._down)

    def end(self) -> bytes:
        """The rest."""
        self._input = np.concatenate([self._input, np.zeros(self._half + 1, dtype=np.float32)])
        return self._emit(self._received * self._up // self._down)

    def _emit(self, until: int) -> bytes:
        if until <= self._emitted:
            return b""
        positions = np.arange(self._emitted, until, dtype=np.int64) * self._down
        first = positions // self._up - self._half + 1 - self._input_start
        windows = self._input[first[:, None] + np.arange(2 * self._half)]
        out = np.einsum("ij,ij->i", windows, self._bank[positions % self._up])
        self._emitted = until
        keep_from = until * self._down // self._up - self._half + 1 - self._input_start
        self._input = self._input[keep_from:]
        self._input_start += keep_from
        return to_s16(out)


def _filter_bank(up: int, down: int, half: int) -> npt.NDArray[np.float32]:
    """Weights [phase, tap] of a Hann-windowed sinc; each phase sums to 1, so a constant stays one."""
    cutoff = min(1.0, up / down)
    offsets = np.arange(2 * half) - half + 1 - np.arange(up)[:, None] / up
    window = 0.5 + 0.5 * np.cos(np.pi * np.clip(offsets / half, -1, 1))
    bank = np.sinc(cutoff * offsets) * window
    normalised: npt.NDArray[np.float32] = (bank / bank.sum(axis=1, keepdims=True)).astype(np.float32)
    return normalised
