"""The chunks of the voices, what was heard of them, and the arrows from request to chunk to playback."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cotenant.playback.player import Playback, wall_of
from cotenant.report.lanes import lanes
from cotenant.report.listening import Voice
from cotenant.report.trace_events import TraceEvents
from cotenant.units import ms_from_ns
from cotenant.verdict.columns import NULL


class Flows:
    """Numbers the chunks of a trace: an arrow each."""

    def __init__(self) -> None:
        self._last = 0
        self.of: dict[int, list[int | None]] = {}

    def add_chunks(
        self, events: TraceEvents, pid: int, request_tid: int, tid: int, start_ns: int, voice: Voice
    ) -> None:
        """The chunks of a voice, each from the arrival before it (the first: from `start_ns`) to its own.

        The request's slice must be the last that was added.
        """
        stream, stage = voice.row["stream"], voice.row["stage"]
        numbers: list[int | None] = []
        for media_ns in voice.media_ns.tolist():
            # What has no audio, as a header, is never heard.
            self._last += 1 if media_ns else 0
            numbers.append(self._last if media_ns else None)
            if media_ns:
                events.flow("s", self._last, pid, request_tid, start_ns)
        before_ns = start_ns
        for number, seq, arrival_ns, media_ns, size in zip(
            numbers,
            voice.seq.tolist(),
            voice.arrival_ns.tolist(),
            voice.media_ns.tolist(),
            voice.size_bytes.tolist(),
            strict=True,
        ):
            begin_ns = min(before_ns, arrival_ns)
            args: dict[str, Any] = {
                "stream": stream, "stage": stage, "seq": seq, "media_ms": ms_from_ns(media_ns),
                "size_bytes": None if size == NULL else size,
            }  # fmt: skip
            events.slice(pid, tid, f"chunk {seq}", "chunk", begin_ns, arrival_ns, args)
            if number is not None:
                events.flow("t", number, pid, tid, begin_ns)
            before_ns = arrival_ns
        self.of[stream] = numbers


def add_playback(events: TraceEvents, pid: int, voices: Mapping[int, Voice], flows: Flows) -> None:
    """A track for each listener (more where utterances overlap): each voice that began, in it what played and
    what stalled without a gap, an instant for each underrun, and the ends of the arrows."""
    groups: dict[tuple[str, int], list[tuple[int, int, Voice, Playback]]] = {}
    for voice in voices.values():
        heard = voice.playback
        if heard is not None and heard.start_ns is not None and heard.end_ns is not None:
            key = (voice.row["load"] or "?", voice.row["listener"] or 0)
            groups.setdefault(key, []).append((heard.start_ns, heard.end_ns, voice, heard))
    for (load, listener), spans in sorted(groups.items(), key=lambda item: item[0]):
        spans.sort(key=lambda span: (span[0], span[2].row["stream"]))
        lane_of = lanes((start, end) for start, end, _, _ in spans)
        tids: list[int] = []
        for lane, (_, _, voice, heard) in zip(lane_of, spans, strict=True):
            if lane == len(tids):
                again = f" ({lane + 1})" if lane else ""
                tids.append(events.thread(pid, f"{load} {listener}{again}"))
            _add_voice(events, pid, tids[lane], voice, heard, flows.of.get(voice.row["stream"]))


def _add_voice(
    events: TraceEvents, pid: int, tid: int, voice: Voice, heard: Playback, numbers: list[int | None] | None
) -> None:
    assert heard.start_ns is not None
    assert heard.end_ns is not None
    row = voice.row
    name = f"{row['load']} {row['listener']}/{row['utterance']}"
    about = {"stream": row["stream"], "stage": row["stage"]}
    args = {
        **about,
        "underruns": heard.underruns,
        "stall_total_ms": ms_from_ns(heard.stall_total_ns or 0),
        "stall_longest_ms": ms_from_ns(heard.stall_longest_ns or 0),
        "headroom_ms": None if heard.headroom_ns is None else ms_from_ns(heard.headroom_ns),
        "heard_ms": ms_from_ns(heard.heard_ns),
        "clean": heard.clean,
    }
    events.slice(pid, tid, name, "playback", heard.start_ns, heard.end_ns, args)
    ends = _flow_ends(heard, numbers)
    pieces: list[tuple[int, int, str, dict[str, Any]]] = []
    from_ns = heard.start_ns
    for event in heard.events:
        stall_end_ns = event.start_ns + event.duration_ns
        if event.start_ns > from_ns:
            pieces.append((from_ns, event.start_ns, "playing", about))
        stall = {
            **about,
            "media_ms": ms_from_ns(event.media_ns),
            "duration_ms": ms_from_ns(event.duration_ns),
        }
        pieces.append((event.start_ns, stall_end_ns, "stall", {**stall, "open": event.open}))
        from_ns = stall_end_ns
    if heard.end_ns > from_ns:
        pieces.append((from_ns, heard.end_ns, "playing", about))
    at = 0
    for start_ns, end_ns, what, piece_args in pieces:
        events.slice(pid, tid, what, what, start_ns, end_ns, piece_args)
        if what == "stall":
            events.instant(pid, tid, "underrun", "underrun", start_ns, piece_args)
            continue
        while at < len(ends) and ends[at][0] < end_ns:
            events.flow("f", ends[at][1], pid, tid, max(start_ns, ends[at][0]))
            at += 1


def _flow_ends(heard: Playback, numbers: list[int | None] | None) -> list[tuple[int, int]]:
    """When each chunk is first heard; one that was lost, or that nobody waited for, never is."""
    if numbers is None or heard.end_ns is None:
        return []
    media = heard.media_ns
    first = wall_of(heard, media.cumsum() - media)
    ends = np.minimum(first + media, heard.end_ns)
    if len(heard.silence_start_ns):
        # Under `drop` the clock runs on while it is silent: a chunk is heard from the end of the silence on.
        silence = np.maximum(np.searchsorted(heard.silence_start_ns, first, side="right") - 1, 0)
        begins = heard.silence_start_ns[silence]
        over = begins + heard.silence_duration_ns[silence]
        first = np.where((begins <= first) & (first < over), over, first)
    known = [number for number in numbers if number is not None]
    return [(int(first[i]), known[i]) for i in np.flatnonzero(first < ends).tolist()]
