"""`starts.start_of` over many streams at once, and what came after the chunk that started each."""

import numpy as np

from cotenant.playback.arrivals import MINUS_INF_NS, PLUS_INF_NS, Int64Array
from cotenant.playback.blocks import Block
from cotenant.playback.options import PlayerOptions


def starts_of(block: Block, options: PlayerOptions) -> tuple[Int64Array, Int64Array]:
    """Per stream: how long after its first arrival playback starts, and the row that started it.

    The row is the stream's `stop` where its end started playback. PLUS_INF_NS where a truncated stream
    never got there (one that would have started after it was given up has its time; compare it with
    `limit_ns`).
    """
    if options.start == "delay":
        delay, row = np.full(block.first.size, options.lookahead_ns, np.int64), block.first
    else:
        row = np.searchsorted(block.ends, block.base + options.lookahead_ns)
        row = np.clip(row, block.first, block.stop)
        at_end = np.where(block.truncated, PLUS_INF_NS, block.limit_ns - block.first_ns)
        reached = row < block.stop
        delay = np.where(reached, block.arrival[np.minimum(row, block.stop - 1)] - block.first_ns, at_end)
    if options.quantum_ns:
        grid = -(-delay // options.quantum_ns) * options.quantum_ns
        delay = np.where(delay == PLUS_INF_NS, delay, grid)
    return delay, row


def latest_after(block: Block, need: Int64Array, starter: Int64Array) -> Int64Array:
    """Per stream the greatest need among chunks that came strictly after `starter`; else MINUS_INF_NS."""
    row = np.minimum(starter + 1, block.stop)
    open_ = np.flatnonzero(row < block.stop)
    instant = block.arrival[np.minimum(starter, block.stop - 1)]
    for _ in range(32):
        open_ = open_[block.arrival[row[open_]] == instant[open_]]
        row[open_] += 1
        open_ = open_[row[open_] < block.stop[open_]]
        if open_.size == 0:
            break
    for i in open_.tolist():
        rest = block.arrival[row[i] : block.stop[i]]
        row[i] += np.searchsorted(rest, instant[i], side="right")
    latest = np.full(block.first.size, MINUS_INF_NS, np.int64)
    some = np.flatnonzero(row < block.stop)
    if some.size:
        bounds = np.column_stack([row[some], block.stop[some]]).ravel()
        latest[some] = np.maximum.reduceat(np.append(need, MINUS_INF_NS), bounds)[::2]
    return latest
