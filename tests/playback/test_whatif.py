"""Every lookahead at once against one at a time."""

import random
from typing import Any

import numpy as np
import pytest

from cotenant.playback.arrivals import PLUS_INF_NS
from cotenant.playback.fleet import Arrivals, play_fleet
from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import play
from cotenant.playback.slowness import slower_than_real_time
from cotenant.playback.weighted import nearest_rank
from cotenant.playback.whatif import default_lookaheads, smallest_lookahead, what_if

MS = 1_000_000


def _fleet(
    rng: random.Random, streams: int, *, cut_share: float = 0.3, empty_share: float = 0.05, tick: int = 1
) -> Arrivals:
    offsets, rows, limits = [0], [], []
    for _ in range(streams):
        t = rng.randrange(10**10)
        for _ in range(0 if rng.random() < empty_share else rng.randrange(1, 25)):
            rows.append((t, rng.choice((rng.randrange(1, 3 * MS), rng.randrange(200 * MS)))))
            t += rng.choice((0, rng.randrange(2 * MS), rng.randrange(120 * MS), rng.randrange(600 * MS)))
        offsets.append(len(rows))
        limits.append(t + rng.choice((0, rng.randrange(10**9))))
    table = np.array(rows, np.int64) // tick * tick
    limit = np.array(limits) // tick * tick
    ended = np.array([rng.random() >= cut_share for _ in range(streams)])
    return Arrivals(
        offsets=np.array(offsets),
        arrival_ns=table[:, 0],
        media_ns=table[:, 1],
        done_ns=limit,
        ended=ended,
        give_up_ns=limit,
    )


def _due(fleet: Arrivals) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.arange(fleet.streams, dtype=np.int64)


@pytest.mark.parametrize("start", ["prefill", "delay"])
@pytest.mark.parametrize("refill_ns", [None, 70 * MS])
def test_curves_equal_a_player_at_each_lookahead(start: str, refill_ns: int | None) -> None:
    rng = random.Random(f"whatif/{start}/{refill_ns}")
    # On a grid of half a millisecond, silences of exactly 1 ms and 100 ms are common.
    for policy, tick in (("resume", 1), ("refill", MS // 2), ("drop", MS // 2)):
        fleet = _fleet(rng, 300, tick=tick)
        options = PlayerOptions(lookahead_ns=5, start=start, after_underrun=policy, refill_ns=refill_ns)  # type: ignore[arg-type]
        grid = np.unique([0, 1, *(rng.randrange(2, 3000 * MS) // tick * tick for _ in range(8)), 60_000 * MS])
        result = what_if(fleet, options, _due(fleet), lookaheads_ns=grid)
        for i, lookahead in enumerate(grid.tolist()):
            for after, curve in result.curves.items():
                one = play_fleet(
                    fleet,
                    PlayerOptions(
                        lookahead_ns=lookahead,
                        start=options.start,
                        after_underrun=after,
                        refill_ns=refill_ns,
                    ),
                )
                assert curve.clean[i] == one.clean.sum(), (after, lookahead)
                assert curve.underruns[i] == one.underruns.sum(), (after, lookahead)
                assert curve.stall_total_ns[i] == one.stall_total_ns[one.began].sum(), (after, lookahead)
            waits = np.where(one.began, one.start_ns - _due(fleet), PLUS_INF_NS)
            assert result.playback_p95_ns[i] == nearest_rank(waits, 95)


@pytest.mark.parametrize("start", ["prefill", "delay"])
@pytest.mark.parametrize("policy", ["resume", "drop"])
def test_the_least_clean_lookahead_is_just_enough(policy: str, start: str) -> None:
    fleet = _fleet(random.Random(f"least/{policy}/{start}"), 400)
    options = PlayerOptions(lookahead_ns=0, start=start, after_underrun=policy)  # type: ignore[arg-type]
    result = what_if(fleet, options, _due(fleet), lookaheads_ns=np.array([0]))
    least = result.clean_lookahead_ns
    assert least is not None

    def clean(stream: int, lookahead_ns: int) -> bool:
        rows = slice(fleet.offsets[stream], fleet.offsets[stream + 1])
        limit = int(fleet.done_ns[stream])
        player = PlayerOptions(
            lookahead_ns=lookahead_ns, start=options.start, after_underrun=options.after_underrun
        )
        done = limit if fleet.ended[stream] else None
        return play(
            fleet.arrival_ns[rows], fleet.media_ns[rows], player, done_ns=done, give_up_ns=limit
        ).clean

    for stream, value in enumerate(least.tolist()):
        if value == PLUS_INF_NS:
            assert not fleet.ended[stream] or fleet.offsets[stream] == fleet.offsets[stream + 1]
            continue
        assert clean(stream, value)
        assert value == 0 or not clean(stream, value - 1)


def test_the_required_prefill_is_the_least_without_an_underrun() -> None:
    fleet = _fleet(random.Random(8), 400, empty_share=0.0)
    result = what_if(fleet, PlayerOptions(lookahead_ns=0), _due(fleet), lookaheads_ns=np.array([0]))
    for stream, value in enumerate(result.required_prefill_ns.tolist()):
        rows = slice(fleet.offsets[stream], fleet.offsets[stream + 1])
        limit = int(fleet.done_ns[stream])
        done = limit if fleet.ended[stream] else None
        stalls = [
            play(
                fleet.arrival_ns[rows],
                fleet.media_ns[rows],
                PlayerOptions(lookahead_ns=lookahead),
                done_ns=done,
                give_up_ns=limit,
            ).stall_total_ns
            for lookahead in (value, max(0, value - 1))
            if value < PLUS_INF_NS
        ]
        assert not stalls or stalls[0] == 0
        assert value in (0, PLUS_INF_NS) or stalls[1]


@pytest.mark.parametrize(
    "more", [{"quantum_ns": 10 * MS}, {"resync_after_ns": 50 * MS, "after_underrun": "drop"}]
)
def test_players_without_a_closed_form_are_played(more: dict[str, Any]) -> None:
    fleet = _fleet(random.Random(4), 60)
    options = PlayerOptions(lookahead_ns=0, **more)
    grid = np.array([0, 100 * MS, 900 * MS])
    policy = options.after_underrun
    result = what_if(fleet, options, _due(fleet), lookaheads_ns=grid, policies=(policy,))
    for i, lookahead in enumerate(grid.tolist()):
        one = play_fleet(fleet, PlayerOptions(**{**more, "lookahead_ns": lookahead}))
        assert result.curves[policy].clean[i] == one.clean.sum()
        assert result.curves[policy].stall_total_ns[i] == one.stall_total_ns[one.began].sum()
    assert result.clean_lookahead_ns is None


def test_the_smallest_lookahead_that_keeps_a_share_clean() -> None:
    fleet = _fleet(random.Random(6), 300, cut_share=0.0, empty_share=0.0)
    for start in ("prefill", "delay"):
        options = PlayerOptions(lookahead_ns=0, start=start)
        result = what_if(fleet, options, _due(fleet))
        least = smallest_lookahead(result, 95, "resume")
        assert least is not None
        share = [
            play_fleet(fleet, PlayerOptions(lookahead_ns=value, start=options.start)).clean.mean()
            for value in (least - 1, least)
        ]
        assert share[0] < 0.95 <= share[1]
    # Of another policy than the run's own only the grid is known.
    other = smallest_lookahead(result, 95, "drop")
    assert other is None or other in result.lookahead_ns
    refill = what_if(fleet, PlayerOptions(lookahead_ns=0, after_underrun="refill"), _due(fleet))
    on_grid = smallest_lookahead(refill, 95, "refill")
    assert on_grid is None or on_grid in refill.lookahead_ns


def test_a_share_that_no_lookahead_reaches() -> None:
    fleet = _fleet(random.Random(7), 100, cut_share=0.5)
    assert (
        smallest_lookahead(what_if(fleet, PlayerOptions(lookahead_ns=0), _due(fleet)), 95, "resume") is None
    )
    none = Arrivals(
        offsets=np.array([0]),
        arrival_ns=np.zeros(0, np.int64),
        media_ns=np.zeros(0, np.int64),
        done_ns=np.zeros(0, np.int64),
        ended=np.zeros(0, bool),
        give_up_ns=np.zeros(0, np.int64),
    )
    empty = what_if(none, PlayerOptions(lookahead_ns=0), _due(none))
    assert smallest_lookahead(empty, 95, "resume") is None
    assert empty.slower_share is None


def test_lookaheads_must_rise() -> None:
    fleet = _fleet(random.Random(1), 3)
    with pytest.raises(ValueError, match="rise"):
        what_if(fleet, PlayerOptions(lookahead_ns=0), _due(fleet), lookaheads_ns=np.array([5, 5]))
    with pytest.raises(ValueError, match="due time"):
        what_if(fleet, PlayerOptions(lookahead_ns=0), _due(fleet)[:1])
    assert default_lookaheads(10).size == 501
    assert default_lookaheads(100_000).size == 101


def _made(rng: random.Random, streams: int, chunks: int, mean_ms: float) -> Arrivals:
    rows = []
    for _ in range(streams):
        t = 0.0
        for _ in range(chunks):
            rows.append((round(t * MS), 80 * MS))
            t += mean_ms * rng.uniform(0.8, 1.2)
    table = np.array(rows, np.int64)
    return Arrivals(
        offsets=np.arange(streams + 1) * chunks,
        arrival_ns=table[:, 0],
        media_ns=table[:, 1],
        done_ns=table[chunks - 1 :: chunks, 0],
        ended=np.ones(streams, bool),
        give_up_ns=np.zeros(streams, np.int64),
    )


def test_slow_producers_are_told_from_fast_ones() -> None:
    rng = random.Random(2)
    assert slower_than_real_time(_made(rng, 200, 40, 92)).mean() > 0.99
    assert slower_than_real_time(_made(rng, 200, 40, 60)).sum() == 0
    assert slower_than_real_time(_made(rng, 400, 40, 80)).mean() < 0.1  # chance alone
    assert slower_than_real_time(_made(rng, 20, 4, 200)).sum() == 0  # too few chunks to tell


def test_one_hole_is_not_slowness() -> None:
    fleet = _made(random.Random(3), 1, 60, 70)
    arrival = fleet.arrival_ns.copy()
    arrival[45:] += 3000 * MS
    holed = Arrivals(
        offsets=fleet.offsets,
        arrival_ns=arrival,
        media_ns=fleet.media_ns,
        done_ns=arrival[-1:],
        ended=fleet.ended,
        give_up_ns=fleet.give_up_ns,
    )
    assert not slower_than_real_time(holed).any()


def test_two_short_losses_in_one_millisecond_are_not_one_underrun() -> None:
    arrival = np.array([0, 10_500_000, 11 * MS])
    fleet = Arrivals(
        offsets=np.array([0, 3]),
        arrival_ns=arrival,
        media_ns=np.array([10 * MS, 900_000, 5 * MS]),
        done_ns=arrival[-1:],
        ended=np.ones(1, bool),
        give_up_ns=np.zeros(1, np.int64),
    )
    result = what_if(fleet, PlayerOptions(lookahead_ns=0), arrival[:1], lookaheads_ns=np.array([0]))
    assert result.curves["drop"].underruns.tolist() == [0]
    assert result.curves["drop"].stall_total_ns.tolist() == [600_000]
