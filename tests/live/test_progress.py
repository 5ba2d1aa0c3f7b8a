"""The progress line: what it says, and that a pipe gets one line a step."""

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from cotenant.live.progress import (
    PlainProgress,
    State,
    TerminalProgress,
    clock_text,
    mark_of,
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
        "[5/9] all-together: measuring, at least 1:05 left, 2 underruns in 4 streams, 1 failed"
    )
    assert state_text(state(streams=1)) == "[5/9] all-together: measuring, 0 underruns in 1 stream"
    assert state_text(state(streams=2, underruns=1)).endswith(", 1 underrun in 2 streams")


def test_where_no_time_is_known_to_be_left_none_is_said() -> None:
    assert state_text(state(phase="done", left_ns=0)) == "[5/9] all-together: done"


def test_a_stage_that_is_left_out_says_why() -> None:
    left_out = state(phase="not run", left_ns=0, not_run="it needs tts, which ended")
    assert state_text(left_out) == "[5/9] all-together: not run, it needs tts, which ended"
    sent = without_escapes(shown(left_out, state(step=6, stage="b"), no_color=True))
    (line,) = [line for line in sent if "all-together  " in line]
    assert line.startswith("\N{MIDDLE DOT} all-together")
    assert "not run: it needs tts, which ended" in line


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


def shown(*states: State, width: int = 60, **console: object) -> str:
    """What a terminal of so many columns was sent."""
    out = io.StringIO()
    progress = progress_for(Console(file=out, force_terminal=True, width=width, **console))  # type: ignore[arg-type]
    for one in states:
        progress.show(one)
    progress.close()
    return out.getvalue()


def without_escapes(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n").split("\n")


LONG = state(
    stage="talking-head-beside-the-long-prefills", phase="undecided, measuring on", step=12, steps=19,
    left_ns=3_599_000_000_000, streams=1234, underruns=567, failed=89,
)  # fmt: skip


def test_at_60_columns_everything_but_a_long_name_is_whole() -> None:
    lines = without_escapes(shown(LONG))
    assert max(map(cell_len, lines)) <= 60
    assert any(
        line.startswith("[12/19] talking-head") and line.endswith(": undecided, measuring on, 59:59+ left")
        for line in lines
    )
    assert any("567 underruns in 1234 streams, 89 failed" in line for line in lines)


@pytest.mark.parametrize("width", [10, 20, 40, 60, 200])
@pytest.mark.parametrize("name", ["a", "\u4f60\u597d" * 40, "\u202e\x1b[31m" * 9])
def test_no_width_and_no_name_breaks_the_line(width: int, name: str) -> None:
    sent = shown(state(stage=name, streams=3), state(stage="b", step=6), width=width)
    assert max(map(cell_len, without_escapes(sent))) <= width
    assert "\u202e" not in sent


@pytest.mark.parametrize(
    ("figures", "sign", "plain", "words"),
    [
        ({"streams": 4}, "\N{CHECK MARK}", "+", "0 underruns in 4 streams"),
        ({"streams": 4, "underruns": 2}, "\N{BLACK UP-POINTING TRIANGLE}", "!", "2 underruns in 4 streams"),
        ({"streams": 4, "failed": 1}, "\N{BALLOT X}", "x", "1 failed"),
        ({}, "\N{MIDDLE DOT}", "-", "no stream ended"),
    ],
)
def test_a_stage_that_is_over_stays_with_a_sign_and_words(
    figures: dict[str, int], sign: str, plain: str, words: str
) -> None:
    sent = shown(state(**figures), state(step=6, stage="b"), no_color=True)
    assert "\x1b[3" not in sent  # no colour
    (line,) = [line for line in without_escapes(sent) if "all-together  " in line]
    assert line.startswith(f"{sign} all-together")
    assert words in line
    assert mark_of(state(**figures), "ascii")[0] == plain


def test_what_comes_before_the_first_stage_leaves_no_line() -> None:
    sent = without_escapes(shown(state(step=0, stage="start", phase="warming"), state(step=1, stage="b")))
    assert not [line for line in sent if line.startswith("\N{MIDDLE DOT} start")]


def test_no_terminal_no_live_line() -> None:
    out = io.StringIO()
    progress = progress_for(Console(file=out, width=60))
    progress.show(state(step=1))
    progress.line("x" * 200)
    progress.close()
    assert "\x1b" not in out.getvalue()
    assert "x" * 200 in out.getvalue()
