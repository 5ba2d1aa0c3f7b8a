"""WAV as it is streamed: a header cut anywhere, placeholder sizes, chunks before and after the samples."""

import struct
from dataclasses import dataclass
from typing import Final

from cotenant.errors import ServiceError
from cotenant.wire.pcm import is_rate

_HEADER_LIMIT_BYTES: Final = 1 << 20
# From here on a size is a placeholder of a writer that did not know it (0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000);
# so is 0, which a writer that patches the header at its close leaves there.
_PLACEHOLDER_FROM: Final = 0x7FFF0000
_FORMATS: Final = {(1, 16): "s16", (3, 32): "f32"}
_EXTENSIBLE: Final = 0xFFFE


@dataclass(frozen=True, slots=True, kw_only=True)
class WavFormat:
    """`sample_format` is `s16` or `f32`, little endian, one channel."""

    rate_hz: int
    sample_format: str


class WavDecoder:
    """Bytes of a WAV stream -> the bytes of its data chunk. `format` is None until the header is complete.

    `feed` raises ServiceError("protocol") for what is not WAV or cannot be played.
    """

    def __init__(self) -> None:
        self.format: WavFormat | None = None
        self._buffer = bytearray()
        self._riff_seen = False
        self._skip_bytes = 0
        self._left_bytes: int | None = None
        self._in_data = False
        self._offset = 0

    def feed(self, data: bytes) -> bytes:
        """The sample bytes in `data`, cut where it was cut."""
        if not self._in_data:
            self._buffer += data
            if not self._header_complete():
                return b""
            data = bytes(self._buffer)
            self._buffer.clear()
        if self._left_bytes is None:
            return data
        # Chunks after the samples (LIST, C2PA) are no audio.
        samples = data[: self._left_bytes]
        self._left_bytes -= len(samples)
        return samples

    def _header_complete(self) -> bool:
        """Takes whole chunk headers off the buffer until the data chunk begins."""
        if not self._riff_complete():
            return False
        while True:
            skipped = min(self._skip_bytes, len(self._buffer))
            self._take(skipped)
            self._skip_bytes -= skipped
            if self._offset > _HEADER_LIMIT_BYTES:
                raise self._error("a WAV header of more than 1 MiB")
            if self._skip_bytes or len(self._buffer) < 8:
                return False
            name, size_bytes = struct.unpack_from("<4sI", self._buffer)
            if name == b"data":
                if self.format is None:
                    raise self._error("the WAV samples begin before their format is told")
                self._take(8)
                self._left_bytes = size_bytes if 0 < size_bytes < _PLACEHOLDER_FROM else None
                self._in_data = True
                return True
            if name == b"fmt ":
                if size_bytes < 16 or size_bytes > 1024:
                    raise self._error(f"a WAV fmt chunk of {size_bytes} bytes")
                if len(self._buffer) < 8 + size_bytes:
                    return False
                self.format = self._read_format(bytes(self._buffer[8 : 8 + size_bytes]))
            self._take(8)
            # Chunks are padded to even lengths.
            self._skip_bytes = size_bytes + size_bytes % 2

    def _riff_complete(self) -> bool:
        if self._riff_seen:
            return True
        if len(self._buffer) < 12:
            return False
        head = bytes(self._buffer[:12])
        if head[:4] not in (b"RIFF", b"RF64") or head[8:] != b"WAVE":
            raise self._error(f"not a WAV header: {head!r}")
        self._take(12)
        self._riff_seen = True
        return True

    def _read_format(self, chunk: bytes) -> WavFormat:
        tag, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
        if tag == _EXTENSIBLE and len(chunk) >= 26:
            tag = struct.unpack_from("<H", chunk, 24)[0]
        sample_format = _FORMATS.get((tag, bits))
        if sample_format is None:
            raise self._error(
                f"WAV format {tag} with {bits} bits; only 16-bit PCM and 32-bit float are played"
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
