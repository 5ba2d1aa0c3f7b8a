"""What every part of the page's data starts from: a run as the verdict read it, and its clock."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS
from cotenant.records import AGAIN_SUFFIX, WARM_STAGE, Recording
from cotenant.units import NS_PER_MS, NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Floats, Ints
from cotenant.verdict.facts import Facts, paired, read_facts
from cotenant.verdict.judging import player_options
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.plan import StagePlan, read_plan
from cotenant.verdict.stats import TAIL
from cotenant.verdict.utterances import Utterances

_SECOND_DIGITS: Final = 4
_MS_DIGITS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A run, played by the player it is judged by. `t0_ns`: where the page's seconds begin.

    `stages`: those of the ladder in order, the closing baseline last. `own`: the utterances of each stage
    that has voices.
    """

    recording: Recording
    facts: Facts
    stages: tuple[StagePlan, ...]
    own: dict[str, Utterances]
    t0_ns: int
    end_ns: int

    def seconds(self, times_ns: Ints) -> list[float]:
        """Times as seconds of the page."""
        return [*np.round((times_ns - self.t0_ns) / NS_PER_S, _SECOND_DIGITS).tolist()]

    def second(self, time_ns: int) -> float:
        """One time as seconds of the page."""
        return round((int(time_ns) - self.t0_ns) / NS_PER_S, _SECOND_DIGITS)


def read_base(recording: Recording, options: JudgeOptions) -> Base:
    """Raises UserError for a manifest without a scenario."""
    plan = read_plan(recording)
    facts = read_facts(recording, plan, player_options(plan, options), TAIL)
    stages = (*plan.stages, *([plan.again] if plan.again is not None else []))
    own = {
        stage.name: paired(facts, stage, by_round=stage is not plan.again).own
        for stage in stages
        if plan.of_kind(stage, "voices")
    }
    t0_ns = _begin_ns(facts)
    return Base(
        recording=facts.recording,
        facts=facts,
        stages=stages,
        own=own,
        t0_ns=t0_ns,
        end_ns=max(plan.last_ns, t0_ns, _last_end_ns(facts)),
    )


def _begin_ns(facts: Facts) -> int:
    """The first stage's start; of a run without marks the first request that was due."""
    starts = [window.start_ns for spans in facts.plan.lived.values() for window in spans]
    starts += [window.start_ns for spans in facts.plan.measured.values() for window in spans]
    if starts:
        return min(starts)
    due = facts.streams.due[facts.streams.due != NULL]
    return int(due.min()) if len(due) else 0


def _last_end_ns(facts: Facts) -> int:
    """The end of the last playback."""
    ends = facts.voices.played.end_ns
    known = ends[(ends > 0) & (ends < PLUS_INF_NS)]
    return int(known.max()) if len(known) else 0


def is_warm(stage: str) -> bool:
    """Whether that is the warm-up, which is on no time axis."""
    return stage == WARM_STAGE


def stage_kind(name: str, solo: bool) -> str:
    """`solo`, `again` or `stage`."""
    return "solo" if solo else "again" if name.endswith(AGAIN_SUFFIX) else "stage"


def ms(value_ns: int | float | None) -> float | None:
    """Nanoseconds as milliseconds; None for what is not known, never was, or is infinite."""
    if value_ns is None or abs(value_ns) >= PLUS_INF_NS or value_ns != value_ns:
        return None
    return round(float(value_ns) / NS_PER_MS, _MS_DIGITS) + 0.0


def ms_list(values_ns: Ints | Floats) -> list[float]:
    """Known nanoseconds as milliseconds."""
    return [*(np.round(np.asarray(values_ns) / NS_PER_MS, _MS_DIGITS) + 0.0).tolist()]


def numbers(values: Iterable[float] | Floats, digits: int = 3) -> list[float | None]:
    """Rounded; null for NaN and infinities."""
    rounded = np.round(np.asarray(values, dtype=np.float64), digits) + 0.0
    if bool(np.isfinite(rounded).all()):
        return [*rounded.tolist()]
    return [value if np.isfinite(value) else None for value in rounded.tolist()]


def rows(recording: Recording, name: str) -> Any:
    """A table of the run, empty where it is missing."""
    return columns.table(recording, name)
