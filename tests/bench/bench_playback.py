"""How long the player takes over a recorded hour: run as `python -m tests.bench.bench_playback`."""

import resource
import time
from collections.abc import Callable

import numpy as np

from cotenant.playback.fleet import Arrivals, play_fleet
from cotenant.playback.options import AfterUnderrun, PlayerOptions
from cotenant.playback.whatif import what_if

MS = 1_000_000


def hour(streams: int, chunks: int, *, late_share: float, pace: float = 1.0, seed: int = 1) -> Arrivals:
    """`streams` utterances of `chunks` chunks of 80 ms at 0.5 `pace` of real time; some with a hole."""
    rng = np.random.default_rng(seed)
    gaps = rng.gamma(4.0, 10.0 * pace, (streams, chunks))
    holes = (rng.random((streams, chunks)) < 1.0 / chunks) & (rng.random((streams, 1)) < late_share)
    gaps += holes * rng.uniform(500.0, 5000.0, (streams, chunks))
    arrival = (np.cumsum(gaps, axis=1) * MS).astype(np.int64)
    arrival += rng.integers(0, 3_600_000 * MS, (streams, 1))
    rows = streams * chunks
    return Arrivals(
        offsets=np.arange(0, rows + 1, chunks),
        arrival_ns=arrival.ravel(),
        media_ns=np.full(rows, 80 * MS),
        done_ns=arrival[:, -1],
        ended=np.ones(streams, np.bool_),
        give_up_ns=np.zeros(streams, np.int64),
    )


def timed(name: str, limit_s: float, work: Callable[[], object]) -> None:
    """Print the best of three runs beside its target."""
    best = float("inf")
    for _ in range(3):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    verdict = "ok" if best <= limit_s else "SLOW"
    print(f"{name:58} {best:8.3f} s   target {limit_s:6.2f} s   {verdict}   peak {peak_gib:.2f} GiB")


def main() -> None:
    """The targets, one line each."""
    arrivals = hour(100_000, 130, late_share=0.3)
    for policy, limit_s in (("resume", 4.0), ("drop", 10.0), ("refill", 10.0)):
        options = PlayerOptions(lookahead_ns=400 * MS, after_underrun=_policy(policy))
        timed(
            f"{policy}: 100,000 streams, 13,000,000 rows",
            limit_s,
            lambda options=options: play_fleet(arrivals, options),  # type: ignore[misc]
        )
    due = np.asarray(arrivals.arrival_ns[::130], np.int64)
    timed(
        "what-if, three policies, 101 lookaheads: the same",
        5.0,
        lambda: what_if(arrivals, PlayerOptions(lookahead_ns=0), due),
    )
    one = hour(1, 100_000, late_share=1.0)
    grid = np.arange(500, dtype=np.int64) * 10 * MS
    timed(
        "what-if, resume: 100,000 chunks x 500 lookaheads",
        0.05,
        lambda: what_if(
            one, PlayerOptions(lookahead_ns=0), due[:1], lookaheads_ns=grid, policies=("resume",)
        ),
    )
    slow = hour(1, 100_000, late_share=1.0, pace=2.2)
    timed(
        "the same, slower than real time",
        0.05,
        lambda: what_if(
            slow, PlayerOptions(lookahead_ns=0), due[:1], lookaheads_ns=grid, policies=("resume",)
        ),
    )
    bad = hour(100_000, 130, late_share=1.0, pace=2.2)
    timed(
        "resume: 13,000,000 rows slower than real time",
        4.0,
        lambda: play_fleet(bad, PlayerOptions(lookahead_ns=400 * MS)),
    )
    timed(
        "what-if: 13,000,000 rows slower than real time",
        20.0,
        lambda: what_if(bad, PlayerOptions(lookahead_ns=0), due),
    )


def _policy(name: str) -> AfterUnderrun:
    if name in ("resume", "refill", "drop"):
        return name  # type: ignore[return-value]
    raise ValueError(name)


if __name__ == "__main__":
    main()
