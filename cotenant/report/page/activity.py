"""Who was at work when: spans of every request, and what ran beside an utterance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.report.lanes import lanes
from cotenant.report.page.base import Base, is_warm, ms, rows
from cotenant.units import NS_PER_S, counted
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Ints

OVERLAP_KINDS = ("prefill", "decode", "face")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """The spans of one load and kind by start: time, stream, lane and label of each."""

    load: str
    kind: str
    start_ns: Ints
    end_ns: Ints
    stream: Ints
    lane: Ints
    label: list[str]


Activity = tuple[Spans, ...]


def activity_of(base: Base) -> Activity:
    """The spans of all loads, warm-up apart; requests that never began are in none."""
    facts = base.facts
    found: list[Spans] = []
    for load in facts.plan.loads.values():
        if load.kind == "completions":
            found += _completions(base, load.name)
        elif load.kind == "voices":
            found.append(_voices(base, load.name))
        else:
            found.append(_faces(base, load.name))
    return tuple(spans for spans in found if len(spans.start_ns))


def _mine(base: Base, load: str) -> Ints:
    streams = base.facts.streams
    warm = np.array([is_warm(stage) for stage in streams.stage], dtype=np.bool_)
    return np.flatnonzero((streams.load == load) & ~warm & (streams.sent != NULL)).astype(np.int64)


def _completions(base: Base, load: str) -> list[Spans]:
    """`prefill`: from sent to the first output, or to the end where none came; `decode`: from there on."""
    tokens = base.facts.tokens
    mine = np.flatnonzero(tokens.streams.load == load)
    warm = np.array([is_warm(stage) for stage in tokens.streams.stage[mine]], dtype=np.bool_)
    mine = mine[~warm & (tokens.streams.sent[mine] != NULL)]
    streams = tokens.streams.take(mine)
    first = columns.first_of(tokens.arrival_ns, tokens.offsets)[mine]
    done = np.where(streams.done == NULL, base.end_ns, streams.done)
    begun = np.where(first == NULL, done, first)
    order = np.lexsort((streams.stream, streams.sent))
    lane = _lanes(streams.sent[order], done[order])
    label = []
    for prompt, end in zip(streams.prompt_tokens[order].tolist(), streams.end[order], strict=True):
        said = "prompt" if prompt == NULL else f"{prompt} prompt tokens"
        label.append(said if end == "eos" else f"{said}, {end}")
    decoded = np.flatnonzero(first[order] != NULL)
    return [
        Spans(
            load=load, kind="prefill", start_ns=streams.sent[order], end_ns=begun[order],
            stream=streams.stream[order], lane=lane, label=label,
        ),
        Spans(
            load=load, kind="decode", start_ns=begun[order][decoded],
            end_ns=np.maximum(done, begun)[order][decoded], stream=streams.stream[order][decoded],
            lane=lane[decoded], label=[label[at] for at in decoded],
        ),
    ]  # fmt: skip


def _voices(base: Base, load: str) -> Spans:
    """From due to the end of playback (to the last byte of those that were not measured)."""
    mine = _mine(base, load)
    streams = base.facts.streams.take(mine)
    done = np.where(streams.done == NULL, base.end_ns, streams.done)
    voices = base.facts.voices
    end = done.copy()
    place = {int(stream): at for at, stream in enumerate(voices.streams.stream.tolist())}
    for at, stream in enumerate(streams.stream.tolist()):
        row = place.get(stream)
        if row is not None and voices.played.began[row]:
            end[at] = voices.played.end_ns[row]
    start = np.where(streams.due == NULL, streams.sent, streams.due)
    label = [
        f"listener {listener}, {'settling' if utterance < 0 else f'utterance {utterance}'}"
        for listener, utterance in zip(streams.listener.tolist(), streams.utterance.tolist(), strict=True)
    ]
    return _ordered(load, "voice", start, end, streams.stream, label)


def _faces(base: Base, load: str) -> Spans:
    """From the first frame to the last."""
    mine = _mine(base, load)
    streams = base.facts.streams.take(mine)
    table = rows(base.recording, "frames")
    order, offsets = columns.group(columns.ints(table, "stream"), streams.stream)
    arrival = columns.ints(table, "arrival")[order]
    first, last = columns.first_of(arrival, offsets), columns.last_of(arrival, offsets)
    some = np.flatnonzero((first != NULL) & (last != NULL))
    label = [f"listener {listener}" for listener in streams.listener[some].tolist()]
    return _ordered(load, "face", first[some], last[some], streams.stream[some], label)


def _ordered(load: str, kind: str, start: Ints, end: Ints, stream: Ints, label: Sequence[str]) -> Spans:
    order = np.lexsort((stream, start))
    start, end = start[order], np.maximum(start, end)[order]
    return Spans(
        load=load, kind=kind, start_ns=start, end_ns=end, stream=stream[order], lane=_lanes(start, end),
        label=[label[at] for at in order],
    )  # fmt: skip


def _lanes(start: Ints, end: Ints) -> Ints:
    return np.array(lanes(zip(start.tolist(), end.tolist(), strict=True)), dtype=np.int64)


def joined(base: Base, activity: Activity, most: int) -> tuple[list[dict[str, Any]], str | None]:
    """The spans as the page shows them; where there are more than `most`, neighbours of a lane that lie
    close together are one."""
    found = [entry for spans in activity for entry in _entries(base, spans, 0)]
    total, gap_ns = len(found), NS_PER_S // 20
    while len(found) > most and gap_ns <= base.end_ns - base.t0_ns:
        found = [entry for spans in activity for entry in _entries(base, spans, gap_ns)]
        gap_ns *= 2
    why = None
    if len(found) < total:
        near = f"those of a lane less than {gap_ns / 2 / NS_PER_S:g} s apart are joined"
        why = f"{total} requests are too many to draw: {near}"
    return sorted(found, key=lambda span: (span["start_s"], span["load"], span["lane"])), why


def _entries(base: Base, spans: Spans, gap_ns: int) -> list[dict[str, Any]]:
    groups = np.arange(len(spans.start_ns))
    order = np.lexsort((spans.start_ns, spans.lane))
    start, end, lane = spans.start_ns[order], spans.end_ns[order], spans.lane[order]
    if gap_ns and len(order):
        apart = (lane[1:] != lane[:-1]) | (start[1:] - end[:-1] >= gap_ns)
        groups = np.concatenate(([0], np.cumsum(apart)))
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    begins, ends = base.seconds(start[first]), base.seconds(end[last])
    found = []
    for place, (low, high) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        one = low == high
        found.append(
            {
                "load": spans.load,
                "lane": int(lane[low]),
                "start_s": begins[place],
                "end_s": ends[place],
                "stream": int(spans.stream[order[low]]) if one else None,
                "kind": spans.kind,
                "label": spans.label[order[low]] if one else counted(high - low + 1, "request"),
            }
        )
    return found


def beside(activity: Activity, stream: int, start_ns: int, end_ns: int, due_ns: int) -> list[dict[str, Any]]:
    """What else ran between two instants, joined per load and kind; times in ms from `due_ns`."""
    found = []
    for spans in activity:
        if spans.kind not in OVERLAP_KINDS:
            continue
        high = int(np.searchsorted(spans.start_ns, end_ns))
        near = np.flatnonzero(spans.end_ns[:high] > start_ns)
        near = near[spans.stream[near] != stream]
        if not len(near):
            continue
        begin = np.maximum(spans.start_ns[near], start_ns)
        finish = np.minimum(np.maximum.accumulate(spans.end_ns[near]), end_ns)
        apart = np.flatnonzero(np.append(True, begin[1:] > finish[:-1]))
        last = np.append(apart[1:], len(near)) - 1
        for low, high in zip(apart.tolist(), last.tolist(), strict=True):
            count = high - low + 1
            found.append(
                {
                    "load": spans.load,
                    "kind": spans.kind,
                    "start_ms": ms(int(begin[low]) - due_ns),
                    "end_ms": ms(int(finish[high]) - due_ns),
                    "label": spans.label[near[low]] if count == 1 else counted(count, "request"),
                    "n": count,
                }
            )
    return sorted(found, key=lambda one: (one["start_ms"], one["load"], one["kind"]))
