"""WAV as it is streamed: a header cut anywhere, placeholder sizes, other chunks, one file after another."""

import struct
from dataclasses import dataclass
from typing import Final

from cotenant.errors import ServiceError
from cotenant.wire.pcm import is_rate

_HEADER_LIMIT_BYTES: Final = 1 << 20
_RIFF_BYTES: Final = 12
# From here on a size is a placeholder of a writer that did not know it (0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000);
# so is 0, which a writer that patches the header at its close leaves there.
_PLACEHOLDER_FROM: Final = 0x7FFF0000
_FORMATS: Final = {(1, 16): "s16", (3, 32): "f32"}
_TAGS: Final = {1: "PCM", 3: "float", 6: "A-law", 7: "mu-law", 0x11: "ADPCM", 0x55: "mp3"}
_EXTENSIBLE: Final = 0xFFFE
# Chunks that writers put behind the samples; one that comes as a message of its own is told by its name.
_TRAILERS: Final = (b"LIST", b"C2PA", b"id3 ", b"ID3 ", b"bext", b"fact", b"cue ", b"JUNK", b"PAD ", b"iXML")


@dataclass(frozen=True, slots=True, kw_only=True)
class WavFormat:
    """`sample_format` is `s16` or `f32`, little endian, one channel."""

    rate_hz: int
    sample_format: str


class WavDecoder:
    """Bytes of a WAV stream -> the bytes of its data chunks. `format` is None until a header is complete.

    A whole file may follow a whole file (servers that put a header before every piece). Where the size of the
    samples is a placeholder only the caller can see such a header: at the start of a message, by
    `begins_header`, whereupon it calls `restart`.

    `feed` raises ServiceError("protocol") for what is not WAV or cannot be played.
    """

    def __init__(self) -> None:
        self.format: WavFormat | None = None
        self._buffer = bytearray()
        self._riff_seen = False
        self._skip_bytes = 0
        self._data_bytes = 0
        self._left_bytes: int | None = None
        self._in_data = False
        self._file_has_format = False
        self._samples_seen = False
        self._header_bytes = 0
        self._offset = 0

    def feed(self, data: bytes) -> bytes:
        """The sample bytes in `data`, cut where it was cut."""
        self._buffer += data
        samples = bytearray()
        while True:
            if not self._in_data and not self._header_complete():
                return bytes(samples)
            if self._left_bytes is None:
                samples += self._buffer
                self._take(len(self._buffer))
                return bytes(samples)
            piece_bytes = min(self._left_bytes, len(self._buffer))
            samples += self._buffer[:piece_bytes]
            self._take(piece_bytes)
            self._left_bytes -= piece_bytes
            if self._left_bytes:
                return bytes(samples)
            # What follows is other chunks, or the next file.
            self._in_data, self._skip_bytes = False, self._data_bytes % 2

    def restart(self) -> None:
        """What comes next is the header of another file; the samples of this one are over."""
        self._riff_seen = self._in_data = False
        self._skip_bytes = 0
        self._buffer.clear()

    def _header_complete(self) -> bool:
        """Takes whole chunk headers off the buffer until a data chunk begins."""
        if not self._riff_complete():
            return False
        while True:
            skipped = min(self._skip_bytes, len(self._buffer))
            self._take(skipped)
            self._skip_bytes -= skipped
            self._header_bytes += skipped
            if self._header_bytes > _HEADER_LIMIT_BYTES and not self._samples_seen:
                raise self._error("a WAV header of more than 1 MiB")
            if self._skip_bytes or len(self._buffer) < 8:
                return False
            name, size_bytes = struct.unpack_from("<4sI", self._buffer)
            if self._samples_seen and name == b"RIFF":
                self._riff_seen = False
                if not self._riff_complete():
                    return False
                continue
            if name == b"data":
                self._begin_data(size_bytes)
                return True
            if not self._chunk_complete(name, size_bytes):
                return False
            self._take(8)
            self._header_bytes += 8
            # Chunks are padded to even lengths.
            self._skip_bytes = size_bytes + size_bytes % 2

    def _chunk_complete(self, name: bytes, size_bytes: int) -> bool:
        """Looks at a chunk that is no data; False where more of it is needed."""
        if self._samples_seen and any(name) and not (name.isascii() and name.decode().isprintable()):
            raise self._error(
                f"the WAV header told {self._data_bytes} bytes of samples; more came, and that is no chunk"
            )
        if name != b"fmt ":
            return True
        if size_bytes < 16 or size_bytes > 1024:
            raise self._error(f"a WAV fmt chunk of {size_bytes} bytes")
        if len(self._buffer) < 8 + size_bytes:
            return False
        self._take_format(bytes(self._buffer[8 : 8 + size_bytes]))
        return True

    def _begin_data(self, size_bytes: int) -> None:
        if not self._file_has_format:
            raise self._error("the WAV samples begin before their format is told")
        self._take(8)
        self._data_bytes = size_bytes
        self._left_bytes = size_bytes if 0 < size_bytes < _PLACEHOLDER_FROM else None
        self._in_data = self._samples_seen = True

    def _riff_complete(self) -> bool:
        if self._riff_seen:
            return True
        if len(self._buffer) < _RIFF_BYTES:
            return False
        head = bytes(self._buffer[:_RIFF_BYTES])
        if head[:4] not in (b"RIFF", b"RF64") or head[8:] != b"WAVE":
            raise self._error(f"not a WAV header: {head!r}")
        self._take(_RIFF_BYTES)
        self._riff_seen, self._file_has_format, self._header_bytes = True, False, 0
        return True

    def _take_format(self, chunk: bytes) -> None:
        found = self._read_format(chunk)
        if self.format is not None and found != self.format:
            raise self._error(
                f"the samples change from {self.format.rate_hz} Hz {self.format.sample_format} to "
                f"{found.rate_hz} Hz {found.sample_format} within one answer"
            )
        self.format = found
        self._file_has_format = True

    def _read_format(self, chunk: bytes) -> WavFormat:
        tag, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
        if tag == _EXTENSIBLE and len(chunk) >= 26:
            tag = struct.unpack_from("<H", chunk, 24)[0]
        sample_format = _FORMATS.get((tag, bits))
        if sample_format is None:
            raise self._error(
                f"WAV of format {_TAGS.get(tag, tag)} with {bits} bits a sample; 16-bit PCM and 32-bit float "
                "are played: let the server send one of them"
            )
        if channels != 1:
            raise self._error(f"WAV with {channels} channels; only mono is played")
        if not is_rate(rate_hz):
            raise self._error(f"a WAV sample rate of {rate_hz} Hz")
        return WavFormat(rate_hz=rate_hz, sample_format=sample_format)

    def _take(self, count: int) -> None:
        del self._buffer[:count]
        self._offset += count

    def _error(self, message: str) -> ServiceError:
        return ServiceError("protocol", message, offset=self._offset)


def begins_header(message: bytes) -> bool:
    """Whether a message begins as a WAV file does; samples do that once in 2^64 messages."""
    return message[:4] == b"RIFF" and message[8:_RIFF_BYTES] == b"WAVE"


def is_trailer(message: bytes) -> bool:
    """Whether a message is nothing but chunks as they stand behind the samples (LIST, C2PA ...)."""
    at = 0
    while at + 8 <= len(message):
        name, size_bytes = struct.unpack_from("<4sI", message, at)
        if name not in _TRAILERS:
            return False
        at += 8 + size_bytes + size_bytes % 2
    # The last one's padding may be missing.
    return at > 0 and at - len(message) in (0, 1)
