"""Compressed audio is refused by its first bytes, whatever it is called and however it is cut."""

from typing import Final

import pytest

from cotenant.errors import ServiceError
from cotenant.wire.http1 import Body, Head
from cotenant.wire.samples import SampleDecoder
from cotenant.wire.speech import WAV_TYPES, Audio, SpeechDecoder

BEGINNINGS: Final = {
    "mp3 with tags": (b"ID3\4\0\0\0\0\0\0", "mp3"),
    "mp3": (bytes.fromhex("fffb9064"), "mp3"),
    "mp3 of MPEG-2": (bytes.fromhex("fff364c4"), "mp3"),
    "mp3 of MPEG-2.5 with a checksum": (bytes.fromhex("ffe26000"), "mp3"),
    "mp3 of a free bitrate": (bytes.fromhex("fffb0000"), "mp3"),
    "half an mp3's header": (bytes.fromhex("fffbfffb"), "mp3"),
    "aac": (bytes.fromhex("fff15080"), "aac"),
    "aac with a checksum": (bytes.fromhex("fff85080"), "aac"),
    "ogg": (b"OggS\0\2", "ogg or opus"),
    "flac": (b"fLaC\0\0\0\x22", "flac"),
    "webm": (b"\x1aE\xdf\xa3\x01", "webm"),
}


def head(content_type: str) -> Head:
    return Head(status=200, headers={"content-type": content_type}, chunked=True)


def heard(content_type: str, body: bytes, piece_bytes: int) -> tuple[bytes, ServiceError | None]:
    """The samples of a body in messages of that size, and the error it ended in."""
    decoder = SpeechDecoder(head(content_type), rate_hz=24_000, sample_format="s16")
    samples = b""
    for at in range(0, len(body), piece_bytes):
        for event in decoder.feed(Body(data=body[at : at + piece_bytes], closes=True, after_bytes=0)):
            if isinstance(event, ServiceError):
                return samples, event
            if isinstance(event, Audio):
                samples += event.data
    return samples, None


@pytest.mark.parametrize("content_type", WAV_TYPES)
@pytest.mark.parametrize("name", BEGINNINGS)
def test_in_place_of_a_wav(name: str, content_type: str) -> None:
    begins, called = BEGINNINGS[name]
    for piece_bytes in (1, 2, 3, 5, 100):
        samples, error = heard(content_type, begins + bytes(range(90)), piece_bytes)
        assert samples == b""
        assert error is not None, piece_bytes
        assert (error.kind, error.offset is not None) == ("protocol", True)
        assert str(error).startswith(f"the answer is {called}, which is compressed")
        assert "ask for pcm or wav, as with `extra: {response_format: pcm}`" in str(error)


@pytest.mark.parametrize(
    "begins", [b"\xff\xfb\x00\x00", b"\xff\xfb\xff\xfb", b"\xff\xff", b"\xfb\xff\x90\x00"]
)
@pytest.mark.parametrize("content_type", ["audio/pcm", "application/octet-stream", "audio/wav"])
def test_samples_that_look_alike_are_samples(begins: bytes, content_type: str) -> None:
    """-1025 is a sample as any other; only where a WAV was promised it is taken for what it looks like."""
    body = begins + bytes(96)
    for piece_bytes in (1, 2, 3, 100):
        samples, error = heard(content_type, body, piece_bytes)
        if content_type == "audio/wav" and begins[:2] == b"\xff\xfb":
            assert (samples, str(error)[:17]) == (b"", "the answer is mp3")
        else:
            assert (samples, error) == (body, None)


def test_an_mp3_that_is_called_pcm_is_what_it_is_called() -> None:
    decoder = SampleDecoder(rate_hz=24_000, sample_format="s16", raw_is_sure=True)
    assert decoder.feed(bytes.fromhex("fffb9064")) == bytes.fromhex("fffb9064")
