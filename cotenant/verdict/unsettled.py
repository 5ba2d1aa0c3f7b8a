"""Listeners who had heard nothing when their stage had to be measured: a fault of the measuring, or what the
service is like.

A stage is INVALID where a load had no output by the settle limit: its figures are not those of what was
planned. But a voice or a face is what is measured. Where nothing else is missing, and each listener without
output had nothing good in the window either, that is the answer: the stage is valid, and fails.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from cotenant.scenario.schema import Completions, Faces, Voices
from cotenant.verdict import columns
from cotenant.verdict.caveats import Caveat, caveat
from cotenant.verdict.columns import NULL, Ints
from cotenant.verdict.facts import Facts
from cotenant.verdict.left_out import waited_text
from cotenant.verdict.plan import StagePlan

SETTLE: Final = "settle:"
_TABLES: Final = {"voices": "chunks", "faces": "frames", "completions": "tokens"}


def silent_listeners(facts: Facts, stage: StagePlan) -> frozenset[tuple[str, int]]:
    """(load, listener) of the voices and faces for whose lack of output the stage did not settle, where that
    is all and nothing good came of them; empty where it settled, or where something else was missing."""
    found: set[tuple[str, int]] = set()
    for t_ns, name in facts.plan.faults:
        if name != SETTLE + stage.name:
            continue
        missing = _missing(facts, stage, t_ns)
        if not missing or not all(_tells(facts, stage, *who) for who in missing):
            return frozenset()
        found |= missing
    return frozenset(found)


def silence_caveat(facts: Facts, stage: StagePlan, silent: frozenset[tuple[str, int]]) -> Iterator[Caveat]:
    """Says for how many that was."""
    if silent:
        loads = ", ".join(sorted({load for load, _ in silent}))
        verb = "listener had" if len(silent) == 1 else "listeners had"
        yield caveat(
            "silent",
            f"{len(silent)} {verb} no output of {loads} {waited_text(facts.plan, stage)}, and nothing "
            "that was good afterwards",
            "look at the service's log and its queue",
            listeners=len(silent),
        )


def _missing(facts: Facts, stage: StagePlan, t_ns: int) -> set[tuple[str, int]]:
    """Who had no output at `t_ns`, an LLM's streams among them; faces of a voice without any left out."""
    missing: set[tuple[str, int]] = set()
    for name in stage.loads:
        written = facts.plan.scenario.load[name]
        planned = written.streams if isinstance(written, Completions) else written.listeners
        if isinstance(written, Faces) and isinstance(of := facts.plan.scenario.load[written.follows], Voices):
            planned = min(int(planned), int(of.listeners)) if written.follows in stage.loads else planned
        count = planned if isinstance(planned, int) else 1
        missing |= {(name, number) for number in range(count)} - _served(facts, stage, name, t_ns)
    follows = {name: load.follows for name, load in facts.plan.loads.items() if load.kind == "faces"}
    return {(load, who) for load, who in missing if (follows.get(load, ""), who) not in missing}


def _served(facts: Facts, stage: StagePlan, load: str, t_ns: int) -> set[tuple[str, int]]:
    """Whose output of a load had begun by then, since the stage did."""
    spans = facts.plan.lived.get(stage.name, ())
    since_ns = max((span.start_ns for span in spans if span.start_ns <= t_ns), default=NULL)
    streams = facts.streams
    rows = np.flatnonzero((streams.stage == stage.name) & (streams.load == load) & (streams.due >= since_ns))
    table = columns.table(facts.recording, _TABLES[facts.plan.loads[load].kind])
    order, offsets = columns.group(columns.ints(table, "stream"), streams.stream[rows])
    arrival = columns.ints(table, "arrival")[order]
    came = np.bincount(columns.owner(offsets)[arrival <= t_ns], minlength=len(rows)) > 0
    return {(load, int(number)) for number in streams.listener[rows[came]]}


def _tells(facts: Facts, stage: StagePlan, load: str, listener: int) -> bool:
    """Whether a voice or face was measured, and none of it was good."""
    rows = facts.measured[stage.name]
    mine: Ints = rows[(facts.streams.load[rows] == load) & (facts.streams.listener[rows] == listener)]
    kind = facts.plan.loads[load].kind
    if not len(mine) or kind == "completions":
        return False
    if kind == "faces":
        return not bool((facts.streams.end[mine] == "eos").any())
    own = facts.voice_rows[stage.name]
    heard = own[np.isin(facts.voices.streams.stream[own], facts.streams.stream[mine])]
    return not bool((facts.voices.played.clean[heard] & ~facts.voices.failed[heard]).any())
