"""Every measured voice of a run through the player: one element a stream, whatever stage it is of."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cotenant.playback.blocks import in_order, without_empty
from cotenant.playback.fleet import Arrivals, FleetEvents, FleetPlayback, play_fleet
from cotenant.playback.gaps import stream_gaps
from cotenant.playback.options import CLEAN_STALL_NS, COUNTED_SILENCE_NS, PlayerOptions
from cotenant.records import Recording
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Bools, Ints, Streams

SHORT_SHARE: Final = 0.7
RUNAWAY_SHARE: Final = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Voices:
    """Voices and what became of them; per stream, in the order of `streams`. `arrivals` is CSR.

    `gaps_ns` are the gaps between chunks of all streams with their offsets. `failed`: the end is not eos.
    `reordered`: how many streams had rows out of order. `since_ns`, `until_ns`: the window in which one that
    was under way before it is judged (see `heard_within`), `NULL` for what is judged whole.
    """

    streams: Streams
    arrivals: Arrivals
    played: FleetPlayback
    failed: Bools
    gaps_ns: Ints
    gap_offsets: Ints
    reordered: int
    since_ns: Ints
    until_ns: Ints

    @property
    def under_way(self) -> Bools:
        """Which are judged by a part of them."""
        return np.asarray(self.since_ns != NULL, dtype=np.bool_)


def play_voices(recording: Recording, streams: Streams, options: PlayerOptions, last_ns: int) -> Voices:
    """Plays those streams; `last_ns` is when one without an end is taken to have been given up."""
    rows = columns.table(recording, "chunks")
    order, offsets = columns.group(columns.ints(rows, "stream"), streams.stream)
    arrival, media = columns.ints(rows, "arrival")[order], columns.ints(rows, "media")[order]
    if not bool(((media > 0) & (arrival != NULL)).all()):
        arrival, media, offsets = without_empty(arrival, np.where(arrival == NULL, 0, media), offsets)
    arrival, media, reordered = in_order(arrival, media, offsets)
    ended = (streams.end == "eos") & (streams.done != NULL)
    last = columns.last_of(arrival, offsets)
    # No end is before the last byte, and what has no end at all was given up when the recording stops.
    done = np.maximum(np.where(streams.done == NULL, last_ns, streams.done), last)
    arrivals = Arrivals(
        offsets=offsets, arrival_ns=arrival, media_ns=media, done_ns=done, ended=ended, give_up_ns=done
    )
    gaps, gap_offsets = stream_gaps(arrival, offsets)
    return Voices(
        streams=streams,
        arrivals=arrivals,
        played=play_fleet(arrivals, options),
        failed=~ended,
        gaps_ns=gaps,
        gap_offsets=gap_offsets,
        reordered=int(np.count_nonzero(reordered)),
        since_ns=np.full(len(streams), NULL),
        until_ns=np.full(len(streams), NULL),
    )


def gaps_within(voices: Voices) -> tuple[Ints, Ints]:
    """The gaps between chunks with their offsets, of voices under way those that ended in their windows or
    later."""
    if not voices.under_way.any():
        return voices.gaps_ns, voices.gap_offsets
    owner, offsets = columns.owner(voices.gap_offsets), voices.arrivals.offsets
    later = np.delete(voices.arrivals.arrival_ns, offsets[:-1][np.diff(offsets) > 0])
    kept = later >= voices.since_ns[owner]
    counts = np.bincount(owner[kept], minlength=len(voices.streams))
    return voices.gaps_ns[kept], np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def heard_within(voices: Voices) -> Voices:
    """The same, with what was heard of each voice under way in its window alone: underruns, silence, audio
    and whether it was clean; `began` says whether it was heard by the end of it.

    Of a silence that reaches out of the window the part inside counts. `failed` is one that the service ended
    badly, not one that we stopped. Silences under 1 ms are not in the sum. All other numbers, and all other
    voices, are as they were; so this may be repeated.
    """
    rows = np.flatnonzero(voices.under_way)
    if not len(rows):
        return voices
    played, events = voices.played, voices.played.events
    since, until = voices.since_ns[events.stream], voices.until_ns[events.stream]
    inside = since != NULL
    start = np.where(inside, np.maximum(events.start_ns, since), events.start_ns)
    end = events.start_ns + events.duration_ns
    end = np.where(inside, np.minimum(end, until), end)
    kept = ~inside | (end - start >= COUNTED_SILENCE_NS)
    heard = FleetEvents(
        stream=events.stream[kept],
        start_ns=start[kept],
        media_ns=events.media_ns[kept],
        duration_ns=(end - start)[kept],
        open=events.open[kept],
    )
    changed = {
        name: getattr(played, name).copy()
        for name in ("began", "underruns", "stall_total_ns", "stall_longest_ns", "heard_ns", "clean")
    }
    failed = voices.failed.copy()
    for row in rows:
        low, high = int(voices.since_ns[row]), int(voices.until_ns[row])
        silence = heard.duration_ns[heard.stream == row]
        began = bool(played.began[row]) and played.start_ns[row] < high
        spoken = min(int(played.end_ns[row]), high) - max(int(played.start_ns[row]), low) if began else 0
        longest = int(silence.max(initial=0))
        failed[row] = voices.streams.end[row] in ("error", "truncated")
        changed["began"][row] = began
        changed["underruns"][row] = len(silence)
        changed["stall_total_ns"][row] = silence.sum()
        changed["stall_longest_ns"][row] = longest
        changed["heard_ns"][row] = max(0, spoken - int(silence.sum()))
        changed["clean"][row] = began and not failed[row] and longest <= CLEAN_STALL_NS
    return replace(voices, played=replace(played, **changed, events=heard), failed=failed)


def silence_by_block(voices: Voices, row: int, block_ns: int) -> tuple[Ints, Ints]:
    """Silence and audio heard of one voice under way, in ns, in each of the blocks that its window is cut
    into (as in `block_of`, its own being the first)."""
    low, high = int(voices.since_ns[row]), int(voices.until_ns[row])
    edges = np.append(low + block_ns * np.arange(max(1, (high - low) // block_ns), dtype=np.int64), high)
    played, events = voices.played, voices.played.events
    mine = events.stream == row
    start, duration = events.start_ns[mine], events.duration_ns[mine]
    silence = _overlaps(edges, start, start + duration).sum(axis=0)
    if not played.began[row]:
        return silence, np.zeros(len(silence), dtype=np.int64)
    playing = _overlaps(edges, played.start_ns[[row]], played.end_ns[[row]])[0]
    return silence, np.maximum(0, playing - silence)


def _overlaps(edges: Ints, start: Ints, end: Ints) -> Ints:
    """How much of each span lies between each two edges: spans by rows."""
    low, high = np.maximum(start[:, None], edges[:-1]), np.minimum(end[:, None], edges[1:])
    return np.asarray(np.maximum(0, high - low), dtype=np.int64)
