"""What a user's generator yields -> bytes: samples as arrays, tensors, bytes or a WAV; pictures as JPEGs."""

import io
import math
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cotenant.errors import ServiceError
from cotenant.tenants.builtin.answers import Frame, SampleFormat, Spoken
from cotenant.tenants.builtin.source import whole_rate
from cotenant.tenants.builtin.telling import shown
from cotenant.units import NS_PER_S
from cotenant.wire.wav import WavDecoder

# What a piece may hold: looked at before it is converted, for a view can claim any size without having it.
PIECE_LIMIT_BYTES: Final = 256 << 20
PICTURE_LIMIT_PIXELS: Final = 64_000_000
JPEG_LIMIT_BYTES: Final = 64 << 20
_JPEG_QUALITY: Final = 80
_BYTES: Final = (bytes, bytearray, memoryview)
_BLOCK_SAMPLES: Final = 1 << 20
# Past a day of any frame rate, and a day.
_INDEX_LIMIT: Final = 10**8
_TIME_LIMIT_S: Final = 24 * 3600


def is_piece(value: object) -> bool:
    """Whether a generator returned one piece instead of many: bytes, an array, a tensor, (samples, rate)."""
    return isinstance(value, (*_BYTES, np.ndarray, tuple)) or hasattr(value, "detach")


class SpeechPieces:
    """The pieces of one utterance, one after another.

    The first rate told stands: the given one, the one of a pair (samples, rate), or that of a WAV.
    """

    def __init__(self, rate_hz: int | None, sample_format: SampleFormat) -> None:
        self._rate_hz, self._format = rate_hz, sample_format
        self._wav: WavDecoder | None = None
        self._begun = False

    def read(self, piece: Any) -> Spoken | None:
        """The samples in the answer's format; None where there are none yet.

        float samples are in [-1, 1]: beyond they are clipped, and as s16 1.0 is 32767. Raises TypeError or
        ValueError with a sentence for what cannot be played.
        """
        if isinstance(piece, tuple):
            if len(piece) != 2:
                raise TypeError(f"a piece is a tuple of {len(piece)}; yield samples or (samples, rate)")
            piece, rate = piece
            self._take_rate(whole_rate(rate, "the rate of a piece"))
        _refuse_size(_claimed_bytes(piece), PIECE_LIMIT_BYTES, "a piece of speech")
        data = self._bytes(bytes(piece)) if isinstance(piece, _BYTES) else self._array(piece)
        if not data:
            return None
        self._begun = True
        if self._rate_hz is None:
            raise ValueError(
                "nothing tells the sample rate: start with --rate 24000, yield (samples, rate) first, or "
                "give the generator an attribute `rate`"
            )
        return Spoken(data=data, rate_hz=self._rate_hz, sample_format=self._format)

    def _take_rate(self, rate_hz: int) -> None:
        if self._rate_hz not in (None, rate_hz):
            raise ValueError(f"a piece says {rate_hz} Hz, and {self._rate_hz} Hz was said before")
        self._rate_hz = rate_hz

    def _bytes(self, data: bytes) -> bytes:
        if self._wav is None and not self._begun and data[:4] == b"RIFF":
            self._wav = WavDecoder()
        if self._wav is None:
            return data
        try:
            samples = self._wav.feed(data)
        except ServiceError as error:
            raise ValueError(f"a WAV that is not played: {error}") from None
        told = self._wav.format
        if told is None:
            return b""
        self._take_rate(told.rate_hz)
        if told.sample_format != self._format:
            raise ValueError(
                f"a WAV of {told.sample_format}; start with --sample-format {told.sample_format}"
            )
        return samples

    def _array(self, piece: Any) -> bytes:
        samples = _on_host(piece)
        _refuse_size(samples.size * 4, PIECE_LIMIT_BYTES, "a piece of speech, as 32-bit floats,")
        if samples.ndim > 1 and samples.size == max(samples.shape):
            samples = samples.reshape(-1)
        if samples.ndim != 1:
            raise ValueError(f"samples of shape {samples.shape}; yield mono, shape (n,)")
        if samples.dtype.kind == "f":
            return self._floats(samples)
        if samples.dtype != np.int16:
            raise TypeError(f"samples of {samples.dtype}; yield int16 or float32")
        if self._format == "f32":
            return (samples.astype("<f4") / np.float32(32768)).tobytes()
        return samples.astype("<i2").tobytes()

    def _floats(self, samples: NDArray[Any]) -> bytes:
        # By blocks: what lies between is several times as large as what comes of it.
        starts = range(0, len(samples), _BLOCK_SAMPLES)
        return b"".join(self._block(samples[start : start + _BLOCK_SAMPLES]) for start in starts)

    def _block(self, samples: NDArray[Any]) -> bytes:
        if not np.isfinite(samples).all():
            raise ValueError("samples that are no numbers (nan or inf)")
        if self._format == "f32":
            return samples.astype("<f4").tobytes()
        scaled: NDArray[np.float64] = np.clip(samples, -1, 1).astype(np.float64) * 32767
        return np.rint(scaled).astype("<i2").tobytes()


def read_frame(piece: Any, number: int, fps: int) -> Frame:
    """A picture as a frame: the `number`-th, unless (picture, index) or (picture, seconds) tells.

    A picture is JPEG bytes, (height, width, 3) bytes as array or tensor, or a PIL image. Raises TypeError or
    ValueError with a sentence.
    """
    place: Any = number
    index, media_time_ns = number, number * NS_PER_S // fps
    if isinstance(piece, tuple):
        if len(piece) != 2 or not isinstance(piece[1], Real) or piece[1] < 0:
            raise TypeError("a frame is a tuple: yield the picture, (picture, index) or (picture, seconds)")
        piece, place = piece
        if isinstance(place, Integral):
            index, media_time_ns = int(place), int(place) * NS_PER_S // fps
        else:
            media_time_ns = round(float(place) * NS_PER_S)
    if index > _INDEX_LIMIT or media_time_ns > _TIME_LIMIT_S * NS_PER_S:
        raise ValueError(f"a frame at {shown(place)}; no clip is as long as a day")
    return Frame(index=index, media_time_ns=media_time_ns, jpeg=_jpeg(piece))


def _jpeg(picture: Any) -> bytes:
    from PIL import Image

    if isinstance(picture, _BYTES):
        _refuse_size(_claimed_bytes(picture), JPEG_LIMIT_BYTES, "a JPEG")
        if bytes(picture[:2]) != b"\xff\xd8":
            raise ValueError("a frame's bytes are no JPEG; yield JPEG bytes, an array or a PIL image")
        return bytes(picture)
    if isinstance(picture, Image.Image):
        _refuse_pixels((picture.height, picture.width))
    else:
        _refuse_pixels(tuple(getattr(picture, "shape", ())))
        _refuse_size(_claimed_bytes(picture), PIECE_LIMIT_BYTES, "a frame")
        pixels = _on_host(picture)
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise ValueError(
                f"a frame of shape {pixels.shape} and {pixels.dtype}; yield (height, width, 3) of uint8, RGB"
            )
        picture = Image.fromarray(np.ascontiguousarray(pixels))
    out = io.BytesIO()
    picture.convert("RGB").save(out, "JPEG", quality=_JPEG_QUALITY)
    return out.getvalue()


def _refuse_size(size_bytes: int, limit_bytes: int, what: str) -> None:
    if size_bytes > limit_bytes:
        limit = f"at most {limit_bytes >> 20} are taken"
        raise ValueError(f"{what} has {size_bytes >> 20} MiB, and {limit}; yield less at once")


def _refuse_pixels(shape: tuple[int, ...]) -> None:
    pixels = math.prod(shape[:2]) if len(shape) > 1 else 0
    if pixels > PICTURE_LIMIT_PIXELS:
        limit = f"at most {PICTURE_LIMIT_PIXELS // 10**6} megapixels are taken"
        raise ValueError(f"a picture of {shape[1]}x{shape[0]}; {limit}")


def _claimed_bytes(value: Any) -> int:
    """What it would take to hold it, as it says itself; 0 where it says nothing."""
    if isinstance(value, list):
        return sum(map(_claimed_bytes, value))
    if hasattr(value, "element_size") and hasattr(value, "numel"):
        floats = value.is_floating_point()  # which become 32-bit ones
        return int(value.numel() * max(value.element_size(), 4 if floats else 0))
    if isinstance(value, bytes | bytearray):
        return len(value)
    return int(value.nbytes) if isinstance(value, memoryview | np.ndarray) else 8


def _on_host(value: Any) -> NDArray[Any]:
    """An array of it; a tensor is known by what it can do, so that torch need not be there."""
    if hasattr(value, "detach"):
        value = value.detach()
        if value.is_floating_point():
            value = value.float()
        value = value.cpu().numpy()
    if isinstance(value, list):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a piece is {type(value).__name__}; yield bytes, a numpy array or a torch tensor")
    return value


def one_by_one(result: Any) -> Iterator[Any]:
    """What a generator gave, as pieces: also of a function that returned one whole."""
    if is_piece(result):
        return iter((result,))
    if result is None or isinstance(result, str) or not hasattr(result, "__iter__"):
        raise TypeError(f"it gave {type(result).__name__}; yield the pieces, or return an iterator of them")
    return iter(result)
