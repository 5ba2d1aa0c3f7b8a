"""A player that refills after each stall, for many (stream, start, refill) at once, stall by stall."""

import numpy as np

from cotenant.playback.arrivals import Int64Array
from cotenant.playback.blocks import Block, Records
from cotenant.playback.options import COUNTED_SILENCE_NS


def refill_stalls(
    block: Block, records: Records, owner: Int64Array, start: Int64Array, refill_ns: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """(Underruns, total stall, longest stall) of each (stream of the block, start, refill).

    All pairs take their next stall together, until none is left.
    """
    count, total, longest = (np.zeros(owner.size, np.int64) for _ in range(3))
    lift = np.cumsum(block.required_ns + 1) - block.required_ns - 1
    lifted = records.height + lift[records.owner]
    clock, over = start.copy(), np.zeros(owner.size, np.bool_)
    live = np.flatnonzero(clock < block.required_ns[owner])
    while live.size:
        who = owner[live]
        # The next late chunk is the first record above the clock.
        row = records.row[np.searchsorted(lifted, lift[who] + clock[live], side="right")]
        position = block.ends[row] - block.media[row]
        held = np.maximum(np.searchsorted(block.ends, position + refill_ns[live]), row)
        enough = held < block.stop[who]
        until = np.where(enough, block.arrival[np.minimum(held, block.stop[who] - 1)], block.limit_ns[who])
        moved = until - block.first_ns[who] - (position - block.base[who])
        _add(count, total, longest, live, moved - clock[live])
        clock[live] = moved
        # A cut stream that did not get enough has waited until it was given up.
        over[live] = ~enough & block.truncated[who]
        live = live[(moved < block.required_ns[who]) & ~over[live]]
    tail = np.flatnonzero(block.truncated[owner] & ~over)
    _add(count, total, longest, tail, np.maximum(block.missing_need_ns()[owner[tail]] - clock[tail], 0))
    return count, total, longest


def _add(
    count: Int64Array, total: Int64Array, longest: Int64Array, live: Int64Array, silence: Int64Array
) -> None:
    count[live] += silence >= COUNTED_SILENCE_NS
    total[live] += silence
    longest[live] = np.maximum(longest[live], silence)
