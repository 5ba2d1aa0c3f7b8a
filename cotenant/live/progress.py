"""What a person watches during a run: stage, phase, time left, underruns so far of each stage."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from cotenant.plain import without_controls
from cotenant.units import NS_PER_S, counted

_NAME_COLUMNS: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is known at one instant. `left_ns`: how long the run still takes at least, None before that is
    known; `not_run`: why this stage is left out.

    `streams`, `underruns`, `failed`: of what was due in the measure window and has ended, and of the voices
    that keep their listeners waiting in it (`cotenant.playback.under_way`); those leave the count once the
    next utterance falls due. The verdict judges the faces of such voices too, and all rounds of a stage.
    """

    stage: str
    phase: str
    step: int
    steps: int
    left_ns: int | None
    streams: int = 0
    underruns: int = 0
    failed: int = 0
    not_run: str = ""


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
    """All that is known in one line, for a log."""
    return ", ".join(filter(None, (where_text(state), figures_text(state))))


def where_text(state: State, width: int | None = None) -> str:
    """Stage, phase and time left; where that is longer than `width` the stage's name is cut, and `at least
    1:05 left` is `1:05+ left`, nothing else."""
    before, after = f"[{state.step}/{state.steps}] ", f": {state.phase}"
    if state.left_ns is not None and state.left_ns > 0:
        left = clock_text(state.left_ns)
        whole = f"{before}{state.stage}{after}, at least {left} left"
        fits = width is None or cell_len(whole) <= width
        after += f", at least {left} left" if fits else f", {left}+ left"
    return before + cut(state.stage, None if width is None else width - len(before) - len(after)) + after


def figures_text(state: State) -> str:
    """Underruns and failed streams so far; empty where no stream has ended. Of a stage that is left out
    why."""
    if state.not_run:
        return state.not_run
    parts = []
    if state.streams:
        parts.append(f"{counted(state.underruns, 'underrun')} in {counted(state.streams, 'stream')}")
    if state.failed:
        parts.append(f"{state.failed} failed")
    return ", ".join(parts)


def cut(text: str, width: int | None) -> str:
    """`text`, or its beginning and an ellipsis: `width` columns at most, but never less than 8."""
    if width is None or cell_len(text) <= max(8, width):
        return text
    return set_cell_size(text, max(8, width) - 1).rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def mark_of(state: State, encoding: str) -> tuple[str, str]:
    """A sign and a colour of a stage so far: the words beside it say the same, for whoever sees no colour."""
    plain = not encoding.lower().startswith("utf")
    if state.failed:
        return "x" if plain else "\N{BALLOT X}", "red"
    if state.underruns:
        return "!" if plain else "\N{BLACK UP-POINTING TRIANGLE}", "yellow"
    if state.streams:
        return "+" if plain else "\N{CHECK MARK}", "green"
    return "-" if plain else "\N{MIDDLE DOT}", "dim"


class TerminalProgress:
    """On a terminal: two lines that rewrite themselves, and one that stays of each stage that is over."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: State | None = None
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        with suppress(OSError, ValueError):
            self._live.start()

    def show(self, state: State) -> None:
        if self._last is not None and state.step != self._last.step:
            self._leave(self._last)
        self._last = state
        where = Text(
            without_controls(where_text(state, self._console.width)), no_wrap=True, overflow="ellipsis"
        )
        lines = [where]
        if state.step:
            lines.append(self._marked(state, figures_text(state) or "no stream has ended yet"))
        with suppress(OSError, ValueError):
            self._live.update(Group(*lines))

    def _leave(self, state: State) -> None:
        """One line of a stage that is over; what comes before the first one is none."""
        if state.step:
            width = max(8, min(_NAME_COLUMNS, self._console.width // 3))
            name = set_cell_size(cut(state.stage, width), width)
            told = f"not run: {state.not_run}" if state.not_run else figures_text(state) or "no stream ended"
            self._print(self._marked(state, f"{name}  {told}"))

    def _marked(self, state: State, text: str) -> Text:
        sign, colour = mark_of(state, self._console.encoding)
        return Text.assemble(
            (f"{sign} ", colour), (without_controls(text), colour), no_wrap=True, overflow="ellipsis"
        )

    def line(self, text: str) -> None:
        self._print(Text(without_controls(text)))

    def _print(self, text: Text) -> None:
        with suppress(OSError, ValueError):
            self._console.print(text)

    def close(self) -> None:
        if self._last is not None:
            self._leave(self._last)
            self._last = None
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
