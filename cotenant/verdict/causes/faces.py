"""The frames of a stage's faces as units, its freezes as events, and what a freeze says of the voice."""

import math
from typing import Final

import numpy as np

from cotenant.playback.blocks import in_order
from cotenant.playback.face_fleet import FaceFleet
from cotenant.playback.freezes import freezes_of
from cotenant.records import SOLO_PREFIX
from cotenant.units import NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.bootstrap import upper_t
from cotenant.verdict.causes.slow import TAIL, Slower
from cotenant.verdict.causes.units import Events, Units, units_of
from cotenant.verdict.columns import NULL, Bools, Floats, Ints
from cotenant.verdict.facts import Facts
from cotenant.verdict.plan import StagePlan

# A head that draws less than this share of its frames in time, with nothing beside it, is too slow itself.
FAST_ENOUGH: Final = 0.9
LEAST_SECONDS: Final = 4


def face_units(facts: Facts, stage: str) -> tuple[Units, Events, Bools]:
    """The frames, the freezes by libwebrtc's rule, and which of those waited for the voice. A frame is made
    from when its sound was handed over, or from the one before: a head that waits for sound does nothing.

    A freeze waited for the voice where no frame's arrival ended it (the picture was there, its sound was
    not), or where the head was handed the sound of the frame that ended it only after the freeze had begun.
    """
    clips, streams = facts.faces.clips[stage], facts.faces.streams[stage]
    rows = columns.table(facts.recording, "frames")
    order, offsets = columns.group(columns.ints(rows, "stream"), streams.stream)
    arrival, handed = columns.ints(rows, "arrival")[order], columns.ints(rows, "audio_handed")[order]
    there = arrival != NULL
    before = np.concatenate(([0], np.cumsum(there))).astype(np.int64)
    arrival, handed, _ = in_order(arrival[there], handed[there], before[offsets])
    offsets = before[offsets]
    events = freeze_events(clips)
    begin = np.where(clips.began, clips.pair_start_ns, np.iinfo(np.int64).max)
    give_up = np.where(clips.began, clips.end_ns, 0)
    units, events = units_of(arrival, offsets, begin, give_up, events, handed)
    return units, events, _waited(arrival, handed, offsets, events)


def slow_alone(facts: Facts, load: str) -> float | None:
    """Frames a second that a head draws in its solo window, where that is too few; else None."""
    clips = facts.faces.clips.get(SOLO_PREFIX + load)
    if clips is None or load in facts.invalid_solos or not len(clips.intervals_ns):
        return None
    seconds = clips.intervals_ns / NS_PER_S
    rate = float(seconds.sum() / (seconds**2).sum())
    return rate if rate < FAST_ENOUGH * facts.plan.loads[load].fps else None


def usual_alone(facts: Facts, stage: StagePlan) -> int | None:
    """How long the frames of the stage's faces usually take in their solo window, ns; None without one."""
    for load in facts.plan.of_kind(stage, "faces"):
        if SOLO_PREFIX + load.name in facts.faces.clips and load.name not in facts.invalid_solos:
            units, _, _ = face_units(facts, SOLO_PREFIX + load.name)
            return units.usual_ns if len(units.start_ns) else None
    return None


def why_no_solo(facts: Facts, stage: StagePlan) -> str:
    """Why nothing is said by the solo window of a stage's faces: it is INVALID; `""` where it is not."""
    for load in facts.plan.of_kind(stage, "faces"):
        if (reason := facts.invalid_solos.get(load.name)) is not None:
            return f"the solo window is invalid ({reason})"
    return ""


def slower_than_solo(facts: Facts, stage: StagePlan, units: Units) -> Slower | str:
    """By how much longer the pictures of a stage take than in the solo window, or why that is not known.

    The ratio of the geometric means over seconds of the mean making time in each, with Welch's interval (the
    fewer degrees of freedom of the two); `rtf` and `rtf_baseline` are the mean making times, s.
    """
    loads = [load.name for load in facts.plan.of_kind(stage, "faces")]
    solos = [SOLO_PREFIX + load for load in loads if load not in facts.invalid_solos]
    solo = next((name for name in solos if name in facts.faces.clips), None)
    if solo is None:
        return why_no_solo(facts, stage) or "there is no solo window"
    alone, events, _ = face_units(facts, solo)
    if len(events.unit):
        return "it freezes in its solo window too"
    here, there = _by_second(units), _by_second(alone)
    least = min(len(here), len(there))
    if least < LEAST_SECONDS:
        return "a solo window is too short for an interval"
    error = math.sqrt(here.var(ddof=1) / len(here) + there.var(ddof=1) / len(there))
    middle, wide = float(here.mean() - there.mean()), upper_t(TAIL, least - 1) * error
    return Slower(
        value=math.exp(middle),
        low=math.exp(middle - wide),
        high=math.exp(middle + wide),
        pairs=least,
        rtf=float((units.end_ns - units.start_ns).mean()) / NS_PER_S,
        rtf_baseline=float((alone.end_ns - alone.start_ns).mean()) / NS_PER_S,
    )


def _by_second(units: Units) -> Floats:
    """The logarithm of the mean making time in each second of each clip, ns."""
    second = units.start_ns // NS_PER_S
    _, index = np.unique(np.column_stack((units.stream, second)), axis=0, return_inverse=True)
    index = index.reshape(-1)
    total = np.bincount(index, weights=(units.end_ns - units.start_ns).astype(np.float64))
    return np.asarray(np.log(np.maximum(1.0, total / np.maximum(1, np.bincount(index)))))


def freeze_events(clips: FaceFleet) -> Events:
    """Those that `clips.freezes` counts, one by one."""
    found: list[tuple[int, int, int, bool]] = []
    for clip in np.flatnonzero(clips.freezes).tolist():
        shown = clips.shown_ns[clips.shown_offsets[clip] : clips.shown_offsets[clip + 1]]
        start = int(clips.pair_start_ns[clip])
        found += [
            (clip, freeze.start_ns, freeze.duration_ns, freeze.open)
            for freeze in freezes_of(shown, int(clips.end_ns[clip]), start)
        ]
    table = np.array(found, dtype=np.int64).reshape(-1, 4)
    return Events(
        stream=table[:, 0],
        start_ns=table[:, 1],
        duration_ns=table[:, 2],
        open=table[:, 3].astype(np.bool_),
        unit=np.full(len(table), -1, dtype=np.int64),
    )


def _waited(arrival: Ints, handed: Ints, offsets: Ints, events: Events) -> Bools:
    found = np.zeros(len(events.unit), dtype=np.bool_)
    ends = events.start_ns + events.duration_ns
    for event in np.flatnonzero(~events.open).tolist():
        clip = events.stream[event]
        mine = slice(int(offsets[clip]), int(offsets[clip + 1]))
        low, high = np.searchsorted(arrival[mine], (ends[event], ends[event] + 1))
        late = handed[mine][low:high]
        found[event] = low == high or bool((late > events.start_ns[event]).any())
    return found
