"""Resampling: exact lengths, the same output however the input is cut, and the right sound."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.load.resample import Resampler, to_float, to_s16


def through(samples: npt.NDArray[np.float32], rate_hz: int, cuts: list[int]) -> npt.NDArray[np.int16]:
    resampler = Resampler(rate_hz)
    edges = [0, *sorted(min(cut, len(samples)) for cut in cuts), len(samples)]
    pieces = [resampler.feed(samples[a:b]) for a, b in itertools.pairwise(edges)]
    return np.frombuffer(b"".join([*pieces, resampler.end()]), dtype="<i2")


def tone(rate_hz: int, hz: float, seconds: float) -> npt.NDArray[np.float32]:
    at = np.arange(round(rate_hz * seconds)) / rate_hz
    return (0.5 * np.sin(2 * np.pi * hz * at)).astype(np.float32)


@given(
    st.integers(0, 3000),
    st.sampled_from([8_000, 16_000, 22_050, 24_000, 44_100, 48_000]),
    st.lists(st.integers(0, 3000), max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_length_is_exact_and_cuts_do_not_matter(length: int, rate_hz: int, cuts: list[int]) -> None:
    samples = np.random.default_rng(length).uniform(-0.9, 0.9, length).astype(np.float32)
    whole, cut = through(samples, rate_hz, []), through(samples, rate_hz, cuts)
    assert len(whole) == length * 16_000 // rate_hz
    assert np.abs(whole.astype(int) - cut.astype(int)).max(initial=0) <= 1


@pytest.mark.parametrize("rate_hz", [22_050, 24_000, 48_000])
def test_a_tone_keeps_its_pitch_and_place(rate_hz: int) -> None:
    out = through(tone(rate_hz, 440, 0.5), rate_hz, [1000, 2000]) / 32768
    expected = tone(16_000, 440, 0.5)
    inner = slice(100, -100)
    assert np.abs(out[inner] - expected[: len(out)][inner]).max() < 0.01


def test_what_16_khz_cannot_hold_is_taken_out() -> None:
    out = through(tone(48_000, 12_000, 0.5), 48_000, []) / 32768
    assert np.abs(out[200:-200]).max() < 0.02


def test_formats() -> None:
    loud = np.array([0.0, 0.5, -1.0, 1.5], dtype=np.float32)
    assert np.frombuffer(to_s16(loud), "<i2").tolist() == [0, 16384, -32768, 32767]
    assert to_float(to_s16(loud), "s16").tolist() == pytest.approx([0, 0.5, -1.0, 1.0], abs=1e-4)
    assert to_float(loud.tobytes(), "f32").tolist() == [0, 0.5, -1.0, 1.0]
    wild = np.array([np.nan, np.inf, -np.inf, 3e38], dtype=np.float32)
    assert to_float(wild.tobytes(), "f32").tolist() == [0, 1, -1, 1]
