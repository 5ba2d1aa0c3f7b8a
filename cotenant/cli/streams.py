"""The three standard streams of the process: whatever they are, writing to them never raises."""

import contextlib
import errno
import io
import os
import sys
from typing import Final, TextIO

_BROKEN_PIPE: Final = 141
_COULD_NOT_WRITE: Final = 5
_STDOUT: Final = 1
_STDERR: Final = 2


class Lossy(io.FileIO):
    """A stream that drops what cannot be written, and keeps the first reason why."""

    failure: OSError | None = None

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        try:
            written = super().write(data)
        except OSError as error:
            self.failure = self.failure or error
            written = None
        return len(data) if written is None else written


def protect() -> Lossy:
    """Opens what is closed and replaces `sys.stdout` and `sys.stderr`; returns what stdout ends in.

    A closed stdin and stdout stay such that reading and writing fail: someone asked for nothing there.
    """
    # In ascending order: a number that is free is the one that the next open takes.
    for number, mode in ((0, os.O_WRONLY), (_STDOUT, os.O_RDONLY), (_STDERR, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            os.set_inheritable(opened, True)
    out, errors = Lossy(_STDOUT, "w", closefd=False), Lossy(_STDERR, "w", closefd=False)
    for old in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            old.flush()
    sys.stdout = _text(out, sys.stdout)
    sys.stderr = _text(errors, sys.stderr)
    return out


def code_of(code: object, out: Lossy) -> int | str | None:
    """The exit code of the process: `code`, unless what it promised on stdout did not get there."""
    sys.stdout.flush()
    if out.failure is not None:
        if out.failure.errno == errno.EPIPE:
            return _BROKEN_PIPE
        write_last(f"cotenant: cannot write to the standard output: {out.failure.strerror}\n")
        return _COULD_NOT_WRITE
    return code if isinstance(code, int | str) else None


def write_last(text: str) -> None:
    """Writes straight to stderr: no buffer, no lock, nothing raised."""
    with contextlib.suppress(OSError):
        os.write(_STDERR, text.encode())


def _text(raw: Lossy, like: TextIO | None) -> io.TextIOWrapper:
    """Text is never refused either: a character that the terminal does not know is shown as its number."""
    encoding = getattr(like, "encoding", None) or "utf-8"
    buffer = io.BufferedWriter(raw)  # type: ignore[type-var, unused-ignore]
    line_buffering = raw.fileno() == _STDERR or raw.isatty()
    return io.TextIOWrapper(buffer, encoding, errors="backslashreplace", line_buffering=line_buffering)
