"""When each co-tenant was at work, and which of the units were made beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant.units import NS_PER_MS, NS_PER_S, format_share
from cotenant.verdict import columns
from cotenant.verdict.causes.time import Cover, Level, Series
from cotenant.verdict.causes.units import Units
from cotenant.verdict.columns import NULL, Bools, Ints
from cotenant.verdict.facts import Facts
from cotenant.verdict.plan import Load, StagePlan, within

NO_TOKENS: Final = "it is not known when its answers began"
# A clock that is this much below the baseline's is a slower GPU.
THROTTLED: Final = 0.95
# Something that took up this share of a usual making time was there beside it.
_SHARE: Final = 10
# What has no beginnings of its own goes together within this time.
_TOGETHER_NS: Final = 2 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Something that may have been in the way. `who`: the load. `during`: how it goes on after "while".

    `tokens`: prompt tokens in flight, or answers being written, where it is an LLM's. `lacking`: why nothing
    is known of it.
    """

    what: str
    who: str | None
    during: str
    cover: Cover | None = None
    level: Level | None = None
    lacking: str = ""

    @property
    def name(self) -> str:
        """Its key in evidence."""
        return f"{self.what}:{self.who}" if self.who else self.what


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Which units were made beside a work, of which of them that is known, and what of it goes together."""

    work: Work
    beside: Bools
    known: Bools
    cycle: Ints


def works_of(facts: Facts, stage: StagePlan, *, faces: bool = True) -> list[Work]:
    """Each load of the stage that is no voice, an LLM's in its two phases; without the faces if asked."""
    found: list[Work] = []
    for load in facts.plan.of_kind(stage, "completions"):
        found += _llm(facts, load)
    for load in facts.plan.of_kind(stage, "faces") if faces else ():
        found.append(_face(facts, load))
    return found


def besides(facts: Facts, stage: StagePlan, units: Units, works: Sequence[Work]) -> list[Beside]:
    """All that is compared, with the other voices and the GPU's clock.

    A unit counts as made beside a work that took up a tenth (at least 1 ms) of the usual making time from its
    start on, however long the unit itself took: longer windows meet more of anything, and what began after
    the unit should have been there did not make it late.
    """
    end = units.start_ns + units.usual_ns
    least = max(NS_PER_MS, units.usual_ns // _SHARE)
    every = np.ones(len(units.start_ns), dtype=np.bool_)
    found = []
    for work in works:
        if work.cover is None:
            found.append(Beside(work=work, beside=~every, known=~every, cycle=units.stream))
            continue
        found.append(
            Beside(
                work=work,
                beside=work.cover.within(units.start_ns, end) >= min(least, units.usual_ns),
                known=every,
                cycle=work.cover.cycle(units.start_ns),
            )
        )
    return [*found, *_voices(facts, stage, units), *_clock(facts, units, end)]


def _llm(facts: Facts, load: Load) -> list[Work]:
    everything = facts.tokens
    rows = np.flatnonzero((everything.streams.load == load.name) & (everything.streams.sent != NULL))
    streams = everything.streams.take(rows)
    first = columns.first_of(everything.arrival_ns, everything.offsets)[rows]
    last = columns.last_of(everything.arrival_ns, everything.offsets)[rows]
    begun = first != NULL
    # Without an end a request was surely there until its last token only.
    done = np.where(streams.done == NULL, np.where(begun, last, streams.sent), streams.done)
    reading, writing = f"the LLM read prompts of {load.name}", f"the LLM wrote answers of {load.name}"
    mute = ~begun & (streams.end != "error") & (streams.end != "open") & (streams.end != "aborted")
    if mute.any() or not len(rows):
        lacking = NO_TOKENS if len(rows) else "no request of it was recorded"
        return [
            Work(what="llm_prefill", who=load.name, during=reading, lacking=lacking),
            Work(what="llm_decode", who=load.name, during=writing, lacking=lacking),
        ]
    until = np.where(begun, first, done)
    prompt = np.maximum(0, streams.prompt_tokens).astype(np.float64)
    one = np.ones(int(begun.sum()))
    return [
        Work(
            what="llm_prefill",
            who=load.name,
            during=reading,
            cover=Cover.of(streams.sent, until),
            level=Level.of(streams.sent, until, prompt),
        ),
        Work(
            what="llm_decode",
            who=load.name,
            during=writing,
            cover=Cover.of(first[begun], done[begun]),
            level=Level.of(first[begun], done[begun], one),
        ),
    ]


def _face(facts: Facts, load: Load) -> Work:
    """A face is drawn from when its audio is handed over, or from the frame before, to the next frame."""
    during = f"a face ({load.name}) was drawn"
    mine = facts.streams.take(np.flatnonzero(facts.streams.load == load.name))
    rows = columns.table(facts.recording, "frames")
    order, offsets = columns.group(columns.ints(rows, "stream"), mine.stream)
    arrival, handed = columns.ints(rows, "arrival")[order], columns.ints(rows, "audio_handed")[order]
    there = arrival != NULL
    before = np.concatenate(([0], np.cumsum(there))).astype(np.int64)
    arrival, handed, offsets = arrival[there], handed[there], before[offsets]
    if not len(arrival):
        return Work(what="face", who=load.name, during=during, lacking="no frame of it was recorded")
    previous = np.concatenate((arrival[:1], arrival[:-1]))
    starts = offsets[:-1][np.diff(offsets) > 0]
    # The first frame of a clip was being made since the clip was asked for.
    previous[starts] = np.where(mine.sent == NULL, arrival[offsets[:-1] % len(arrival)], mine.sent)[
        np.diff(offsets) > 0
    ]
    cover = Cover.of(np.maximum(previous, handed), arrival)
    return Work(what="face", who=load.name, during=during, cover=cover)


def _voices(facts: Facts, stage: StagePlan, units: Units) -> list[Beside]:
    """Whether more voices than usual were spoken when the unit's making began."""
    loads = [load.name for load in facts.plan.of_kind(stage, "voices")]
    streams = facts.streams
    rows = np.flatnonzero(np.isin(streams.load, loads) & (streams.sent != NULL) & (streams.done != NULL))
    if not len(units.start_ns) or not len(rows):
        return []
    level = Level.of(streams.sent[rows], streams.done[rows], np.ones(len(rows)))
    spoken = level.at(units.start_ns)
    usual = float(np.median(spoken))
    if usual < 1 or not (spoken > usual).any():
        return []
    during = f"more than {usual:g} voices spoke at once"
    return [
        Beside(
            work=Work(what="voices", who=loads[0] if len(loads) == 1 else None, during=during, level=level),
            beside=spoken > usual,
            known=np.ones(len(spoken), dtype=np.bool_),
            cycle=units.start_ns // _TOGETHER_NS,
        )
    ]


def _clock(facts: Facts, units: Units, end: Ints) -> list[Beside]:
    """Whether the GPU's clock was below that of the baseline."""
    clock, baseline = clock_of(facts), facts.plan.baseline
    if not len(clock) or baseline is None:
        return []
    usual = clock_of_baseline(facts, clock)
    if usual is None:
        return []
    during = f"the GPU ran below {format_share(THROTTLED)} of the baseline's clock ({usual:.0f} MHz)"
    value = clock.mean(units.start_ns, np.maximum(end, units.start_ns + 1))
    return [
        Beside(
            work=Work(what="throttle", who=None, during=during),
            beside=value < THROTTLED * usual,
            known=~np.isnan(value),
            cycle=units.start_ns // _TOGETHER_NS,
        )
    ]


def clock_of(facts: Facts) -> Series:
    """The SM clock, MHz."""
    return gpu_series(facts, "sm_clock_mhz")


def clock_of_baseline(facts: Facts, clock: Series) -> float | None:
    """The median clock in the baseline's windows."""
    baseline = facts.plan.baseline
    windows = () if baseline is None else facts.plan.measured.get(baseline.name, ())
    values = clock.value[within(clock.end_ns, windows)]
    return float(np.median(values)) if len(values) else None


def gpu_series(facts: Facts, metric: str) -> Series:
    """A metric of the `gpu` table, of all GPUs together."""
    rows = columns.table(facts.recording, "gpu")
    mine = (columns.texts(rows, "metric") == metric) & (columns.texts(rows, "status") == "ok")
    start, end = columns.ints(rows, "t0"), columns.ints(rows, "t1")
    mine &= (start != NULL) & (end != NULL)
    return Series.spanned(start[mine], end[mine], columns.floats(rows, "value")[mine])
