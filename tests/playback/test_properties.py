"""What must hold for every stream, whatever its arrivals."""

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from cotenant.playback.continuity import continuity
from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import Playback, play

ROUNDS = 400
Rows = list[tuple[int, int]]


def _stream(rng: random.Random) -> Rows:
    t, rows = 10**15 + rng.randrange(10**9), []
    for _ in range(rng.randrange(1, 12)):
        rows.append((t, rng.randrange(1, 400_000_000)))
        t += rng.choice((0, 1, rng.randrange(10**8), rng.randrange(10**9)))
    return rows


def _play(rows: Rows, cut: bool, lookahead_ns: int, after_ns: int = 0, **more: Any) -> Playback:
    table = np.array(rows, np.int64)
    limit = max(a for a, _ in rows) + after_ns
    options = PlayerOptions(lookahead_ns=lookahead_ns, **more)
    return play(table[:, 0], table[:, 1], options, done_ns=None if cut else limit, give_up_ns=limit)


def _cases(seed: str) -> list[tuple[random.Random, Rows, bool]]:
    rng = random.Random(seed)
    return [(rng, _stream(rng), rng.random() < 0.3) for _ in range(ROUNDS)]


@pytest.mark.parametrize("start", ["prefill", "delay"])
def test_more_lookahead_never_means_more_stall(start: str) -> None:
    for rng, rows, cut in _cases(f"monotone/{start}"):
        after = rng.randrange(10**9)
        before = None
        for lookahead in sorted(rng.randrange(3 * 10**9) for _ in range(8)):
            played = _play(rows, cut, lookahead, after, start=start)
            if played.stall_total_ns is None or played.stall_longest_ns is None:
                break
            now = (played.stall_total_ns, played.stall_longest_ns)
            assert before is None or (now[0] <= before[0] and now[1] <= before[1])
            before = now


def test_headroom_and_required_lookahead_agree() -> None:
    for rng, rows, cut in _cases("headroom"):
        start = rng.choice(("prefill", "delay"))
        played = _play(rows, cut, rng.randrange(10**9), rng.randrange(10**9), start=start)
        if played.start_ns is None or played.required_lookahead_ns is None:
            continue
        slack = played.start_ns - rows[0][0] - played.required_lookahead_ns
        if played.headroom_ns is None:
            assert slack >= 0
        else:
            assert (played.headroom_ns < 0) == (slack < 0)
            if slack < 0:
                assert played.headroom_ns == slack == -(played.stall_total_ns or 0)


def test_the_required_lookahead_is_the_least_that_suffices() -> None:
    for rng, rows, cut in _cases("required"):
        after = rng.randrange(10**9)
        needed = _play(rows, cut, 0, after).required_lookahead_ns
        assert needed is not None
        assert _play(rows, cut, needed, after, start="delay").stall_total_ns == 0
        if needed:
            assert _play(rows, cut, needed - 1, after, start="delay").stall_total_ns == 1


@pytest.mark.parametrize("policy", ["resume", "refill", "drop"])
def test_a_chunk_split_at_its_arrival_changes_nothing(policy: str) -> None:
    for rng, rows, cut in _cases(f"split/{policy}"):
        more: dict[str, Any] = {
            "after_underrun": policy,
            "start": rng.choice(("prefill", "delay")),
            "quantum_ns": rng.choice((0, 10_000_000)),
            "refill_ns": rng.randrange(10**9),
        }
        lookahead, after = rng.randrange(10**9), rng.randrange(10**9)
        at = rng.randrange(len(rows))
        arrival, duration = rows[at]
        if duration == 1:
            continue
        piece = rng.randrange(1, duration)
        split = [*rows[:at], (arrival, piece), (arrival, 0), (arrival, duration - piece), *rows[at + 1 :]]
        one, two = (_play(r, cut, lookahead, after, **more) for r in (rows, split))
        assert one.events == two.events
        for name in ("start_ns", "end_ns", "stall_total_ns", "heard_ns", "lost_ns", "headroom_ns", "clean"):
            assert getattr(one, name) == getattr(two, name), name
        if not more["quantum_ns"]:
            assert one.required_lookahead_ns == two.required_lookahead_ns


@pytest.mark.parametrize("policy", ["resume", "refill", "drop"])
def test_shifting_and_scaling_time_do_just_that(policy: str) -> None:
    for rng, rows, cut in _cases(f"shift/{policy}"):
        lookahead, after, refill = (rng.randrange(10**9) for _ in range(3))
        more: dict[str, Any] = {"after_underrun": policy, "refill_ns": refill}
        one = _play(rows, cut, lookahead, after, **more)
        shift = rng.randrange(10**12)
        moved = _play([(a + shift, d) for a, d in rows], cut, lookahead, after, **more)
        tripled = _play(
            [(3 * a, 3 * d) for a, d in rows],
            cut,
            3 * lookahead,
            3 * after,
            after_underrun=policy,
            refill_ns=3 * refill,
        )
        if one.start_ns is None:
            assert moved.start_ns is tripled.start_ns is None
            continue
        for name in ("stall_total_ns", "stall_longest_ns", "heard_ns", "lost_ns", "headroom_ns"):
            value = getattr(one, name)
            assert getattr(moved, name) == value
            assert getattr(tripled, name) == (None if value is None else 3 * value)
        assert moved.start_ns == one.start_ns + shift
        assert tripled.start_ns == 3 * one.start_ns


def test_refill_has_no_more_stalls_than_resume() -> None:
    for rng, rows, cut in _cases("refill"):
        lookahead, after, refill = (rng.randrange(10**9) for _ in range(3))
        resume = _play(rows, cut, lookahead, after)
        refilled = _play(rows, cut, lookahead, after, after_underrun="refill", refill_ns=refill)
        assert refilled.silence_start_ns.size <= resume.silence_start_ns.size
        zero = _play(rows, cut, lookahead, after, after_underrun="refill", refill_ns=0)
        assert zero.events == resume.events


def test_resync_at_once_is_resume_and_never_is_drop() -> None:
    for rng, rows, cut in _cases("resync"):
        lookahead, after = rng.randrange(10**9), rng.randrange(10**9)
        more: dict[str, Any] = {
            "quantum_ns": rng.choice((0, 10_000_000)),
            "start": rng.choice(("prefill", "delay")),
        }
        resume = _play(rows, cut, lookahead, after, **more)
        at_once = _play(rows, cut, lookahead, after, after_underrun="drop", resync_after_ns=0, **more)
        assert (at_once.events, at_once.lost_ns, at_once.end_ns) == (
            resume.events,
            resume.lost_ns,
            resume.end_ns,
        )
        never = _play(rows, cut, lookahead, after, after_underrun="drop", **more)
        late = _play(rows, cut, lookahead, after, after_underrun="drop", resync_after_ns=10**15, **more)
        assert (never.events, never.lost_ns) == (late.events, late.lost_ns)


def test_their_measures_follow_from_a_player_that_starts_at_once() -> None:
    for _, rows, _cut in _cases("theirs"):
        played = _play(rows, False, 0)
        table = np.array(rows, np.int64)
        theirs = continuity(table[:, 0], table[:, 1])
        assert theirs.audio_underrun_ns == played.required_lookahead_ns == played.stall_total_ns
        if len(rows) == 1:
            assert theirs.longest_stall_ns is theirs.c100 is None
            continue
        assert theirs.longest_stall_ns == played.stall_longest_ns
        # SGLang-Omni's own recurrence.
        buffered, worst = rows[0][1], 0
        for (before, _), (now, duration) in pairwise(rows):
            worst = max(worst, now - before - buffered)
            buffered = max(0, buffered - (now - before)) + duration
        assert theirs.longest_stall_ns == worst
