"""Server-sent events, incrementally (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

import re
from dataclasses import dataclass
from typing import Final

from cotenant.errors import ServiceError

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BOM: Final = b"\xef\xbb\xbf"
# Of one line, and of the lines of one event together.
_LIMIT_BYTES: Final = 64 << 20
_LINE_COST_BYTES: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class SseEvent:
    """One event; `name` is "message" where none was given, `after_bytes` what followed it in its piece."""

    name: str
    data: bytes
    after_bytes: int


class SseDecoder:
    """Bytes -> events; comments, ids and retry times are skipped, an event without data is none."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._skip_newline = False
        self._first_line = True
        self._name = b""
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that are complete with `data`. Raises ServiceError("protocol") for an endless one."""
        events: list[SseEvent] = []
        if self._skip_newline and data:
            # The second half of a line end that was cut between CR and LF.
            self._skip_newline = False
            if data[:1] == b"\n":
                data = data[1:]
        buffer = self._buffer
        buffer += data
        start = 0
        while match := _LINE_END.search(buffer, max(start, self._scanned)):
            line, start = bytes(buffer[start : match.start()]), match.end()
            if match.group() == b"\r" and start == len(buffer):
                self._skip_newline = True
            event = self._line(line, len(buffer) - start)
            if event is not None:
                events.append(event)
        del buffer[:start]
        self._scanned = len(buffer)
        if self._scanned + self._data_bytes > _LIMIT_BYTES:
            raise ServiceError("protocol", "an event of more than 64 MiB")
        return events

    def _line(self, line: bytes, after_bytes: int) -> SseEvent | None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            name, data = self._name, self._data
            self._name, self._data, self._data_bytes = b"", [], 0
            if not data:
                return None
            return SseEvent(
                name=name.decode(errors="replace") or "message",
                data=b"\n".join(data),
                after_bytes=after_bytes,
            )
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"data":
            self._data.append(value)
            # An empty line costs memory too.
            self._data_bytes += len(value) + _LINE_COST_BYTES
        elif field == b"event":
            self._name = value
        return None
