"""How a player behaves: its start, its answer to an underrun, its device."""

from dataclasses import dataclass
from typing import Final, Literal

Start = Literal["prefill", "delay"]
AfterUnderrun = Literal["resume", "refill", "drop"]

# A shorter silence adds to the stall total and is no underrun of its own.
COUNTED_SILENCE_NS: Final = 1_000_000
# The longest silence that an utterance may have and still be clean (inclusive).
CLEAN_STALL_NS: Final = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayerOptions:
    """How the player behaves.

    `refill_ns` None is the lookahead, 0 is `resume`; `resync_after_ns` None keeps the clock for ever, 0 is
    `resume`. `quantum_ns` is the block of the sound device (0: none). Raises ValueError on a negative time
    or unknown word.
    """

    lookahead_ns: int
    start: Start = "prefill"
    after_underrun: AfterUnderrun = "resume"
    quantum_ns: int = 0
    refill_ns: int | None = None
    resync_after_ns: int | None = None

    def __post_init__(self) -> None:
        if self.start not in ("prefill", "delay"):
            raise ValueError(f"start is {self.start!r}; it is prefill or delay")
        if self.after_underrun not in ("resume", "refill", "drop"):
            raise ValueError(f"after_underrun is {self.after_underrun!r}; it is resume, refill or drop")
        if min(self.lookahead_ns, self.quantum_ns, self.refill_ns or 0, self.resync_after_ns or 0) < 0:
            raise ValueError("a time of the player is negative")

    @property
    def refill_target_ns(self) -> int:
        """How much media `refill` waits for."""
        return self.lookahead_ns if self.refill_ns is None else self.refill_ns
