"""What vLLM-Omni and SGLang-Omni would say of one stream, by their own rules.

Both projects call it an audio underrun and mean different things. vLLM-Omni: the largest deficit against a
clock that starts at the first chunk and never shifts, which is the start delay that would have been needed;
at most 100 ms is fine, and a stream without audio is fine too. SGLang-Omni: the longest single stall of a
player that starts at once and resumes at once; its C50, C100 and C200 ask for at most 50, 100 and 200 ms.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.playback.arrivals import prepare

CONTINUITY_NS: Final = {"c50": 50_000_000, "c100": 100_000_000, "c200": 200_000_000}
VLLM_OMNI_LIMIT_NS: Final = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuity:
    """`audio_underrun_*` are vLLM-Omni's; `longest_stall_ns` and `c50`, `c100`, `c200` SGLang-Omni's.

    The latter are None for a single chunk (their server's counter calls that continuous, their benchmark "not
    applicable"), and for a stream without audio.
    """

    audio_underrun_ns: int
    audio_underrun_ok: bool
    longest_stall_ns: int | None
    c50: bool | None
    c100: bool | None
    c200: bool | None


def continuity(arrival_ns: npt.ArrayLike, media_ns: npt.ArrayLike) -> Continuity:
    """Judge one stream (rows in any order, empty ones are not counted as chunks)."""
    arrival, media = prepare(arrival_ns, media_ns)
    deficit, longest = 0, None
    if arrival.size:
        top = np.maximum.accumulate(arrival - (np.cumsum(media) - media) - arrival[0])
        deficit = int(top[-1])
        longest = int(np.diff(top).max()) if top.size > 1 else None
    fine = {name: None if longest is None else longest <= limit for name, limit in CONTINUITY_NS.items()}
    return Continuity(
        audio_underrun_ns=deficit,
        audio_underrun_ok=deficit <= VLLM_OMNI_LIMIT_NS,
        longest_stall_ns=longest,
        c50=fine["c50"],
        c100=fine["c100"],
        c200=fine["c200"],
    )
