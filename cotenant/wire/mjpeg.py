"""MJPEG over HTTP: the parts of a multipart/x-mixed-replace answer, incrementally, payloads dropped."""

import contextlib
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cotenant.errors import ServiceError
from cotenant.units import NS_PER_S
from cotenant.wire.frames import FrameHeader
from cotenant.wire.multipart import boundary_of, length_of, patterns, type_of

_HEAD_LIMIT_BYTES: Final = 64 << 10
_PREAMBLE_LIMIT_BYTES: Final = 1 << 20
_PICTURE_LIMIT_BYTES: Final = 64 << 20
_DELIMITER_LIMIT_BYTES: Final = 512
_JPEG: Final = b"\xff\xd8"
_JPEG_END: Final = b"\xff\xd9"
_JPEG_TYPES: Final = ("image/jpeg", "image/jpg")
_DAY_S: Final = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A whole part; `arrival_ns` is the stamp of the read that held the picture's last byte."""

    header: FrameHeader
    arrival_ns: int


class MjpegDecoder:
    """Bytes -> pictures. `ended`: the closing delimiter came. `fault`: why nothing more can come.

    A part's end is its Content-Length, without one the next delimiter; a part that is no image is none of the
    pictures. A picture's time is its number at `fps`, or the seconds in its header `time_header` since the
    first one's. A boundary may stand in the Content-Type with the dashes of its lines, or be missing: then
    the first line is one.
    """

    def __init__(self, content_type: str, *, fps: int, time_header: str | None = None) -> None:
        """Raises ServiceError("protocol") for another type of answer."""
        self.ended = False
        self.fault: ServiceError | None = None
        self._fps, self._time_header = fps, time_header.lower() if time_header is not None else None
        self._buffer = bytearray()
        self._reads: deque[tuple[int, int]] = deque()  # (offset behind it, arrival)
        self._offset = 0  # of the buffer's first byte
        self._skipped_bytes = 0  # of what is no picture, since the last delimiter
        self._delimiter_re, self._end_re = patterns(boundary_of(content_type))
        self._head: dict[str, str] | None = None  # of the part whose header is being read
        self._head_bytes = 0
        self._left_bytes: int | None = None
        self._body_bytes: int | None = None  # so many of the picture have gone; None outside of one
        self._number = 0
        self._first_s: float | None = None

    def feed(self, data: bytes, arrival_ns: int) -> list[Picture]:
        """The pictures that are whole with this read.

        Raises ServiceError("protocol") whose `offset` is the byte of the body up to which it had read; where
        pictures were whole before it, they are returned, and it is in `fault` and raised by the next call.
        """
        if self.fault is not None:
            raise self.fault
        if self.ended or not data:
            return []
        self._buffer += data
        self._reads.append((self._offset + len(self._buffer), arrival_ns))
        pictures: list[Picture] = []
        try:
            with self._located():
                while not self.ended and self._step(pictures):
                    pass
        except ServiceError as error:
            self.fault = error
            if not pictures:
                raise
        return pictures

    def close(self) -> list[Picture]:
        """The last picture of an answer that ended behind it without a delimiter. Raises as `feed` does."""
        if self.fault is not None:
            raise self.fault
        if self._body_bytes is None or self._left_bytes is not None or self.ended:
            return []
        rest = bytes(self._buffer).rstrip(b"\r\n")
        if not rest.endswith(_JPEG_END):
            return []
        pictures: list[Picture] = []
        with self._located():
            self._whole(pictures, len(rest))
        self.ended = True
        return pictures

    @contextlib.contextmanager
    def _located(self) -> Iterator[None]:
        """Adds to a ServiceError where in the body it arose."""
        try:
            yield
        except ServiceError as error:
            error.offset = self._offset
            raise

    def _step(self, pictures: list[Picture]) -> bool:
        """Takes one thing off the buffer; False when more is needed."""
        if self._body_bytes is not None:
            return self._body(pictures)
        end = self._buffer.find(b"\n")
        if end < 0:
            if len(self._buffer) > _HEAD_LIMIT_BYTES:
                raise ServiceError("protocol", "a line of more than 64 KiB between two pictures")
            # The closing delimiter may be the last that comes, without a line end.
            return self._closing()
        line = bytes(self._buffer[:end]).rstrip(b"\r")
        self._take(end + 1)
        if self._head is None:
            self._between(line)
        else:
            self._header(line)
        return True

    def _closing(self) -> bool:
        found = self._delimiter_re.fullmatch(bytes(self._buffer)) if self._head is None else None
        self.ended = found is not None and bool(found["close"])
        return False

    def _between(self, line: bytes) -> None:
        """A line outside of parts: a delimiter, or what is skipped."""
        found = self._delimiter_re.fullmatch(line)
        if found is None:
            self._skipped_bytes += len(line) + 1
            if self._skipped_bytes > _PREAMBLE_LIMIT_BYTES:
                raise ServiceError("protocol", "1 MiB without the boundary that the Content-Type names")
            return
        if found["core"] and self._end_re is None:
            self._delimiter_re, self._end_re = patterns(found["core"].decode("latin-1"))
        self._skipped_bytes = 0
        if found["close"]:
            self.ended = True
        else:
            self._head, self._head_bytes = {}, 0

    def _header(self, line: bytes) -> None:
        assert self._head is not None
        self._head_bytes += len(line)
        if self._head_bytes > _HEAD_LIMIT_BYTES:
            raise ServiceError("protocol", "a part's header of more than 64 KiB")
        if line:
            name, _, value = line.decode("latin-1").partition(":")
            self._head[name.strip().lower()] = value.strip()
            return
        self._body_bytes, self._left_bytes = 0, length_of(self._head, most=_PICTURE_LIMIT_BYTES)

    def _body(self, pictures: list[Picture]) -> bool:
        assert self._body_bytes is not None
        if not self._body_bytes and not self._begins():
            return False
        if self._left_bytes is not None:
            size = min(self._left_bytes, len(self._buffer))
            if size == self._left_bytes:
                self._whole(pictures, size)
                return True
            self._left_bytes -= size
            self._drop(size)
            return False
        end = self._delimiter()
        if end is not None:
            self._whole(pictures, end)
            return True
        self._drop(max(0, len(self._buffer) - _DELIMITER_LIMIT_BYTES))
        if self._body_bytes > _PICTURE_LIMIT_BYTES:
            raise ServiceError("protocol", "64 MiB without the boundary that the Content-Type names")
        return False

    def _delimiter(self) -> int | None:
        """Where in the buffer a picture ends that a delimiter follows."""
        assert self._end_re is not None
        at = -1
        while (at := self._buffer.find(b"\n--", at + 1)) >= 0:
            if self._end_re.match(self._buffer, at + 1):
                return at - (at > 0 and self._buffer[at - 1 : at] == b"\r")
        return None

    def _begins(self) -> bool:
        """Looks at a picture's first bytes; False when they are not there yet."""
        assert self._head is not None
        if type_of(self._head) not in _JPEG_TYPES or self._left_bytes == 0:
            return True
        if len(self._buffer) < len(_JPEG):
            return False
        if not self._buffer.startswith(_JPEG):
            raise ServiceError("protocol", f"a part that is no JPEG: {bytes(self._buffer[:16])!r}")
        return True

    def _drop(self, size: int) -> None:
        assert self._body_bytes is not None
        self._body_bytes += size
        self._take(size)

    def _take(self, size: int) -> None:
        del self._buffer[:size]
        self._offset += size
        while self._reads and self._reads[0][0] < self._offset:
            self._reads.popleft()

    def _whole(self, pictures: list[Picture], size: int) -> None:
        """The picture ends `size` bytes into the buffer."""
        assert self._body_bytes is not None
        assert self._head is not None
        end, payload_bytes = self._offset + size, self._body_bytes + size
        arrival_ns = next(arrival for behind, arrival in self._reads if behind >= end)
        if payload_bytes and type_of(self._head).startswith("image/"):
            header = FrameHeader(
                index=self._number, media_time_ns=self._media_ns(), payload_bytes=payload_bytes
            )
            pictures.append(Picture(header=header, arrival_ns=arrival_ns))
            self._number += 1
        self._take(size)
        self._head, self._body_bytes, self._left_bytes = None, None, None

    def _media_ns(self) -> int:
        assert self._head is not None
        if self._time_header is None:
            return self._number * NS_PER_S // self._fps
        told = self._head.get(self._time_header, "")
        try:
            at_s = float(told)
        except ValueError:
            at_s = math.nan
        if self._first_s is None:
            self._first_s = at_s
        since_s = at_s - self._first_s
        if not 0 <= since_s <= _DAY_S:
            raise ServiceError("protocol", f"a picture's {self._time_header} is {told[:40]!r}, no later time")
        return round(since_s * NS_PER_S)
