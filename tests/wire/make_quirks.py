"""Writes fixtures/wire/speech/quirks: small answers with what real servers do to clients, and what is right.

`python -m tests.wire.make_quirks`. A test holds the files to what this makes.
"""

import base64
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[2] / "fixtures/wire/speech/quirks"
# 120 samples of 24 kHz: 5 ms, no two bytes alike in a row, none of them a chunk's name.
SAMPLES: Final = struct.pack("<120h", *((37 * i) % 20_011 - 10_000 for i in range(120)))
# 20 ms of them, and of nothing.
VOICED: Final = SAMPLES * 4
SILENCE: Final = bytes(len(VOICED))
EVENTS: Final = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirk:
    """One answer in transfer chunks. `first`: the chunk with the first sample, None where it is refused;
    `first_bytes`: as much of it as the event with that sample takes, None for all."""

    about: str
    type: str | None
    chunks: Sequence[bytes]
    first: int | None
    first_bytes: int | None = None
    samples: bytes = SAMPLES
    rate_hz: int = 24_000
    sample_format: str = "s16"
    refused: str | None = None
    protocol: str = "openai"
    headers: Sequence[str] = ()

    @property
    def response(self) -> bytes:
        """The answer as it stands on the wire."""
        head = ["HTTP/1.1 200 OK", *self.headers]
        head += [] if self.type is None else [f"Content-Type: {self.type}"]
        body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in self.chunks)
        return "\r\n".join([*head, "Transfer-Encoding: chunked", "", ""]).encode() + body + b"0\r\n\r\n"

    @property
    def first_at(self) -> int:
        """Bytes of the answer up to the end of the first message with a sample."""
        assert self.first is not None
        at = self.response.index(b"\r\n\r\n") + 4
        for chunk in self.chunks[: self.first + 1]:
            at += len(b"%x\r\n" % len(chunk)) + len(chunk) + 2
        return at - 2 - (0 if self.first_bytes is None else len(self.chunks[self.first]) - self.first_bytes)


def wav(size: int, *, riff: int | None = None, before: bytes = b"", fmt: bytes | None = None) -> bytes:
    """A header up to the first sample."""
    fmt = fmt or struct.pack("<HHIIHH", 1, 1, 24_000, 48_000, 2, 16)
    riff = riff if riff is not None else min(size + 36, 0xFFFFFFFF)
    head = b"RIFF" + struct.pack("<I", riff) + b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt
    return head + before + b"data" + struct.pack("<I", size)


def chunk(name: bytes, data: bytes) -> bytes:
    """A RIFF chunk, padded."""
    return name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def delta(data: bytes, key: str = "audio", **fields: str) -> bytes:
    """One event of audio."""
    value = {"type": "speech.audio.delta", key: base64.b64encode(data).decode(), **fields}
    return b"event: speech.audio.delta\ndata: " + json.dumps(value).encode() + b"\n\n"


DONE: Final = b'event: speech.audio.done\ndata: {"type":"speech.audio.done","usage":{"total_tokens":9}}\n\n'
_HALVES: Final = (SAMPLES[:100], SAMPLES[100:])
_LIST: Final = chunk(b"LIST", b"INFOISFT" + struct.pack("<I", 5) + b"Lavf\0\0")
_C2PA: Final = chunk(b"C2PA", bytes(range(200)))
_FLOATS: Final = struct.pack("<60f", *(i / 60 for i in range(60)))
_EXTENSIBLE: Final = struct.pack("<HHIIHHHHI", 0xFFFE, 1, 24_000, 48_000, 2, 16, 22, 16, 4) + (
    struct.pack("<H", 1) + bytes.fromhex("000000001000800000aa00389b71")
)


def _odd(*sizes: int) -> list[bytes]:
    found, at = [], 0
    for size in sizes:
        found.append(SAMPLES[at : at + size])
        at += size
    return [*found, SAMPLES[at:]]


QUIRKS: Final[dict[str, Quirk]] = {
    "raw-where-events-were-asked": Quirk(
        about="a server that ignores stream_format: read by the content type, never by what was asked",
        type="audio/pcm", chunks=_HALVES, first=0, protocol="vllm-omni-sse",
    ),
    "events-where-raw-was-asked": Quirk(
        about="a server whose stream: true means events",
        type=EVENTS, chunks=[delta(_HALVES[0]), delta(_HALVES[1]), DONE], first=0, protocol="vllm-omni",
    ),
    "odd-chunks": Quirk(
        about="chunks that cut samples: the odd byte belongs to the next chunk",
        type="audio/pcm", chunks=_odd(63, 17, 1, 41), first=0,
    ),
    "one-byte-first": Quirk(
        about="a first chunk of one byte holds no sample",
        type="audio/pcm", chunks=_odd(1, 99), first=1,
    ),
    "odd-silence": Quirk(
        about="an odd number of silent bytes between sentences: the server's fault, heard as noise, no crash",
        type="audio/pcm", chunks=[_HALVES[0], bytes(7), _HALVES[1]], first=0,
        samples=(_HALVES[0] + bytes(7) + _HALVES[1])[:-1],
    ),
    "silence-frames-between-chunks": Quirk(
        about="gaps of a slow engine filled with 10 to 20 ms of silence: samples like others, the first too",
        type="audio/pcm", chunks=[SILENCE, SILENCE, VOICED, SILENCE[:480], SILENCE[:720], VOICED], first=0,
        samples=SILENCE * 2 + VOICED + bytes(1200) + VOICED,
    ),
    "header-of-its-own-chunk": Quirk(
        about="a WAV header sent before anything is spoken is no audio: TTFA is the next chunk's",
        type="audio/wav", chunks=[wav(0xFFFFFFFF, riff=0xFFFFFFFF), *_HALVES], first=1,
    ),
    "header-in-three-chunks": Quirk(
        about="a header written field by field",
        type="audio/wav", chunks=[wav(2_000_000_000)[:4], wav(2_000_000_000)[4:40],
                                  wav(2_000_000_000)[40:], SAMPLES], first=3,
    ),
    "header-and-samples-in-one-chunk": Quirk(
        about="the first chunk has header and samples",
        type="audio/wav", chunks=[wav(0xFFFFFFFF) + _HALVES[0], _HALVES[1]], first=0,
    ),
    "header-of-68-bytes": Quirk(
        about="an extensible format: the header is not 44 bytes long",
        type="audio/wav", chunks=[wav(0xFFFFFFFF, fmt=_EXTENSIBLE), SAMPLES], first=1,
    ),
    "list-before-the-samples": Quirk(
        about="chunks between format and samples",
        type="audio/x-wav", chunks=[wav(0xFFFFFFFF, before=_LIST + chunk(b"fact", bytes(4))) + SAMPLES],
        first=0,
    ),
    "sizes-0": Quirk(
        about="a writer that patches its header at the close: sizes 0",
        type="audio/wav", chunks=[wav(0, riff=36), *_HALVES], first=1,
    ),
    "sizes-7ffff000": Quirk(
        about="espeak-ng --stdout",
        type="audio/wav", chunks=[wav(0x7FFFF000, riff=0x7FFFF024) + SAMPLES], first=0,
    ),
    "sizes-7fffffff": Quirk(
        about="the largest signed size",
        type="audio/wav", chunks=[wav(0x7FFFFFFF, riff=0x7FFFFFFF), SAMPLES], first=1,
    ),
    "sizes-two-billion": Quirk(
        about="a billion frames told, few sent",
        type="audio/wav", chunks=[wav(2_000_000_000), *_HALVES], first=1,
    ),
    "trailers-behind-true-sizes": Quirk(
        about="LIST and C2PA behind the samples: no click at the end",
        type="audio/wav", chunks=[wav(len(SAMPLES)), SAMPLES[:30], SAMPLES[30:] + _LIST + _C2PA], first=1,
    ),
    "trailers-behind-unknown-sizes": Quirk(
        about="the same as a chunk of their own, where the header told no size",
        type="audio/wav", chunks=[wav(0xFFFFFFFF), SAMPLES, _LIST + _C2PA], first=1,
    ),
    "a-header-in-every-chunk": Quirk(
        about="each chunk a whole WAV file with its true size",
        type="audio/wav", chunks=[wav(len(half)) + half for half in _HALVES], first=0,
    ),
    "an-endless-header-in-every-chunk": Quirk(
        about="each chunk a header without a size, and samples",
        type="audio/wav", chunks=[wav(0xFFFFFFFF) + half for half in _HALVES], first=0,
    ),
    "a-header-in-every-chunk-called-pcm": Quirk(
        about="LINEAR16 that is WAV, chunk by chunk",
        type="audio/pcm", chunks=[wav(len(half)) + half for half in _HALVES], first=0,
    ),
    "wav-without-a-header": Quirk(
        about="called WAV, but raw (add_wav_header off)",
        type="audio/wav", chunks=_HALVES, first=0,
    ),
    "no-content-type": Quirk(about="nothing is told", type=None, chunks=_HALVES, first=0),
    "rate-in-the-type": Quirk(
        about="the rate beside the content type", type="audio/pcm;rate=16000;channels=1", chunks=_HALVES,
        first=0, rate_hz=16_000,
    ),
    "rate-in-headers": Quirk(
        about="SGLang-Omni's headers", type="audio/pcm", chunks=_HALVES, first=0, rate_hz=44_100,
        headers=("X-Sample-Rate: 44100", "X-Channels: 1", "X-Bit-Depth: 16"), protocol="sglang-omni",
    ),
    "floats": Quirk(
        about="32-bit floats as CosyVoice's /stream/ sends them", type=None,
        chunks=[_FLOATS[:42], _FLOATS[42:]], first=0, samples=_FLOATS, rate_hz=22_050, sample_format="f32",
        headers=("X-Custom-Header-sampleRate: 22050",), protocol="cosyvoice-f32",
    ),
    "floats-in-wav": Quirk(
        about="a WAV of floats", type="audio/wav", samples=_FLOATS, sample_format="f32", first=1,
        chunks=[wav(0xFFFFFFFF, fmt=struct.pack("<HHIIHH", 3, 1, 24_000, 96_000, 4, 32)), _FLOATS],
    ),
    "events-that-cut-samples": Quirk(
        about="base64 pieces of odd length, line ends of two bytes, comments, the other field's name",
        type=EVENTS, first=0,
        chunks=[b": ping\r\n\r\n" + delta(SAMPLES[:7]).replace(b"\n", b"\r\n"), delta(SAMPLES[7:90], "delta"),
                delta(SAMPLES[90:]), b"data: [DONE]\n\n"],
    ),
    "events-with-a-header-of-their-own": Quirk(
        about="SSE of WAV: the header is the first delta",
        type=EVENTS, first=1,
        chunks=[delta(wav(0xFFFFFFFF), response_format="wav"), delta(SAMPLES, response_format="wav"), DONE],
    ),
    "events-not-at-chunk-ends": Quirk(
        about="two events in one transfer chunk, one over two",
        type=EVENTS, first=0, first_bytes=len(delta(SAMPLES[:60])),
        chunks=[delta(SAMPLES[:60]) + delta(SAMPLES[60:120])[:50], delta(SAMPLES[60:120])[50:],
                delta(SAMPLES[120:]) + DONE],
    ),
    "an-error-among-events": Quirk(
        about="status 200, then an error with partial audio", type=EVENTS, first=0, refused="in_stream",
        samples=_HALVES[0],
        chunks=[delta(_HALVES[0]),
                b'data: {"type":"speech.audio.error","error":{"message":"OOM"}}\n\n'],
    ),
    "mp3": Quirk(
        about="compressed: refused, with what to ask for", type="audio/mpeg", first=None, refused="protocol",
        chunks=[b"ID3\4\0\0\0\0\0\0"], samples=b"",
    ),
    "mp3-called-wav": Quirk(
        about="compressed, whatever it is called", type="audio/wav", first=None, refused="protocol",
        chunks=[bytes.fromhex("fff364c4") + bytes(60)], samples=b"",
    ),
    "opus": Quirk(
        about="compressed", type="application/octet-stream", first=None, refused="protocol",
        chunks=[b"OggS\0\2" + bytes(40)], samples=b"",
    ),
    "flac-in-events": Quirk(
        about="compressed", type=EVENTS, first=None, refused="protocol",
        chunks=[delta(b"fLaC", response_format="flac")], samples=b"",
    ),
    "24-bits": Quirk(
        about="a depth that is not played", type="audio/wav", first=None, refused="protocol", samples=b"",
        chunks=[wav(0, fmt=struct.pack("<HHIIHH", 1, 1, 24_000, 72_000, 3, 24)), bytes(60)],
    ),
}  # fmt: skip


def main() -> None:
    """Writes them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, quirk in QUIRKS.items():
        (FOLDER / f"{name}.http").write_bytes(quirk.response)


if __name__ == "__main__":
    main()
