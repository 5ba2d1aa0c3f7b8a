"""Time blocks: what happens close together is not independent, so blocks are what is resampled."""

from typing import Final

import numpy as np

from cotenant.units import NS_PER_S
from cotenant.verdict.columns import Ints
from cotenant.verdict.plan import Window

SHORTEST_BLOCK_NS: Final = 10 * NS_PER_S
_PER_WINDOW: Final = 1_000_000


def block_length_ns(longest_utterance_ns: int) -> int:
    """At least 10 s, and no shorter than the longest utterance."""
    return max(SHORTEST_BLOCK_NS, longest_utterance_ns)


def block_of(times: Ints, windows: tuple[Window, ...], block_ns: int) -> Ints:
    """The block of each time: numbered within its window, different in each; -1 outside. A time after a
    window's end belongs to its last block (what was due within it and went on)."""
    result = np.full(len(times), -1, dtype=np.int64)
    for number, window in enumerate(windows):
        count = max(1, -(-(window.end_ns - window.start_ns) // block_ns))
        # The rest of a window that is no whole block goes to the last whole one, where there is one.
        count = max(1, (window.end_ns - window.start_ns) // block_ns) if count > 1 else 1
        inside = times >= window.start_ns
        block = np.minimum((times - window.start_ns) // block_ns, count - 1)
        result = np.where(inside, number * _PER_WINDOW + block, result)
    return result
