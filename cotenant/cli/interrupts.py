"""Ctrl-C once a verdict is there: it leaves out what is not written yet, and changes no exit code."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from cotenant.cli import streams
from cotenant.errors import ExitCode


def hold() -> list[int]:
    """From now on the first Ctrl-C is noted in the list returned, for whoever looks; the next one ends the
    process at once."""
    seen: list[int] = []

    def note(number: int, frame: object) -> None:
        if seen:
            streams.write_last("cotenant: interrupted\n")
            os._exit(ExitCode.INTERRUPTED)
        seen.append(number)

    signal.signal(signal.SIGINT, note)
    return seen


@contextmanager
def raised() -> Iterator[None]:
    """Within it Ctrl-C is a KeyboardInterrupt again."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
