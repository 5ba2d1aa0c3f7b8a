"""What a user's generator may yield, as the samples and pictures that are sent."""

import contextlib
import io
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image

from cotenant.errors import UserError
from cotenant.tenants.builtin.answers import SampleFormat, Spoken
from cotenant.tenants.builtin.source_pieces import SpeechPieces, one_by_one, read_frame

SAMPLES = np.array([0, 1, -1, 12_345, -32_768, 32_767], np.int16)


def read(piece: Any, sample_format: SampleFormat = "s16", rate_hz: int | None = 24_000) -> Spoken:
    spoken = SpeechPieces(rate_hz, sample_format).read(piece)
    assert spoken is not None
    return spoken


@pytest.mark.parametrize(
    "piece",
    [
        SAMPLES.astype("<i2").tobytes(),
        bytearray(SAMPLES.astype("<i2").tobytes()),
        SAMPLES,
        SAMPLES[None, :],
        SAMPLES[:, None],
        torch.from_numpy(SAMPLES.copy()),
        (SAMPLES, 24_000),
        (SAMPLES, np.int64(24_000)),
    ],
)
def test_whole_numbers_are_sent_as_they_are(piece: Any) -> None:
    assert read(piece) == Spoken(data=SAMPLES.tobytes(), rate_hz=24_000)


def test_floats_become_whole_numbers_and_are_clipped() -> None:
    floats = np.array([0, 1, -1, 0.5, 1.5, -7, 1 / 65_534], np.float64)
    wanted = [0, 32_767, -32_767, 16_384, 32_767, -32_767, 0]
    for piece in (floats, floats.astype(np.float32), torch.tensor(floats)):
        assert np.frombuffer(read(piece).data, "<i2").tolist() == wanted
    half = torch.tensor([0.5, -1.0], dtype=torch.bfloat16, requires_grad=True)
    assert np.frombuffer(read(half).data, "<i2").tolist() == [16_384, -32_767]


def test_floats_are_sent_as_they_are_where_floats_are_asked_for() -> None:
    floats = np.random.default_rng(1).normal(size=100).astype(np.float32)
    assert read(floats, "f32") == Spoken(data=floats.tobytes(), rate_hz=24_000, sample_format="f32")
    back = np.frombuffer(read(SAMPLES, "f32").data, "<f4")
    assert (back * 32_768 == SAMPLES).all()


def test_a_wav_is_taken_apart_wherever_it_is_cut() -> None:
    out = io.BytesIO()
    soundfile.write(out, SAMPLES, 22_050, format="WAV", subtype="PCM_16")
    for cut in (4, 20, 44, 47):
        pieces = SpeechPieces(None, "s16")
        got = [pieces.read(part) for part in (out.getvalue()[:cut], out.getvalue()[cut:])]
        assert b"".join(part.data for part in got if part) == SAMPLES.tobytes()
        assert {part.rate_hz for part in got if part} == {22_050}
    with pytest.raises(ValueError, match="--sample-format s16"):
        read(out.getvalue(), "f32", None)


def test_nothing_yet_is_no_piece() -> None:
    pieces = SpeechPieces(None, "s16")
    assert pieces.read(b"") is None
    assert pieces.read(np.zeros(0, np.float32)) is None


@pytest.mark.parametrize(
    ("pieces", "part"),
    [
        ([np.zeros((2, 5), np.int16)], "yield mono"),
        ([np.zeros(5, np.int32)], "samples of int32; yield int16 or float32"),
        ([np.array([0.0, np.nan])], "no numbers"),
        (["text"], "a piece is str; yield bytes"),
        ([None], "a piece is NoneType"),
        ([SAMPLES], "nothing tells the sample rate: start with --rate 24000"),
        ([(SAMPLES, 24_000), (SAMPLES, 16_000)], "a piece says 16000 Hz, and 24000 Hz was said"),
        ([(SAMPLES, 24_000, {})], "a tuple of 3"),
        ([(SAMPLES, "fast")], "the rate of a piece is 'fast'"),
        ([b"RIFFxxxxAVI LIST"], "a WAV that is not played"),
    ],
)
def test_what_is_no_piece_is_told(pieces: list[Any], part: str) -> None:
    reader = SpeechPieces(None, "s16")
    *good, bad = pieces
    for piece in good:
        assert reader.read(piece) is not None
    with pytest.raises((TypeError, ValueError, UserError), match=part):
        reader.read(bad)


def claims(count: int, value: Any, *shape: int) -> Any:
    """A view that claims so many items in its first axis, and holds one."""
    return np.lib.stride_tricks.as_strided(np.array(value), (count, *shape), (0,) * (1 + len(shape)))


MANY = 600_000_000
TOO_LARGE: dict[str, Any] = {
    "float32": claims(MANY, np.float32(0)),
    "float16": claims(MANY // 6, np.float16(0)),
    "float64": claims(MANY // 10, np.float64(0)),
    "int16": claims(MANY, np.int16(0)),
    "int64": claims(MANY, np.int64(0)),
    "with its rate": (claims(MANY, np.float32(0)), 24_000),
    "two axes": claims(1, np.float32(0), MANY),
    "a list": [claims(MANY, np.float32(0))],
    "lists": [[[claims(MANY, np.float32(0))]]],
    "a tensor": torch.zeros(1).expand(MANY),
    "a half tensor": torch.zeros(1, dtype=torch.float16).expand(MANY // 6),
    "a list of tensors": [torch.zeros(1).expand(MANY)],
    "a view of bytes": memoryview(claims(MANY, np.uint8(0))),
}


@pytest.mark.parametrize("piece", TOO_LARGE.values(), ids=TOO_LARGE)
@pytest.mark.parametrize("sample_format", ["s16", "f32"])
def test_a_piece_that_claims_more_than_is_taken_costs_no_memory(
    piece: Any, sample_format: SampleFormat
) -> None:
    with grows_by_at_most(8 << 20), pytest.raises(ValueError, match=r"MiB, and at most 256 are taken"):
        read(piece, sample_format)


def test_a_long_piece_costs_little_beside_what_is_sent() -> None:
    samples = np.linspace(-1.5, 1.5, 4 << 20)
    with grows_by_at_most(25 << 20):
        data = read(samples).data
    assert data == np.rint(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()
    samples[-1] = np.nan
    with pytest.raises(ValueError, match="no numbers"):
        read(samples)


@contextlib.contextmanager
def grows_by_at_most(limit_bytes: int) -> Iterator[None]:
    """While it lasts, no more than this is held beside what there was."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] <= limit_bytes
    finally:
        tracemalloc.stop()


def test_a_function_may_return_all_at_once() -> None:
    for whole in (b"\0\0", SAMPLES, (SAMPLES, 24_000), torch.zeros(3)):
        assert len(list(one_by_one(whole))) == 1
    assert list(one_by_one([1, 2])) == [1, 2]
    for nothing in (None, "text", 3):
        with pytest.raises(TypeError, match="yield the pieces"):
            one_by_one(nothing)


def test_pictures_of_every_kind_are_jpegs() -> None:
    pixels = np.full((24, 32, 3), (200, 10, 60), np.uint8)
    picture = Image.fromarray(pixels)
    out = io.BytesIO()
    picture.save(out, "JPEG")
    for piece in (pixels, torch.from_numpy(pixels), picture, picture.convert("RGBA"), out.getvalue()):
        frame = read_frame(piece, 3, 25)
        assert (frame.index, frame.media_time_ns) == (3, 120_000_000)
        shown = np.asarray(Image.open(io.BytesIO(frame.jpeg)), np.int16)
        assert shown.shape == (24, 32, 3)
        assert np.abs(shown - pixels).max() < 10


def test_a_frame_may_tell_its_place() -> None:
    pixels = np.zeros((8, 8, 3), np.uint8)
    assert read_frame((pixels, 7), 3, 25).index == 7
    assert read_frame((pixels, np.int64(7)), 3, 25).media_time_ns == 280_000_000
    timed = read_frame((pixels, 0.5), 3, 25)
    assert (timed.index, timed.media_time_ns) == (3, 500_000_000)


@pytest.mark.parametrize(
    ("piece", "part"),
    [
        (np.zeros((8, 8), np.uint8), r"shape \(8, 8\)"),
        (np.zeros((8, 8, 3), np.float32), "of uint8"),
        (b"\x89PNG", "no JPEG"),
        ((np.zeros((8, 8, 3), np.uint8), "late"), "the picture, .picture, index."),
        ((np.zeros((8, 8, 3), np.uint8), -1), "the picture, .picture, index."),
        ("text", "a piece is str"),
        (claims(60_000, np.uint8(0), 60_000, 3), "a picture of 60000x60000; at most 64 megapixels"),
        (claims(8_001, np.float32(0), 8_000, 3), "a picture of 8000x8001"),
        (torch.zeros(1, dtype=torch.float64).expand(10**6, 10**6, 3), "at most 64 megapixels"),
        (torch.zeros(1).expand(2, 2, 10**9), "a frame has 15258 MiB, and at most 256"),
        ([[[claims(MANY, np.float32(0))]]], "a frame has 2288 MiB"),
        (Image.effect_noise((8_001, 8_000), 1), "a picture of 8001x8000"),
        (memoryview(claims(MANY, np.uint8(255))), "a JPEG has 572 MiB, and at most 64"),
        ((np.zeros((8, 8, 3), np.uint8), 2**40), "a frame at 1099511627776; no clip is as long"),
        ((np.zeros((8, 8, 3), np.uint8), 1e15), "no clip is as long as a day"),
    ],
)
def test_what_is_no_picture_is_told(piece: Any, part: str) -> None:
    with grows_by_at_most(8 << 20), pytest.raises((TypeError, ValueError), match=part):
        read_frame(piece, 0, 25)
