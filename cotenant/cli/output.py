"""Where output goes: what people read to stderr, what programs read to stdout."""

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console

_FILE_WIDTH = 160


def stderr_console() -> Console:
    """Where people read: colour and live lines only on a terminal."""
    return Console(stderr=True, highlight=False)


def show_summary(summary: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """The table of a judged run on stderr; rich leaves colour out off a terminal and with NO_COLOR."""
    from cotenant.report.console import render

    console = stderr_console()
    width = console.width if console.is_terminal else _FILE_WIDTH
    console.print(
        render(summary, manifest, width), width=width, markup=False, soft_wrap=not console.is_terminal
    )


def print_summary_json(summary: Mapping[str, Any]) -> None:
    """The bytes of summary.json on stdout."""
    from cotenant.verdict.summary import to_json

    sys.stdout.buffer.write(to_json(summary).encode())
    sys.stdout.buffer.flush()
