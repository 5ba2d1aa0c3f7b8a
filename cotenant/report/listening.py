"""Every voice of a run through one player: the rows of its stream, of its chunks, and its playback."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import Playback, play
from cotenant.records import Recording
from cotenant.verdict import columns
from cotenant.verdict.columns import Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Voice:
    """One voice. `row`: its row of `streams`; of its chunks, in the table's order, `seq`, `arrival_ns`,
    `media_ns` (0 for one without audio) and `size_bytes` (columns.NULL where null). `playback` None: no audio
    arrived."""

    row: dict[str, Any]
    seq: Ints
    arrival_ns: Ints
    media_ns: Ints
    size_bytes: Ints
    playback: Playback | None


def every_voice(recording: Recording, options: PlayerOptions) -> Iterator[Voice]:
    """The voices in the table's order, warm-up and solo windows too.

    A stream ends as the verdict has it end: whole at `done`, else given up there, never before its last byte.
    """
    streams = columns.table(recording, "streams")
    rows = streams.filter(pc.equal(streams["kind"], "voices"))
    chunks = columns.table(recording, "chunks")
    order, offsets = columns.group(columns.ints(chunks, "stream"), columns.ints(rows, "stream"))
    seq, arrival, media, size = (
        columns.ints(chunks, name)[order] for name in ("seq", "arrival", "media", "bytes")
    )
    media = np.where(media == columns.NULL, 0, media)
    for number, row in enumerate(rows.to_pylist()):
        mine = slice(int(offsets[number]), int(offsets[number + 1]))
        yield Voice(
            row=row,
            seq=seq[mine],
            arrival_ns=arrival[mine],
            media_ns=media[mine],
            size_bytes=size[mine],
            playback=playback_of(row, arrival[mine], media[mine], options),
        )


def playback_of(
    row: dict[str, Any], arrival_ns: Ints, media_ns: Ints, options: PlayerOptions
) -> Playback | None:
    """The voice of that row of `streams` through that player; None where no audio arrived."""
    there = (media_ns > 0) & (arrival_ns != columns.NULL)
    arrival_ns, media_ns = arrival_ns[there], media_ns[there]
    if not len(arrival_ns):
        return None
    whole = row["end"] == "eos" and row["done"] is not None
    last_ns = int(arrival_ns.max()) if row["done"] is None else int(row["done"])
    return play(
        arrival_ns,
        media_ns,
        options,
        done_ns=last_ns if whole else None,
        give_up_ns=None if whole else last_ns,
    )
