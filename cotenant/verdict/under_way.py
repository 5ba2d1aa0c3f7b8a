"""Utterances that took a whole measure window: their listener had nothing else to hear in it, and no other
fell due.

A stage is judged by the utterances that fall due within its window. In a talk (and in a closed loop) the next
one is due when the one before it is over: of a service so slow that one utterance lasts longer than the
window none falls due, although its listeners hear stalls all the time. So these are judged too:

- of a listener for whom nothing fell due in a window, what was under way from before its start until its end
  (but for the pause after it): what kept the listener from asking again;
- where nothing fell due for anybody in any of a stage's windows, all that was under way in one of them.

Neither depends on how it sounded, so no share is worse only because of what it is taken of. Of a healthy
service both are empty, as long as a window is longer than an utterance.

Judged is the part within the window (`heard_within`): silence, what was heard, and whether that was clean.
What had not ended when the load was stopped is judged until then, and did not fail. A wait that lasted until
then is +infinity, as it is where we give up; one that was over before the window is not known of the window
and is left out. So is what nobody could tell yet: a request not heard yet for under a second. All that is
known is bad or the best that it can be: by such utterances alone a gate can fail, and cannot pass.

All of a window stand in its first time block: they are there at once, and a listener counts once, however
long the window is. Only of the stall ratio, a share of time, each block of the window is a unit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS
from cotenant.playback.options import PlayerOptions
from cotenant.playback.under_way import SILENT_NS
from cotenant.records import SOLO_PREFIX, Recording
from cotenant.scenario.schema import Voices as VoicesLoad
from cotenant.units import counted
from cotenant.verdict.caveats import Caveat, caveat
from cotenant.verdict.columns import NULL, Bools, Ints, Streams, Texts
from cotenant.verdict.plan import Plan, StagePlan, Window, within
from cotenant.verdict.voices import play_voices


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """Rows of `streams`, voices and faces, each with the window that it is judged in."""

    rows: Ints
    since_ns: Ints
    until_ns: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidates:
    """Streams that were due before a window, of listeners for whom nothing was due in it. `nothing`: for
    nobody at all anything was. (Of a solo window, a reference, only what took it whole is of use.)"""

    rows: Ints
    window: Window
    nothing: bool


def find_under_way(
    recording: Recording,
    plan: Plan,
    streams: Streams,
    measured: Mapping[str, Ints],
    kind: Texts,
    options: PlayerOptions,
) -> dict[str, UnderWay]:
    """By stage, where there are any. `measured`: rows of what fell due; `kind`: of load, by row."""
    every = [*plan.stages, *plan.solos, *([plan.again] if plan.again else [])]
    voices = [
        (stage.name, one)
        for stage in every
        for one in _candidates(plan, streams, measured, kind, stage, "voices")
    ]
    found: dict[str, list[UnderWay]] = {}
    if voices:
        rows = np.unique(np.concatenate([one.rows for _, one in voices]))
        over, start = _over(recording, streams, rows, options, plan.last_ns)
        for name, one in voices:
            place = np.searchsorted(rows, one.rows)
            found.setdefault(name, []).append(_lasting(plan, streams, one, over[place], start[place]))
    for stage in every:
        mine = found.setdefault(stage.name, [])
        mine += [_faces_of(plan, streams, stage, kind, part) for part in tuple(mine)]
        if not plan.of_kind(stage, "voices"):
            for one in _candidates(plan, streams, measured, kind, stage, "faces"):
                done = _done(streams.done[one.rows], plan.last_ns)
                mine.append(_lasting(plan, streams, one, done, streams.due[one.rows]))
    joined = {name: _joined(parts) for name, parts in found.items()}
    return {name: part for name, part in joined.items() if len(part.rows)}


def under_way_caveat(under_way: Bools) -> Iterator[Caveat]:
    """Says of how many of a stage's utterances only a part is judged."""
    count, size = int(np.count_nonzero(under_way)), len(under_way)
    if count:
        yield caveat(
            "under-way",
            f"{count} of {counted(size, 'utterance')} {'was' if count == 1 else 'were'} under way when the "
            "measure window began, and none fell due in it for the same listeners: judged is what was heard "
            "in it",
            "measure longer (--set timing.measure=...)",
            under_way=count,
            streams=size,
        )


def _candidates(
    plan: Plan, streams: Streams, measured: Mapping[str, Ints], kind: Texts, stage: StagePlan, of: str
) -> Iterator[_Candidates]:
    due_rows = measured[stage.name]
    due_rows = due_rows[kind[due_rows] == of]
    everything = np.flatnonzero((streams.stage == stage.name) & (kind == of) & (streams.due != NULL))
    for window in plan.measured.get(stage.name, ()):
        due = streams.due[everything]
        before = everything[(due < window.start_ns) & (due >= _began_ns(plan, stage, window))]
        inside = due_rows[within(streams.due[due_rows], (window,))]
        served = set(zip(streams.load[inside], streams.listener[inside].tolist(), strict=True))
        listeners = zip(streams.load[before], streams.listener[before].tolist(), strict=True)
        left = before[[who not in served for who in listeners]].astype(np.int64)
        if len(left):
            nothing = not len(due_rows) and not stage.name.startswith(SOLO_PREFIX)
            yield _Candidates(rows=left, window=window, nothing=nothing)


def _began_ns(plan: Plan, stage: StagePlan, window: Window) -> int:
    """When the stage began that the window is of."""
    starts = [span.start_ns for span in plan.lived.get(stage.name, ()) if span.start_ns <= window.start_ns]
    return max(starts, default=NULL)


def _over(
    recording: Recording, streams: Streams, rows: Ints, options: PlayerOptions, last_ns: int
) -> tuple[Ints, Ints]:
    """When each was over for its listener, and when it began to be heard."""
    voices = play_voices(recording, streams.take(rows), options, last_ns)
    played = voices.played
    done = _done(streams.done[rows], last_ns)
    over = np.where(played.began, np.maximum(done, played.end_ns), done)
    return over, np.where(played.began, played.start_ns, PLUS_INF_NS)


def _done(done: Ints, last_ns: int) -> Ints:
    return np.where(done == NULL, last_ns, done)


def _lasting(plan: Plan, streams: Streams, found: _Candidates, over: Ints, start: Ints) -> UnderWay:
    """Those that lasted as long as is asked, and of which something is known."""
    window = found.window
    pause = np.array([_pause_ns(plan, str(load)) for load in streams.load[found.rows]], dtype=np.int64)
    lasted = over > window.start_ns
    if not found.nothing:
        lasted &= over + pause >= window.end_ns
    told = (start < window.end_ns) | (np.minimum(over, window.end_ns) - streams.due[found.rows] >= SILENT_NS)
    return _part(found.rows[lasted & told], window)


def _pause_ns(plan: Plan, load: str) -> int:
    """The pause after an utterance; of faces alone that of the voices whose turns they take."""
    written = plan.scenario.load[plan.loads[load].follows or load]
    return written.pause_ns if isinstance(written, VoicesLoad) else 0


def _faces_of(plan: Plan, streams: Streams, stage: StagePlan, kind: Texts, voices: UnderWay) -> UnderWay:
    """The faces that follow those voices: asked for at the same instant, of the same listener."""
    follows = {load.name: load.follows for load in plan.of_kind(stage, "faces")}
    mine = np.flatnonzero((streams.stage == stage.name) & (kind == "faces"))
    windows = {
        (str(streams.load[row]), int(streams.listener[row]), int(streams.due[row])): (int(since), int(until))
        for row, since, until in zip(voices.rows, voices.since_ns, voices.until_ns, strict=True)
    }
    keys = [
        (follows.get(str(streams.load[row]), ""), int(streams.listener[row]), int(streams.due[row]))
        for row in mine
    ]
    kept = [(int(row), *windows[key]) for row, key in zip(mine, keys, strict=True) if key in windows]
    rows, since, until = np.array(kept, dtype=np.int64).reshape(-1, 3).T
    return UnderWay(rows=rows, since_ns=since, until_ns=until)


def _part(rows: Ints, window: Window) -> UnderWay:
    return UnderWay(
        rows=rows, since_ns=np.full(len(rows), window.start_ns), until_ns=np.full(len(rows), window.end_ns)
    )


def _joined(parts: list[UnderWay]) -> UnderWay:
    """All of a stage, a stream once: with the first of its windows."""
    none = np.zeros(0, dtype=np.int64)
    rows, since, until = (
        np.concatenate([none, *(getattr(part, name) for part in parts)]).astype(np.int64)
        for name in ("rows", "since_ns", "until_ns")
    )
    rows, first = np.unique(rows, return_index=True)
    return UnderWay(rows=rows, since_ns=since[first], until_ns=until[first])
