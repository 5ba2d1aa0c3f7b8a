"""Where output goes: what people read to stderr, what programs read to stdout."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from cotenant.plain import without_controls

_FILE_WIDTH = 160


def tell(text: str) -> None:
    """A sentence on stderr, its line breaks kept; text of the user's own cannot steer the terminal."""
    print(without_controls(text), file=sys.stderr, flush=True)


def stderr_console() -> Console:
    """Where people read: colour and live lines only on a terminal."""
    return Console(stderr=True, highlight=False)


def width_of(console: Console) -> int | None:
    """The columns to fold to: those of the terminal, or of COLUMNS; None off a terminal, where nothing need
    be folded."""
    told = console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    return console.width if told else None


def show_summary(summary: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """The table of a judged run on stderr; rich leaves colour out off a terminal and with NO_COLOR."""
    from cotenant.report.console import render

    console = stderr_console()
    width = width_of(console) or _FILE_WIDTH
    console.print(
        render(summary, manifest, width), width=width, markup=False, soft_wrap=not console.is_terminal
    )


def print_summary_json(summary: Mapping[str, Any]) -> None:
    """The bytes of summary.json on stdout."""
    from cotenant.verdict.summary import to_json

    print_bytes(to_json(summary).encode(errors="backslashreplace"))


def print_bytes(data: bytes) -> None:
    """Bytes on stdout, after whatever text was printed there."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
