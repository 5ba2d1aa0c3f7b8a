"""The judging flags, shared by every command that judges, and what they turn into."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cotenant.errors import UserError
from cotenant.units import parse_duration_ns

if TYPE_CHECKING:
    from cotenant.verdict.summary import JudgeOptions


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
        metavar="GATE",
        help="A profile (voice, face) or 'speech.ttfa_ms.p95 <= 500ms'. Repeats; replaces the scenario's.",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeFlags:
    """The judging flags as given; None (or no gate) where the scenario decides."""

    lookahead_ns: int | None = None
    start: Literal["prefill", "delay"] | None = None
    after_underrun: Literal["resume", "refill", "drop"] | None = None
    quantum_ns: int | None = None
    gates: tuple[str, ...] = ()
    decision: Literal["interval", "point"] | None = None
    inconclusive: Literal["fail", "pass"] | None = None


def judge_flags(
    *,
    lookahead: str | None,
    start: Start | None,
    after_underrun: AfterUnderrun | None,
    quantum: str | None,
    gate: list[str] | None,
    decision: Decision | None,
    inconclusive: Inconclusive | None,
) -> JudgeFlags:
    """Reads the flags as typed. Raises UserError naming the flag."""
    return JudgeFlags(
        lookahead_ns=_duration_ns("--lookahead", lookahead),
        start=None if start is None else start.value,
        after_underrun=None if after_underrun is None else after_underrun.value,
        quantum_ns=_duration_ns("--quantum", quantum),
        gates=tuple(gate or ()),
        decision=None if decision is None else decision.value,
        inconclusive=None if inconclusive is None else inconclusive.value,
    )


def judge_options(flags: JudgeFlags) -> "JudgeOptions":
    """The same for the verdict."""
    from cotenant.verdict.summary import JudgeOptions

    return JudgeOptions(
        lookahead_ns=flags.lookahead_ns,
        start=flags.start,
        after_underrun=flags.after_underrun,
        quantum_ns=flags.quantum_ns,
        gates=flags.gates,
        decision=flags.decision,
        inconclusive=flags.inconclusive,
    )


def scenario_overrides(flags: JudgeFlags) -> tuple[str, ...]:
    """The flags as `path=value`: what a run is judged by is what its listeners wait for, and recorded."""
    values = {
        "lookahead": None if flags.lookahead_ns is None else f"{flags.lookahead_ns}ns",
        "player.start": flags.start,
        "player.after_underrun": flags.after_underrun,
        "player.quantum": None if flags.quantum_ns is None else f"{flags.quantum_ns}ns",
        "gate": json.dumps(flags.gates, ensure_ascii=False) if flags.gates else None,
        "decision": flags.decision,
    }
    return tuple(f"{path}={value}" for path, value in values.items() if value is not None)


def _duration_ns(flag: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_duration_ns(text)
    except ValueError as error:
        raise UserError(f"{flag}: {error}") from None
