"""An answer that is refused by its head went wrong at its first byte."""

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from cotenant.errors import ServiceError
from cotenant.wire.completions import CompletionDecoder
from cotenant.wire.http1 import Head
from cotenant.wire.mjpeg import MjpegDecoder
from cotenant.wire.speech import SpeechDecoder

SSE: Final = "text/event-stream"


def head(headers: Mapping[str, str]) -> Head:
    return Head(status=200, headers=headers, chunked=True)


def speech(headers: Mapping[str, str]) -> object:
    return SpeechDecoder(head(headers), rate_hz=24_000, sample_format=None)


def llm(headers: Mapping[str, str]) -> object:
    return CompletionDecoder(head(headers))


def mjpeg(headers: Mapping[str, str]) -> object:
    return MjpegDecoder(headers["content-type"], fps=25)


@pytest.mark.parametrize(
    ("decoder", "headers"),
    [
        (speech, {"content-type": "text/html"}),
        (speech, {"content-type": "audio/mpeg"}),
        (speech, {"content-type": "audio/pcm", "content-encoding": "gzip"}),
        (speech, {"content-type": "audio/pcm;channels=2"}),
        (speech, {"content-type": "audio/pcm", "x-bit-depth": "32"}),
        (llm, {"content-type": "application/json"}),
        (llm, {"content-type": SSE, "content-encoding": "br"}),
        (mjpeg, {"content-type": "video/mp4"}),
    ],
)
def test_a_head_that_is_refused(
    decoder: Callable[[Mapping[str, str]], object], headers: Mapping[str, str]
) -> None:
    with pytest.raises(ServiceError) as caught:
        decoder(headers)
    assert (caught.value.kind, caught.value.offset) == ("protocol", 0)
