"""How far sound and picture are apart: audio ahead is positive (the ITU's sign).

Limits of ITU-R BT.1359-1: detectable outside +45/-125 ms, no longer acceptable outside +90/-185 ms.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant.playback.arrivals import Int64Array
from cotenant.playback.weighted import weighted_rank

DETECT_NS: Final = (-125_000_000, 45_000_000)
ACCEPT_NS: Final = (-185_000_000, 90_000_000)
_MINUTE_NS: Final = 60_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LipSync:
    """Skew of one or more faces, each frame weighted by how long it stayed.

    Quantiles are nearest rank. `drift_ns_per_minute` is the least-squares slope of skew over wall time
    (None under two frames or when several faces were pooled), `start_ns` the skew of the first frame shown.
    `outside_*` are shares of the time strictly outside the limits.
    """

    p5_ns: int
    p50_ns: int
    p95_ns: int
    start_ns: int
    drift_ns_per_minute: float | None
    outside_detect: float
    outside_accept: float


def lip_sync(skew_ns: Int64Array, hold_ns: Int64Array, shown_ns: Int64Array | None) -> LipSync | None:
    """Summarise the skew of frames that stayed for `hold_ns` each; None without frames.

    `shown_ns`: when each appeared, for the drift. To pool faces, concatenate their arrays and pass None.
    """
    p5, p50, p95 = (weighted_rank(skew_ns, hold_ns, percent) for percent in (5, 50, 95))
    if p5 is None or p50 is None or p95 is None:
        return None
    return LipSync(
        p5_ns=p5,
        p50_ns=p50,
        p95_ns=p95,
        start_ns=int(skew_ns[0]),
        drift_ns_per_minute=None if shown_ns is None else drift(skew_ns, hold_ns, shown_ns),
        outside_detect=outside_share(skew_ns, hold_ns, DETECT_NS),
        outside_accept=outside_share(skew_ns, hold_ns, ACCEPT_NS),
    )


def outside_share(skew_ns: Int64Array, hold_ns: Int64Array, limits_ns: tuple[int, int]) -> float:
    """Share of the time with a skew strictly outside (low, high). Raises ValueError without any time."""
    total = int(hold_ns.sum())
    if total <= 0:
        raise ValueError("no picture was shown")
    outside = (skew_ns < limits_ns[0]) | (skew_ns > limits_ns[1])
    return int(hold_ns[outside].sum()) / total


def drift(skew_ns: Int64Array, hold_ns: Int64Array, shown_ns: Int64Array) -> float | None:
    """Slope of skew over wall time, in ns a minute, weighted by hold; None where there is no line."""
    if skew_ns.size < 2:
        return None
    weight = hold_ns.astype(np.float64)
    t = (shown_ns - shown_ns[0]).astype(np.float64)
    skew = (skew_ns - skew_ns[0]).astype(np.float64)
    t -= np.average(t, weights=weight)
    spread = float((weight * t * t).sum())
    return None if spread == 0 else float((weight * t * skew).sum()) / spread * _MINUTE_NS
