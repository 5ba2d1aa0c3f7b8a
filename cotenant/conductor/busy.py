"""How much of this machine's CPU others use while a run makes ready, before anything of it is started."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant.units import NS_PER_S

_STAT: Final = Path("/proc/stat")
# The kernel counts in steps of 10 ms.
_SHORTEST_NS: Final = 300_000_000
_MOST_SHARE: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A moment: `stat` as /proc/stat has it; `own_s` the CPU seconds of this process and of those it started
    that have ended."""

    at_ns: int
    stat: bytes
    own_s: float


def read() -> Reading | None:
    """Now; None where the kernel does not tell."""
    try:
        stat = _STAT.read_bytes()
    except OSError:
        return None
    return Reading(at_ns=time.monotonic_ns(), stat=stat, own_s=sum(os.times()[:4]))


def others_share(before: Reading, after: Reading, cpu_count: int) -> float | None:
    """Of the machine's `cpu_count` the share that others used in between; None where that was too short.

    Holds as long as what this process started in between has ended. Raises ValueError for what is no stat.
    """
    from cotenant.observers.host import busy_cpu_s  # with all it takes: the first reading goes before that

    took_ns = after.at_ns - before.at_ns
    if took_ns < _SHORTEST_NS:
        return None
    busy_s = busy_cpu_s(after.stat) - busy_cpu_s(before.stat)
    share = (busy_s - (after.own_s - before.own_s)) / (took_ns / NS_PER_S * cpu_count)
    return min(1.0, max(0.0, share))


def warning(before: Reading | None, after: Reading | None, cpu_count: int) -> str | None:
    """A sentence for the user where others use more than a quarter of the machine's CPU."""
    if before is None or after is None:
        return None
    try:
        share = others_share(before, after, cpu_count)
    except ValueError:
        return None
    if share is None or share <= _MOST_SHARE:
        return None
    return (
        f"this machine is busy (others use {share * 100:.0f} % of its CPU): stages may come out INVALID; "
        "measure when they are done"
    )
