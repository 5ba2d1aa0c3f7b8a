"""What to judge a recording by: the options, and how users write them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cotenant.errors import UserError
from cotenant.units import parse_duration_ns

if TYPE_CHECKING:
    from cotenant.scenario.schema import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """What to judge a recording by; None: what its own scenario says.

    `gates` replace the scenario's where there are any. `looks`: how often the same run is judged while it
    goes on (None: what the manifest says, else once); the error level is split over them. `inconclusive` is
    not used by `judge`; `exit_code` takes it.
    """

    lookahead_ns: int | None = None
    start: Literal["prefill", "delay"] | None = None
    after_underrun: Literal["resume", "refill", "drop"] | None = None
    quantum_ns: int | None = None
    gates: "Sequence[str | Gate]" = ()
    decision: Literal["interval", "point"] | None = None
    inconclusive: Literal["fail", "pass"] | None = None
    looks: int | None = None


def read_options(
    *,
    lookahead: str | None = None,
    start: Literal["prefill", "delay"] | None = None,
    after_underrun: Literal["resume", "refill", "drop"] | None = None,
    quantum: str | None = None,
    gates: "Sequence[str | Gate] | None" = None,
    decision: Literal["interval", "point"] | None = None,
    inconclusive: Literal["fail", "pass"] | None = None,
    dashes: str = "",
) -> JudgeOptions:
    """The options with durations as text. Raises UserError that names the option, `dashes` before it."""
    return JudgeOptions(
        lookahead_ns=read_duration_ns(f"{dashes}lookahead", lookahead),
        start=start,
        after_underrun=after_underrun,
        quantum_ns=read_duration_ns(f"{dashes}quantum", quantum),
        gates=tuple(gates or ()),
        decision=decision,
        inconclusive=inconclusive,
    )


def read_duration_ns(name: str, text: str | None) -> int | None:
    """A duration that may be missing. Raises UserError that names it."""
    if text is None:
        return None
    try:
        return parse_duration_ns(text)
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None


def _plain(gate: "str | Gate") -> str | dict[str, Any]:
    return gate if isinstance(gate, str) else gate.model_dump(exclude_none=True)


def scenario_overrides(options: JudgeOptions) -> tuple[str, ...]:
    """The options as `path=value` of a scenario: what a run is judged by is what its listeners wait for, and
    recorded."""
    values = {
        "lookahead": None if options.lookahead_ns is None else f"{options.lookahead_ns}ns",
        "player.start": options.start,
        "player.after_underrun": options.after_underrun,
        "player.quantum": None if options.quantum_ns is None else f"{options.quantum_ns}ns",
        "gate": json.dumps([_plain(gate) for gate in options.gates], ensure_ascii=False)
        if options.gates
        else None,
        "decision": options.decision,
    }
    return tuple(f"{path}={value}" for path, value in values.items() if value is not None)
