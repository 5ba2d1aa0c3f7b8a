"""Whole samples and their durations."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.wire.pcm import PcmDecoder, media_ns


def test_an_odd_byte_is_carried_over() -> None:
    decoder = PcmDecoder(2)
    assert [decoder.feed(piece) for piece in (b"a", b"bc", b"", b"def", b"g")] == [
        b"", b"ab", b"", b"cdef", b"",
    ]  # fmt: skip
    assert decoder.pending_bytes == 1


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=8), st.sampled_from([2, 4]))
def test_nothing_is_lost_or_added_by_cuts(data: bytes, cuts: list[int], sample_bytes: int) -> None:
    decoder = PcmDecoder(sample_bytes)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    out = b"".join(decoder.feed(data[a:b]) for a, b in itertools.pairwise(edges))
    assert out == data[: len(data) - len(data) % sample_bytes]
    assert decoder.pending_bytes == len(data) % sample_bytes


@given(st.lists(st.integers(0, 5000), max_size=50), st.sampled_from([16_000, 22_050, 24_000, 44_100, 48_000]))
def test_durations_sum_to_the_length_of_the_stream(pieces: list[int], rate_hz: int) -> None:
    total, before = 0, 0
    for samples in pieces:
        total += media_ns(before, samples, rate_hz)
        before += samples
    assert abs(total - before * 1e9 / rate_hz) <= 0.5 + 1e-3


@pytest.mark.parametrize(("samples", "rate_hz", "expected"), [(24_000, 24_000, 10**9), (1, 22_050, 45_351)])
def test_durations(samples: int, rate_hz: int, expected: int) -> None:
    assert media_ns(0, samples, rate_hz) == expected
