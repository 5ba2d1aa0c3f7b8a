"""A player that resumes at once, at every start at once: its silences are the records above the start."""

from dataclasses import dataclass

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS, Int64Array
from cotenant.playback.blocks import Block, Records
from cotenant.playback.options import CLEAN_STALL_NS, COUNTED_SILENCE_NS, Start
from cotenant.playback.thresholds import Thresholds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResumeCurve:
    """`clean_from`: the least start (after the first arrival) of each stream with no silence over 100 ms."""

    clean_from: Int64Array
    latest: Int64Array
    counted: Thresholds

    def silent(self, owner: Int64Array, start: Int64Array) -> Int64Array:
        """Total silence of each (stream of the block, start)."""
        return np.asarray(np.maximum(self.latest[owner] - start, 0), np.int64)

    def count(self, owner: Int64Array, start: Int64Array) -> Int64Array:
        """Underruns of each (stream of the block, start)."""
        return self.counted.above(owner, start)


def latest_need(block: Block) -> Int64Array:
    """Per stream the start, after its first arrival, from which on nothing is late."""
    missing = np.maximum(block.required_ns, block.missing_need_ns())
    return np.where(block.truncated, missing, block.required_ns)


def resume_curve(block: Block, records: Records) -> ResumeCurve:
    """Everything about `resume` that depends on the start alone."""
    latest = latest_need(block)
    # The chunk that a truncated stream still owed is a record like others.
    owed = np.flatnonzero(latest > block.required_ns)
    owner = np.concatenate((records.owner, owed))
    before = np.concatenate((records.before, block.required_ns[owed]))
    height = np.concatenate((records.height, latest[owed]))
    counts = height - before >= COUNTED_SILENCE_NS
    above = height[counts] - COUNTED_SILENCE_NS + 1
    clean_from = np.zeros(block.first.size, np.int64)
    long = height - before > CLEAN_STALL_NS
    np.maximum.at(clean_from, owner[long], height[long] - CLEAN_STALL_NS)
    return ResumeCurve(
        clean_from=clean_from,
        latest=latest,
        counted=Thresholds.of(owner[counts], above, block.first.size),
    )


def least_lookahead(block: Block, start: Start, delay: Int64Array) -> Int64Array:
    """Per stream the least lookahead with which playback starts `delay` or more after the first arrival.

    PLUS_INF_NS where a truncated stream would not start at all then.
    """
    longest = block.limit_ns - block.first_ns
    if start == "delay":
        return np.where(block.truncated & (delay > longest), PLUS_INF_NS, np.maximum(delay, 0))
    span = block.arrival[block.stop - 1] - block.first_ns
    lift = np.cumsum(span + 1) - span - 1
    lifted = block.arrival + block.per_row(lift - block.first_ns)
    row = np.searchsorted(lifted, lift + np.clip(delay, 0, span + 1))
    row = np.clip(row, block.first, block.stop)
    before = block.ends[np.maximum(row - 1, 0)] - block.base
    value = np.where(row == block.first, 0, before + 1)
    return np.where((row == block.stop) & (block.truncated | (delay > longest)), PLUS_INF_NS, value)
