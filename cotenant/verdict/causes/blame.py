"""Which co-tenant each stall of a stage is blamed on: a claim only where the recording carries it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from cotenant.verdict.causes.against import SLOWER, against_baseline, inseparable, rtf_of
from cotenant.verdict.causes.faces import face_units, slow_alone, slower_than_solo
from cotenant.verdict.causes.ratio import RiskRatio, risk_ratio
from cotenant.verdict.causes.slow import Slower, added_by
from cotenant.verdict.causes.text import MADE
from cotenant.verdict.causes.units import Events, Units, voice_units
from cotenant.verdict.causes.veto import Vetoes, vetoes_of
from cotenant.verdict.causes.work import Beside, besides, works_of
from cotenant.verdict.columns import Bools, Ints, Texts
from cotenant.verdict.facts import Facts
from cotenant.verdict.stages import StageFacts

UNATTRIBUTED: Final = "unattributed"
WHOLE: Final = "co_tenancy"
ALONE: Final = "service_slow"
VOICE: Final = "voice_late"
Of = Literal["voice", "face"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """The stalls of a stage's voices (or the freezes of its faces), each with a word for what is to blame.

    The word is `own_load`, `host`, the name of a work, `co_tenancy`, `service_slow`, `voice_late` or
    `unattributed`. `ratios`: of each work, the ratio or why there is none; `named`: the works whose interval
    lies above 1, strongest first. `slow`: against the baseline, or why not, for the loads `added`.
    """

    of: Of
    units: Units
    events: Events
    vetoes: Vetoes
    word: Texts
    beside: tuple[Beside, ...]
    ratios: Mapping[str, RiskRatio | str]
    named: tuple[str, ...]
    slow: Slower | RiskRatio | str
    added: tuple[str, ...]


def blame_voices(facts: Facts, found: StageFacts, a_a_ratio: float | None, withheld: str) -> Blame | None:
    """None where no voice stalled. `withheld`: why nothing is claimed against the baseline."""
    stage = found.plan
    if stage.name not in facts.voice_rows:
        return None
    units, events = voice_units(facts, stage.name)
    if not len(events.unit):
        return None
    streams = facts.voices.streams.take(facts.voice_rows[stage.name])
    vetoes = vetoes_of(facts, streams, "chunks", units, events)
    beside = tuple(besides(facts, stage, units, works_of(facts, stage)))
    blame = _by_works("voice", units, events, vetoes, beside, compared=units)
    word = blame.word
    whole = (word == UNATTRIBUTED) & (vetoes.word == "")
    added = inseparable(added_by(facts, found), beside, blame.ratios)
    slow: Slower | RiskRatio | str = withheld
    if not withheld and whole.any():
        slow = against_baseline(facts, found, added, units, a_a_ratio)
    if isinstance(slow, RiskRatio | Slower):
        word[whole] = WHOLE
    elif not added_by(facts, found) and rtf_of(found, events) >= 1:
        word[whole] = ALONE
    return replace(blame, slow=slow, added=added)


def blame_faces(facts: Facts, found: StageFacts) -> Blame | None:
    """None where no face froze. What is always there is judged by the solo window: a baseline has no face."""
    stage = found.plan
    if stage.name not in facts.faces.clips:
        return None
    units, events, waited = face_units(facts, stage.name)
    if not len(events.unit):
        return None
    vetoes = vetoes_of(facts, facts.faces.streams[stage.name], "frames", units, events)
    beside = tuple(besides(facts, stage, units, works_of(facts, stage, faces=False)))
    # Frames whose sound came late are late because of that.
    stall = units.stall_ns.copy()
    stall[events.unit[waited & (events.unit >= 0)]] = 0
    blame = _by_works("face", units, events, vetoes, beside, compared=replace(units, stall_ns=stall))
    word = blame.word
    loads = [load.name for load in facts.plan.of_kind(stage, "faces")]
    left = (vetoes.word == "") & (word == UNATTRIBUTED)
    slow = slower_than_solo(facts, stage, units)
    if any(slow_alone(facts, load) is not None for load in loads):
        word[left] = ALONE
    elif isinstance(slow, Slower) and slow.low >= SLOWER:
        word[left] = WHOLE
    word[waited & (vetoes.word != "own_load")] = VOICE
    return replace(blame, slow=slow, added=tuple(load for load in stage.loads if load not in loads))


def _by_works(
    of: Of, units: Units, events: Events, vetoes: Vetoes, beside: tuple[Beside, ...], *, compared: Units
) -> Blame:
    """With words for what stood still of ours and for works that came and went, by the units `compared`; of
    the co-tenants as a whole nothing is said yet."""
    ratios, named = compare(of, compared, beside)
    return Blame(
        of=of,
        units=units,
        events=events,
        vetoes=vetoes,
        word=words_of(events, vetoes, beside, named),
        beside=beside,
        ratios=ratios,
        named=named,
        slow="",
        added=(),
    )


def compare(
    of: Of, units: Units, beside: Sequence[Beside]
) -> tuple[dict[str, RiskRatio | str], tuple[str, ...]]:
    """The risk ratio of each work, and those that are named: one after the other the one with the highest
    lower bound, the rest compared once more with it held fixed."""
    ratios: dict[str, RiskRatio | str] = {}
    tests = sum(bool(one.known.any() and one.beside.any() and not one.beside.all()) for one in beside)
    strata, left = units.part, list(beside)
    named: list[str] = []
    while left:
        found = {one.work.name: _ratio(of, units, one, strata, tests) for one in left}
        ratios |= found if not named else {}
        sure = {name: ratio.low for name, ratio in found.items() if not isinstance(ratio, str)}
        best = max(sure, key=lambda name: (sure[name], name), default="")
        if not best or sure[best] <= 1:
            break
        named.append(best)
        # What it is named by: with those before it held fixed.
        ratios[best] = found[best]
        one = next(one for one in left if one.work.name == best)
        strata = strata * 2 + one.beside
        left.remove(one)
    return ratios, tuple(named)


def _ratio(of: Of, units: Units, one: Beside, strata: Ints, tests: int) -> RiskRatio | str:
    known = one.known
    if not known.any():
        return one.work.lacking or "nothing was recorded of it"
    if one.beside[known].all():
        return f"{one.work.during} beside every {MADE[of]} of this stage"
    if not one.beside[known].any():
        return f"{one.work.during} beside no {MADE[of]} of this stage"
    return risk_ratio(
        units.late[known],
        one.beside[known],
        strata[known],
        (units.stream[known], one.cycle[known]),
        tests,
    )


def words_of(events: Events, vetoes: Vetoes, beside: Sequence[Beside], named: Sequence[str]) -> Texts:
    """A veto first, then the strongest named work that was there, else `unattributed`."""
    word = np.full(len(events.unit), UNATTRIBUTED, dtype=np.object_)
    by_name = {one.work.name: one for one in beside}
    for name in reversed(named):
        word[was_beside(events, by_name[name])] = name
    for veto in ("host", "own_load"):
        word[vetoes.word == veto] = veto
    word[vetoes.word == "unknown"] = UNATTRIBUTED
    return word


def was_beside(events: Events, one: Beside) -> Bools:
    """Which events waited for a unit that was made beside a work."""
    found = np.zeros(len(events.unit), dtype=np.bool_)
    some = events.unit >= 0
    found[some] = (one.beside & one.known)[events.unit[some]]
    return found
