"""Each stall and freeze of a stage by itself: what it waited for, and what went on meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.units import NS_PER_MS
from cotenant.verdict.causes.blame import ALONE, UNATTRIBUTED, VOICE, WHOLE, Of, was_beside
from cotenant.verdict.causes.faces import face_units
from cotenant.verdict.causes.text import MADE, listed
from cotenant.verdict.causes.units import Events, Units, voice_units
from cotenant.verdict.causes.veto import Vetoes, vetoes_of
from cotenant.verdict.causes.work import Beside, besides, works_of
from cotenant.verdict.columns import Bools, Streams, Texts
from cotenant.verdict.facts import Facts
from cotenant.verdict.plan import StagePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One stall of a voice, or one freeze of a face. Times in ns of the run's clock.

    The late chunk (or frame) was being made from `making_start_ns` to `making_end_ns`, both None where it is
    not known which one it was; `usual_ns` is what others took. `beside`: name -> share of the making in
    which that was at work, and how one says it. `what` and `who` are those of the stage's cause.
    """

    of: Of
    stream: int
    start_ns: int
    duration_ns: int
    open: bool
    making_start_ns: int | None
    making_end_ns: int | None
    usual_ns: int
    beside: Mapping[str, tuple[float, str]]
    own_error_ms: float | None
    host_lag_ms: float | None
    what: str
    who: str | None
    text: str


def stalls(facts: Facts, stage: StagePlan, causes: Sequence[Mapping[str, Any]]) -> list[Stall]:
    """The stalls and freezes of a stage, in order of stream and time. `causes`: those of the stage's entry in
    the summary, made with the same player."""
    found: list[Stall] = []
    if len(facts.voice_rows.get(stage.name, ())):
        streams = facts.voices.streams.take(facts.voice_rows[stage.name])
        units, events = voice_units(facts, stage.name)
        none = np.zeros(len(events.unit), dtype=np.bool_)
        found += _rows(facts, stage, "voice", streams, units, events, none, causes)
    if stage.name in facts.faces.clips:
        units, events, waited = face_units(facts, stage.name)
        streams = facts.faces.streams[stage.name]
        found += _rows(facts, stage, "face", streams, units, events, waited, causes)
    return found


def _rows(
    facts: Facts,
    stage: StagePlan,
    of: Of,
    streams: Streams,
    units: Units,
    events: Events,
    waited: Bools,
    causes: Sequence[Mapping[str, Any]],
) -> list[Stall]:
    if not len(events.unit):
        return []
    table = "chunks" if of == "voice" else "frames"
    vetoes = vetoes_of(facts, streams, table, units, events)
    beside = besides(facts, stage, units, works_of(facts, stage, faces=of == "voice"))
    mine = [cause for cause in causes if cause.get("of") == of]
    blamed = _blamed(events, vetoes, beside, waited, mine)
    shares = {one.work.name: _shares(units, one) for one in beside}
    met = {one.work.name: was_beside(events, one) for one in beside}
    rows = []
    for event in range(len(events.unit)):
        unit, cause = int(events.unit[event]), blamed[event]
        there = {
            one.work.name: (float(round(shares[one.work.name][unit], 4)), one.work.during)
            for one in beside
            if met[one.work.name][event]
        }
        rows.append(
            Stall(
                of=of,
                stream=int(streams.stream[events.stream[event]]),
                start_ns=int(events.start_ns[event]),
                duration_ns=int(events.duration_ns[event]),
                open=bool(events.open[event]),
                making_start_ns=int(units.start_ns[unit]) if unit >= 0 else None,
                making_end_ns=int(units.end_ns[unit]) if unit >= 0 else None,
                usual_ns=units.usual_ns,
                beside=there,
                own_error_ms=_ms(vetoes.own_ns[event]),
                host_lag_ms=_ms(vetoes.host_ns[event]),
                what=str(cause["what"]) if cause else UNATTRIBUTED,
                who=cause["who"] if cause else None,
                text=_text(of, units, unit, there, cause),
            )
        )
    return rows


def _blamed(
    events: Events,
    vetoes: Vetoes,
    beside: Sequence[Beside],
    waited: Bools,
    causes: Sequence[Mapping[str, Any]],
) -> Texts:
    """The stage's cause of each event, None for none: a veto first, then the strongest that was there."""
    found = np.full(len(events.unit), None, dtype=np.object_)
    by_name = {one.work.name: one for one in beside}
    free = vetoes.word == ""
    for cause in reversed([cause for cause in causes if cause["what"] != UNATTRIBUTED]):
        what, who = cause["what"], cause["who"]
        one = by_name.get(f"{what}:{who}" if who else what)
        if what in ("own_load", "host"):
            chosen = vetoes.word == what
        elif what == VOICE:
            chosen = waited & (vetoes.word != "own_load")
        elif what in (WHOLE, ALONE) or cause.get("why", {}).get("control_share") or one is None:
            chosen = free & ~waited
        else:
            chosen = free & ~waited & was_beside(events, one)
        for event in np.flatnonzero(chosen).tolist():
            found[event] = cause
    return found


def _shares(units: Units, one: Beside) -> np.typing.NDArray[np.float64]:
    if one.work.cover is None:
        return np.asarray(one.beside, dtype=np.float64)
    lengths = np.maximum(1, units.end_ns - units.start_ns)
    shares: np.typing.NDArray[np.float64] = one.work.cover.within(units.start_ns, units.end_ns) / lengths
    return shares


def _text(
    of: Of, units: Units, unit: int, there: Mapping[str, tuple[float, str]], cause: Mapping[str, Any] | None
) -> str:
    """What one says of it: how long the making took, and beside what."""
    what = MADE[of]
    if unit < 0:
        return f"no {what} was being made that it could have waited for"
    took = (units.end_ns[unit] - units.start_ns[unit]) / NS_PER_MS
    text = f"the late {what} took {took:.0f} ms, others {units.usual_ns / NS_PER_MS:.0f} ms"
    if there:
        text += f"; meanwhile {listed([during for _, during in there.values()])}"
    return text if cause is not None else f"{text}; no cause is told"


def _ms(value_ns: float) -> float | None:
    return None if np.isnan(value_ns) else round(float(value_ns) / NS_PER_MS, 4)
