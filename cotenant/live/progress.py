"""The line a person watches during a run: stage, time left, underruns so far."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from cotenant.plain import without_controls
from cotenant.units import NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is known at one instant. `left_ns` is the estimate for the whole run, None before it is known."""

    stage: str
    phase: str
    step: int
    steps: int
    left_ns: int | None
    streams: int = 0
    underruns: int = 0
    failed: int = 0


class Progress(Protocol):
    """Where the conductor reports to."""

    def show(self, state: State) -> None: ...

    def line(self, text: str) -> None: ...

    def close(self) -> None: ...


def clock_text(left_ns: int) -> str:
    """`1:05` for 65 s; never below 0:00."""
    seconds = max(0, math.ceil(left_ns / NS_PER_S))
    return f"{seconds // 60}:{seconds % 60:02d}"


def state_text(state: State) -> str:
    """One line of at most about 80 columns."""
    parts = [f"[{state.step}/{state.steps}] {state.stage}: {state.phase}"]
    if state.left_ns is not None:
        parts.append(f"{clock_text(state.left_ns)} left")
    if state.streams:
        parts.append(f"{state.underruns} underruns in {state.streams} streams")
    if state.failed:
        parts.append(f"{state.failed} failed")
    return ", ".join(parts)


class TerminalProgress:
    """A line that rewrites itself, on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        with suppress(OSError, ValueError):
            self._live.start()

    def show(self, state: State) -> None:
        text = Text(without_controls(state_text(state)), no_wrap=True, overflow="ellipsis")
        with suppress(OSError, ValueError):
            self._live.update(text)

    def line(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._console.print(Text(without_controls(text)))

    def close(self) -> None:
        with suppress(OSError, ValueError):
            self._live.stop()


class PlainProgress:
    """A line for each stage that has ended, where no one watches: a pipe, a pipeline's log."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write_raw = write
        self._last: State | None = None

    def show(self, state: State) -> None:
        if self._last is not None and state.step != self._last.step:
            self._write(state_text(self._last))
        self._last = state

    def line(self, text: str) -> None:
        self._write(text)

    def close(self) -> None:
        if self._last is not None:
            self._write(state_text(self._last))
            self._last = None

    def _write(self, text: str) -> None:
        # A log that is full or closed ends no run.
        with suppress(OSError, ValueError):
            self._write_raw(without_controls(text))


def progress_for(console: Console) -> TerminalProgress | PlainProgress:
    """A live line where `console` is a terminal, plain lines elsewhere."""
    if console.is_terminal:
        return TerminalProgress(console)
    return PlainProgress(lambda text: console.print(Text(text), soft_wrap=True))
