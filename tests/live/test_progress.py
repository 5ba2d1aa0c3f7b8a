"""The progress line: what it says, and that a pipe gets one line a step."""

import io

import pytest
from rich.console import Console

from cotenant.live.progress import (
    PlainProgress,
    State,
    TerminalProgress,
    clock_text,
    progress_for,
    state_text,
)


def state(**changes: object) -> State:
    fields: dict[str, object] = {
        "stage": "all-together",
        "phase": "measuring",
        "step": 5,
        "steps": 9,
        "left_ns": None,
    }
    return State(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("left_ns", "text"),
    [
        (0, "0:00"),
        (-5, "0:00"),
        (1, "0:01"),
        (59_000_000_000, "0:59"),
        (59_000_000_001, "1:00"),
        (3_600_000_000_000, "60:00"),
    ],
)
def test_time_left_rounds_up(left_ns: int, text: str) -> None:
    assert clock_text(left_ns) == text


def test_a_line_says_only_what_is_known() -> None:
    assert state_text(state()) == "[5/9] all-together: measuring"
    assert state_text(state(left_ns=65_000_000_000, streams=4, underruns=2, failed=1)) == (
        "[5/9] all-together: measuring, 1:05 left, 2 underruns in 4 streams, 1 failed"
    )


def test_a_pipe_gets_one_line_a_step_with_its_last_state() -> None:
    lines: list[str] = []
    progress = PlainProgress(lines.append)
    progress.show(state(step=1, stage="a", streams=1))
    progress.show(state(step=1, stage="a", streams=2))
    progress.show(state(step=2, stage="b"))
    assert lines == ["[1/9] a: measuring, 0 underruns in 2 streams"]
    progress.close()
    progress.close()
    assert lines[1:] == ["[2/9] b: measuring"]


def test_a_hostile_stage_name_is_text_not_markup() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60, no_color=True)
    progress = progress_for(console)
    assert isinstance(progress, TerminalProgress)
    progress.show(state(stage="[bold]x[/nothing]"))
    progress.line("[/oops] done")
    progress.close()
    assert "[/oops] done" in out.getvalue()


def test_no_terminal_no_live_line() -> None:
    out = io.StringIO()
    progress = progress_for(Console(file=out, width=60))
    progress.show(state(step=1))
    progress.line("x" * 200)
    progress.close()
    assert "\x1b" not in out.getvalue()
    assert "x" * 200 in out.getvalue()
