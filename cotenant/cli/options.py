"""The judging flags, shared by every command that judges, and what they turn into."""

from enum import StrEnum
from typing import Annotated

import typer

from cotenant.verdict.options import JudgeOptions, read_options


class Start(StrEnum):
    """When the player starts."""

    PREFILL = "prefill"
    DELAY = "delay"


class AfterUnderrun(StrEnum):
    """What the player does when it ran dry."""

    RESUME = "resume"
    REFILL = "refill"
    DROP = "drop"


class Decision(StrEnum):
    """Whether a gate looks at the interval or at the value alone."""

    INTERVAL = "interval"
    POINT = "point"


class Inconclusive(StrEnum):
    """What an inconclusive run counts as."""

    FAIL = "fail"
    PASS = "pass"


_PANEL = "Judging (without a flag: what the scenario says)"

LookaheadFlag = Annotated[
    str | None,
    typer.Option(
        "--lookahead", metavar="TIME", help="The player's buffer, as in 400ms.", rich_help_panel=_PANEL
    ),
]
StartFlag = Annotated[
    Start | None,
    typer.Option(
        "--start",
        help="Playback starts when the lookahead is full, or that long after.",
        rich_help_panel=_PANEL,
    ),
]
AfterUnderrunFlag = Annotated[
    AfterUnderrun | None,
    typer.Option(
        "--after-underrun", help="After running dry: go on, refill first, or drop.", rich_help_panel=_PANEL
    ),
]
QuantumFlag = Annotated[
    str | None,
    typer.Option(
        "--quantum", metavar="TIME", help="The sound card's period, as in 20ms.", rich_help_panel=_PANEL
    ),
]
GateFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--gate",
        metavar="GATE|FILE",
        help="A profile (voice, face), a limit as in 'speech.ttfa_ms.p95 <= 500ms', or a YAML file with a "
        "list of them. Repeats; replaces the scenario's.",
        rich_help_panel=_PANEL,
    ),
]
DecisionFlag = Annotated[
    Decision | None,
    typer.Option("--decision", help="Gates look at intervals, or at values alone.", rich_help_panel=_PANEL),
]
InconclusiveFlag = Annotated[
    Inconclusive | None,
    typer.Option("--inconclusive", help="Turns exit code 3 into 1 or 0.", rich_help_panel=_PANEL),
]


def judge_options(
    *,
    lookahead: str | None,
    start: Start | None,
    after_underrun: AfterUnderrun | None,
    quantum: str | None,
    gate: list[str] | None = None,
    decision: Decision | None = None,
    inconclusive: Inconclusive | None = None,
) -> JudgeOptions:
    """Reads the flags as typed, and the files that hold gates. Raises UserError naming the flag."""
    from cotenant.scenario.load import read_gates

    return read_options(
        lookahead=lookahead,
        start=None if start is None else start.value,
        after_underrun=None if after_underrun is None else after_underrun.value,
        quantum=quantum,
        gates=read_gates(gate or ()),
        decision=None if decision is None else decision.value,
        inconclusive=None if inconclusive is None else inconclusive.value,
        dashes="--",
    )
