"""Lines of what was heard and seen: playable ahead, gaps between bursts, frames a second."""

from typing import Any, Final

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS
from cotenant.playback.gaps import BURST_NS
from cotenant.report.page.base import Base
from cotenant.report.page.series import line
from cotenant.units import NS_PER_MS, NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.columns import Floats, Ints

_BEGAN_AT_MOST: Final = PLUS_INF_NS


def playable_ahead(base: Base) -> list[dict[str, Any]]:
    """For each listener, the media that lies ready just before and just after each arrival."""
    voices = base.facts.voices
    arrivals = voices.arrivals
    sizes = np.diff(arrivals.offsets)
    owner = columns.owner(arrivals.offsets)
    total = np.concatenate(([0], np.cumsum(arrivals.media_ns)))
    ready_before = total[:-1] - total[arrivals.offsets[:-1]][owner]
    heard = heard_at(base, arrivals.arrival_ns, owner)
    before = np.maximum(0, ready_before - heard)
    after = np.maximum(0, ready_before + arrivals.media_ns - heard)
    times = np.repeat(arrivals.arrival_ns, 2)
    values = np.column_stack([before, after]).ravel()
    rows = np.repeat(owner, 2)
    # The last sample's end closes each utterance.
    ended = np.flatnonzero(voices.played.began & (sizes > 0))
    times = np.concatenate([times, voices.played.end_ns[ended]])
    values = np.concatenate([values, np.zeros(len(ended), dtype=np.int64)])
    rows = np.concatenate([rows, ended])
    order = np.lexsort((times, rows))
    times, values, rows = times[order], values[order], rows[order]
    found = []
    streams = voices.streams
    for load in sorted(set(streams.load)):
        for listener in np.unique(streams.listener[streams.load == load]).tolist():
            mine = np.flatnonzero((streams.load == load) & (streams.listener == listener))
            # By due time: a break between two utterances, and time rises but where two overlap.
            rank = np.full(len(streams), -1, dtype=np.int64)
            rank[mine[np.argsort(streams.due[mine], kind="stable")]] = np.arange(len(mine))
            points = np.flatnonzero(rank[rows] >= 0)
            points = points[np.argsort(rank[rows[points]], kind="stable")]
            own_times = np.maximum.accumulate(times[points]) if len(points) else times[points]
            found.append(
                line(
                    base,
                    group="ahead",
                    name=f"ahead/{load}/{listener}",
                    label=f"{load}, listener {listener}",
                    unit="ms",
                    time_ns=own_times,
                    value=values[points] / NS_PER_MS,
                    segment=rank[rows[points]],
                    digits=1,
                )
            )
    return [entry for entry in found if entry["x"]]


def heard_at(base: Base, times_ns: Ints, owner: Ints) -> Ints:
    """How far playback is in each stream (`owner`: its row) at those times: media ns, the silences taken
    off; a player that drops keeps its clock."""
    played = base.facts.voices.played
    start = np.where(played.began, played.start_ns, _BEGAN_AT_MOST)[owner]
    heard = np.maximum(0, np.minimum(times_ns - start, PLUS_INF_NS))
    events = played.events
    if base.facts.player.after_underrun == "drop" or not len(events.stream):
        return np.asarray(heard, dtype=np.int64)
    stalled = set(np.unique(events.stream).tolist())
    edges = np.searchsorted(owner, np.arange(len(played.chunks) + 1))
    spans = np.searchsorted(events.stream, np.arange(len(played.chunks) + 1))
    for stream in stalled:
        rows = slice(edges[stream], edges[stream + 1])
        own = slice(spans[stream], spans[stream + 1])
        begin, length = events.start_ns[own], events.duration_ns[own]
        gone = np.concatenate(([0], np.cumsum(length)))
        at = np.searchsorted(begin, times_ns[rows], side="right")
        last = np.maximum(at - 1, 0)
        silent = np.where(
            at > 0, gone[last] + np.minimum(length[last], np.maximum(0, times_ns[rows] - begin[last])), 0
        )
        heard[rows] -= silent
    return np.asarray(np.maximum(0, heard), dtype=np.int64)


def gap_lines(base: Base) -> list[dict[str, Any]]:
    """For each load of voices, the gaps between bursts, each at its end."""
    voices = base.facts.voices
    sizes = np.diff(voices.arrivals.offsets)
    owner = columns.owner(voices.arrivals.offsets)
    later = np.ones(len(owner), dtype=np.bool_)
    later[voices.arrivals.offsets[:-1][sizes > 0]] = False
    times, rows = voices.arrivals.arrival_ns[later], owner[later]
    long = voices.gaps_ns >= BURST_NS
    found = []
    for load in sorted(set(voices.streams.load)):
        mine = np.flatnonzero(long & (voices.streams.load[rows] == load))
        mine = mine[np.argsort(times[mine], kind="stable")]
        found.append(
            line(
                base,
                group="gap",
                name=f"gap/{load}",
                label=f"{load}: gap between bursts",
                unit="ms",
                time_ns=times[mine],
                value=voices.gaps_ns[mine] / NS_PER_MS,
                most=4000,
                digits=1,
            )
        )
    return [entry for entry in found if entry["x"]]


def fps_lines(base: Base) -> list[dict[str, Any]]:
    """For each listener's faces, the frames presented in the last second."""
    times: list[Ints] = []
    counts: list[Ints] = []
    who: list[Ints] = []
    segments: list[Ints] = []
    number = 0
    for stage, seen in base.facts.faces.clips.items():
        clip = columns.owner(seen.window_offsets)
        times.append(seen.window_start_ns + NS_PER_S)
        counts.append(seen.window_counts)
        who.append(base.facts.faces.streams[stage].listener[clip])
        segments.append(clip + number)
        number += len(seen.began)
    if not times:
        return []
    at, value, listener, segment = (np.concatenate(parts) for parts in (times, counts, who, segments))
    found = []
    for one in np.unique(listener).tolist():
        mine = np.flatnonzero(listener == one)
        mine = mine[np.lexsort((at[mine], segment[mine]))]
        first = {int(s): int(t) for s, t in zip(segment[mine][::-1], at[mine][::-1], strict=True)}
        mine = mine[np.argsort([first[int(s)] for s in segment[mine]], kind="stable")]
        found.append(
            line(
                base,
                group="fps",
                name=f"fps/{one}",
                label=f"face of listener {one}: frames in the last second",
                unit="fps",
                time_ns=np.maximum.accumulate(at[mine]),
                value=_floats(value[mine]),
                segment=segment[mine],
                digits=1,
            )
        )
    return [entry for entry in found if entry["x"]]


def _floats(values: Ints) -> Floats:
    return np.asarray(values, dtype=np.float64)
