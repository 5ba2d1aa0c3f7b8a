"""The player over many streams at once: `play` for 10^5 streams and 10^7 rows.

What `resume` gives is closed form over all streams together. The other players agree with it until the
first stall, so only the streams that stall are played one by one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.playback.arrivals import MINUS_INF_NS, NULL_NS, PLUS_INF_NS, BoolArray, Int64Array
from cotenant.playback.blocks import Arrivals, Block, Records, blocks_of, records_of
from cotenant.playback.fleet_starts import latest_after, starts_of
from cotenant.playback.options import CLEAN_STALL_NS, COUNTED_SILENCE_NS, PlayerOptions
from cotenant.playback.player import play
from cotenant.playback.segments import needed_by

__all__ = ["Arrivals", "FleetEvents", "FleetPlayback", "play_fleet"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FleetEvents:
    """The underruns of all streams, in order of stream and time: see `Underrun`."""

    stream: Int64Array
    start_ns: Int64Array
    media_ns: Int64Array
    duration_ns: Int64Array
    open: BoolArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FleetPlayback:
    """What each stream was like to listen to: one value a stream, names and meanings of `Playback`.

    A stream without audio (`chunks` 0) has PLUS_INF_NS as its first arrival, start, end, stalls, required
    lookahead and vLLM-Omni's deficit, MINUS_INF_NS as headroom, no underruns, nothing heard. One with audio
    that never began (`began` False) has NULL_NS as start, end, stalls and headroom. A headroom of
    PLUS_INF_NS is unlimited.

    `audio_underrun_ns` is vLLM-Omni's largest deficit, `longest_stall_ns` SGLang-Omni's largest stall
    (lookahead 0, resume; NULL_NS for a single chunk). `reordered` marks streams whose rows stood out of
    order.
    """

    chunks: Int64Array
    audio_ns: Int64Array
    truncated: BoolArray
    began: BoolArray
    first_arrival_ns: Int64Array
    last_arrival_ns: Int64Array
    start_ns: Int64Array
    end_ns: Int64Array
    underruns: Int64Array
    stall_total_ns: Int64Array
    stall_longest_ns: Int64Array
    heard_ns: Int64Array
    lost_ns: Int64Array
    headroom_ns: Int64Array
    required_lookahead_ns: Int64Array
    audio_underrun_ns: Int64Array
    longest_stall_ns: Int64Array
    clean: BoolArray
    reordered: BoolArray
    events: FleetEvents


_Columns = dict[str, Int64Array]
_Events = list[tuple[Int64Array, Int64Array, Int64Array, Int64Array, BoolArray]]

_EMPTY_STREAM = {
    "chunks": 0, "audio_ns": 0, "began": 0, "first_arrival_ns": PLUS_INF_NS, "last_arrival_ns": PLUS_INF_NS,
    "start_ns": PLUS_INF_NS, "end_ns": PLUS_INF_NS, "underruns": 0, "stall_total_ns": PLUS_INF_NS,
    "stall_longest_ns": PLUS_INF_NS, "heard_ns": 0, "lost_ns": 0, "headroom_ns": MINUS_INF_NS,
    "required_lookahead_ns": PLUS_INF_NS, "audio_underrun_ns": PLUS_INF_NS, "longest_stall_ns": NULL_NS,
    "reordered": 0,
}  # fmt: skip


def play_fleet(arrivals: Arrivals, options: PlayerOptions) -> FleetPlayback:
    """Play every stream; the same numbers as `play` for each."""
    columns: _Columns = {name: np.full(arrivals.streams, v, np.int64) for name, v in _EMPTY_STREAM.items()}
    events: _Events = []
    for block in blocks_of(arrivals):
        values = _play_block(block, options, events)
        for name, value in values.items():
            columns[name][block.stream] = value
    began, reordered = (columns.pop(name).astype(np.bool_) for name in ("began", "reordered"))
    truncated = ~arrivals.ended
    whole: dict[str, Any] = dict(columns)
    return FleetPlayback(
        **whole,
        began=began,
        reordered=reordered,
        truncated=truncated,
        clean=began & ~truncated & (columns["stall_longest_ns"] <= CLEAN_STALL_NS),
        events=_joined(events),
    )


def _joined(events: _Events) -> FleetEvents:
    none = np.zeros(0, np.int64)
    stream, start, media, duration, is_open = (
        np.concatenate(parts)
        for parts in zip(*[*events, (none, none, none, none, none.astype(bool))], strict=True)
    )
    order = np.lexsort((start, stream))
    return FleetEvents(
        stream=stream[order],
        start_ns=start[order],
        media_ns=media[order],
        duration_ns=duration[order],
        open=is_open[order].astype(np.bool_),
    )


def _play_block(block: Block, options: PlayerOptions, events: _Events) -> _Columns:
    records = records_of(block)
    delay, starter = starts_of(block, options)
    never = block.truncated & (delay > block.limit_ns - block.first_ns)
    need, required = block.need, block.required_ns
    if options.quantum_ns:
        need = block.arrival - needed_by(block.begins(), options.quantum_ns) - block.per_row(block.first_ns)
        required = np.maximum.reduceat(need, block.first)
    missing = block.limit_ns - block.first_ns - needed_by(block.audio_ns, options.quantum_ns)
    required = np.where(block.truncated, np.maximum(required, missing), required)
    latest = latest_after(block, need, starter)
    latest = np.where(block.truncated, np.maximum(latest, missing), latest)
    single = block.stop - block.first == 1
    values: _Columns = {
        "chunks": block.stop - block.first,
        "audio_ns": block.audio_ns,
        "began": (~never).astype(np.int64),
        "first_arrival_ns": block.first_ns,
        "last_arrival_ns": block.arrival[block.stop - 1],
        "start_ns": block.first_ns + delay,
        "headroom_ns": np.where(latest == MINUS_INF_NS, PLUS_INF_NS, delay - latest),
        "required_lookahead_ns": required,
        "audio_underrun_ns": block.required_ns,
        "longest_stall_ns": np.where(
            single, NULL_NS, _largest(records.height - records.before, records, block)
        ),
        "reordered": block.reordered.astype(np.int64),
    }
    if options.after_underrun == "resume" and options.quantum_ns == 0:
        _resume(block, records, delay, never, values, events)
    else:
        _one_by_one(block, options, np.flatnonzero(~never & (delay < latest)), values, events)
    for name in ("start_ns", "end_ns", "stall_total_ns", "stall_longest_ns", "headroom_ns"):
        values[name][never] = NULL_NS
    for name in ("underruns", "heard_ns"):
        values[name][never] = 0
    values["lost_ns"][never] = block.audio_ns[never]
    return values


def _largest(values: Int64Array, records: Records, block: Block) -> Int64Array:
    largest = np.zeros(block.first.size, np.int64)
    np.maximum.at(largest, records.owner, values)
    return largest


def _resume(
    block: Block, records: Records, delay: Int64Array, never: BoolArray, values: _Columns, events: _Events
) -> None:
    started = delay[records.owner]
    before = np.maximum(records.before, started)
    silence = np.maximum(records.height, started) - before
    tallest = np.maximum(block.required_ns, delay)
    censored = np.where(block.truncated, np.maximum(block.missing_need_ns() - tallest, 0), 0)
    counted = (silence >= COUNTED_SILENCE_NS) & ~never[records.owner]
    open_ = np.flatnonzero((censored >= COUNTED_SILENCE_NS) & ~never)
    end = block.first_ns + tallest + block.audio_ns
    values["end_ns"] = end + censored
    values["stall_total_ns"] = tallest - delay + censored
    values["stall_longest_ns"] = np.maximum(_largest(silence, records, block), censored)
    underruns = np.bincount(records.owner[counted], minlength=block.first.size)
    underruns[open_] += 1
    values["underruns"] = underruns
    values["heard_ns"] = block.audio_ns.copy()
    values["lost_ns"] = np.zeros(block.first.size, np.int64)
    row, owner = records.row[counted], records.owner[counted]
    position = block.ends[row] - block.media[row] - block.base[owner]
    no, yes = np.zeros(row.size, np.bool_), np.ones(open_.size, np.bool_)
    start = block.first_ns[owner] + before[counted] + position
    events.append((block.stream[owner], start, position, silence[counted], no))
    events.append((block.stream[open_], end[open_], block.audio_ns[open_], censored[open_], yes))


def _one_by_one(
    block: Block, options: PlayerOptions, stalled: Int64Array, values: _Columns, events: _Events
) -> None:
    zero = np.zeros(block.first.size, np.int64)
    values["end_ns"] = values["start_ns"] + block.audio_ns
    values["heard_ns"] = block.audio_ns.copy()
    for name in ("underruns", "stall_total_ns", "stall_longest_ns", "lost_ns"):
        values[name] = zero.copy()
    for i in stalled.tolist():
        rows, limit_ns = slice(block.first[i], block.stop[i]), int(block.limit_ns[i])
        cut = bool(block.truncated[i])
        played = play(
            block.arrival[rows],
            block.media[rows],
            options,
            done_ns=None if cut else limit_ns,
            give_up_ns=limit_ns if cut else None,
        )
        for name in ("end_ns", "underruns", "stall_total_ns", "stall_longest_ns", "heard_ns", "lost_ns"):
            values[name][i] = getattr(played, name)
        number = block.stream[i]
        listed = [(number, e.start_ns, e.media_ns, e.duration_ns, e.open) for e in played.events]
        if listed:
            columns = np.array(listed, np.int64).T
            events.append((columns[0], columns[1], columns[2], columns[3], columns[4].astype(np.bool_)))
