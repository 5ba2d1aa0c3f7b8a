"""WAV headers as servers really stream them."""

import struct

import pytest

from cotenant.errors import ServiceError
from cotenant.wire.wav import WavDecoder

SAMPLES = bytes(range(40))


def wav(
    *,
    data_size: int = 0xFFFFFFFF,
    before: bytes = b"",
    tag: int = 1,
    bits: int = 16,
    channels: int = 1,
    rate_hz: int = 24_000,
    extra: bytes = b"",
) -> bytes:
    fmt = struct.pack("<HHIIHH", tag, channels, rate_hz, rate_hz * bits // 8, bits // 8, bits) + extra
    head = b"RIFF" + struct.pack("<I", 0xFFFFFFFF) + b"WAVE" + b"fmt " + struct.pack("<I", len(fmt)) + fmt
    return head + before + b"data" + struct.pack("<I", data_size)


LIST_CHUNK = b"LIST" + struct.pack("<I", 5) + b"INFOx\0"


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000, 0, 2_000_000_000, len(SAMPLES)])
@pytest.mark.parametrize("before", [b"", LIST_CHUNK], ids=["plain", "list"])
def test_samples_are_the_same_however_the_stream_is_cut(size: int, before: bytes) -> None:
    stream = wav(data_size=size, before=before) + SAMPLES
    for cut in range(len(stream) + 1):
        decoder = WavDecoder()
        assert decoder.feed(stream[:cut]) + decoder.feed(stream[cut:]) == SAMPLES
    decoder = WavDecoder()
    assert b"".join(decoder.feed(stream[i : i + 1]) for i in range(len(stream))) == SAMPLES
    assert decoder.format is not None
    assert (decoder.format.rate_hz, decoder.format.sample_format) == (24_000, "s16")


def test_chunks_after_the_samples_are_no_audio() -> None:
    decoder = WavDecoder()
    assert decoder.feed(wav(data_size=len(SAMPLES)) + SAMPLES + LIST_CHUNK) == SAMPLES
    assert decoder.feed(b"more") == b""


def test_float_and_extensible() -> None:
    decoder = WavDecoder()
    decoder.feed(wav(tag=3, bits=32, rate_hz=22_050))
    assert decoder.format is not None
    assert (decoder.format.rate_hz, decoder.format.sample_format) == (22_050, "f32")
    decoder = WavDecoder()
    decoder.feed(wav(tag=0xFFFE, extra=struct.pack("<HHIH", 22, 16, 0, 1) + bytes(14)))
    assert decoder.format is not None
    assert decoder.format.sample_format == "s16"


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (b"RIFF1234AVI LIST", "not a WAV header"),
        (b"ID3\x04........................", "not a WAV header"),
        (wav(channels=2), "2 channels"),
        (wav(bits=24), "24 bits"),
        (wav(rate_hz=0), "0 Hz"),
        (b"RIFF\0\0\0\0WAVEdata\0\0\0\0", "before their format"),
        (b"RIFF\0\0\0\0WAVEfmt \xff\xff\xff\xff", "fmt chunk"),
        (b"RIFF\0\0\0\0WAVELIST\xff\xff\xff\xff" + bytes(2 << 20), "1 MiB"),
    ],
)
def test_what_cannot_be_played_is_a_protocol_error(stream: bytes, words: str) -> None:
    with pytest.raises(ServiceError, match=words) as caught:
        WavDecoder().feed(stream)
    assert caught.value.kind == "protocol"
