"""Random streams and players for the comparison with the brute-force player."""

import random

from cotenant.playback.options import PlayerOptions
from tests.playback.brute import Case

# policy name -> after_underrun, whether it resyncs
POLICIES = ("resume", "refill", "drop", "resync")


def random_case(rng: random.Random, policy: str, start: str, truncated: bool) -> Case:
    """A short stream with ties, bursts and long holes, and a player for it."""
    count = rng.choice((1, 2, 3, 5, 8))
    step = rng.choice((1, 4, 9))
    t, chunks = rng.randrange(50), []
    for _ in range(count):
        chunks.append((t, rng.randint(1, 8)))
        t += rng.choice((0, rng.randrange(step + 1), rng.randrange(step + 1), rng.randrange(25)))
    last = chunks[-1][0]
    quantum = rng.choice((0, 0, 1, 2, 3, 5))
    limit = last + rng.choice((0, 0, rng.randrange(4), rng.randrange(30)))
    if truncated and policy == "resync" and quantum:
        # Off the grid, whether a pending jump of the clock still happens is a matter of taste.
        limit += -(limit - chunks[0][0]) % quantum
    return Case(
        chunks=chunks,
        lookahead=rng.choice((0, rng.randrange(6), rng.randrange(30))),
        start=start,
        policy="drop" if policy == "resync" else policy,
        quantum=quantum,
        refill=rng.choice((0, 1, rng.randrange(20))),
        resync=rng.choice((0, rng.randrange(10))) if policy == "resync" else None,
        done=None if truncated else limit,
        give_up=limit if truncated else None,
    )


def options_of(case: Case, tick_ns: int) -> PlayerOptions:
    """The same player in nanoseconds."""
    return PlayerOptions(
        lookahead_ns=case.lookahead * tick_ns,
        start=case.start,  # type: ignore[arg-type]
        after_underrun=case.policy,  # type: ignore[arg-type]
        quantum_ns=case.quantum * tick_ns,
        refill_ns=case.refill * tick_ns,
        resync_after_ns=None if case.resync is None else case.resync * tick_ns,
    )
