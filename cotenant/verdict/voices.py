"""Every measured voice of a run through the player: one element a stream, whatever stage it is of."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant.playback.blocks import in_order, without_empty
from cotenant.playback.fleet import Arrivals, FleetPlayback, play_fleet
from cotenant.playback.gaps import stream_gaps
from cotenant.playback.options import PlayerOptions
from cotenant.records import Recording
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Bools, Ints, Streams

SHORT_SHARE: Final = 0.7
RUNAWAY_SHARE: Final = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Voices:
    """Voices and what became of them; per stream, in the order of `streams`. `arrivals` is CSR.

    `gaps_ns` are the gaps between chunks of all streams with their offsets. `failed`: the end is not eos.
    `reordered`: how many streams had rows out of order.
    """

    streams: Streams
    arrivals: Arrivals
    played: FleetPlayback
    failed: Bools
    gaps_ns: Ints
    gap_offsets: Ints
    reordered: int


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
    )
