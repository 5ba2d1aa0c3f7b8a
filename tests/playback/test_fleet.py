"""All streams at once against one by one."""

import random
from typing import Any

import numpy as np
import pytest

from cotenant.playback import blocks
from cotenant.playback.arrivals import MINUS_INF_NS, NULL_NS, PLUS_INF_NS
from cotenant.playback.fleet import Arrivals, play_fleet
from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import play
from tests.playback.cases import POLICIES, random_case

STREAMS = 10_000
TICK_NS = 500_000


def _fleet(rng: random.Random, count: int, tick: int = TICK_NS) -> Arrivals:
    """Random streams: ended and cut, some without audio, some shuffled, with empty rows."""
    offsets, rows, limits, ended = [0], [], [], []
    for _ in range(count):
        cut = rng.random() < 0.4
        case = random_case(rng, "resume", "prefill", cut)
        chunks = list(case.chunks) if rng.random() > 0.05 else []
        if rng.random() < 0.2:
            chunks.insert(rng.randrange(len(chunks) + 1), (rng.randrange(200), 0))
        if rng.random() < 0.1:
            rng.shuffle(chunks)
        rows += chunks
        offsets.append(len(rows))
        limits.append(case.give_up if case.give_up is not None else case.done)
        ended.append(not cut)
    table = np.array(rows, np.int64) * tick + rng.randrange(10**15)
    table[:, 1] = np.array([d for _, d in rows]) * tick
    shift = table[0, 0] - rows[0][0] * tick
    limit = np.array(limits, np.int64) * tick + shift
    return Arrivals(
        offsets=np.array(offsets),
        arrival_ns=table[:, 0],
        media_ns=table[:, 1],
        done_ns=limit,
        ended=np.array(ended),
        give_up_ns=limit,
    )


def _coded(value: int | None, other: int) -> int:
    return other if value is None else value


@pytest.mark.parametrize("start", ["prefill", "delay"])
@pytest.mark.parametrize("policy", [*POLICIES, "quantum"])
@pytest.mark.parametrize("tick", [TICK_NS, 1])
def test_fleet_equals_the_player(policy: str, start: str, tick: int) -> None:
    rng = random.Random(f"fleet/{policy}/{start}")
    fleet = _fleet(rng, STREAMS // (2 if policy == "resume" else 8), tick)
    options = PlayerOptions(
        lookahead_ns=rng.randrange(1, 12) * tick,
        start=start,  # type: ignore[arg-type]
        after_underrun={"resync": "drop", "quantum": "resume"}.get(policy, policy),  # type: ignore[arg-type]
        quantum_ns=3 * tick if policy == "quantum" else 0,
        resync_after_ns=2 * tick if policy == "resync" else None,
    )
    result = play_fleet(fleet, options)
    events = list(
        zip(
            result.events.stream.tolist(),
            result.events.start_ns.tolist(),
            result.events.media_ns.tolist(),
            result.events.duration_ns.tolist(),
            result.events.open.tolist(),
            strict=True,
        )
    )
    expected_events = []
    for i in range(fleet.streams):
        rows = slice(fleet.offsets[i], fleet.offsets[i + 1])
        limit = int(fleet.done_ns[i])
        one = play(
            fleet.arrival_ns[rows],
            fleet.media_ns[rows],
            options,
            done_ns=limit if fleet.ended[i] else None,
            give_up_ns=limit,
        )
        empty = one.chunks == 0
        assert result.chunks[i] == one.chunks
        assert result.audio_ns[i] == one.audio_ns
        assert result.began[i] == one.began
        assert result.clean[i] == one.clean
        assert result.truncated[i] == one.truncated
        assert result.underruns[i] == _coded(one.underruns, 0)
        assert result.heard_ns[i] == one.heard_ns
        assert result.lost_ns[i] == one.lost_ns
        for name in ("start_ns", "end_ns", "stall_total_ns", "stall_longest_ns"):
            value = getattr(one, name)
            assert getattr(result, name)[i] == _coded(value, PLUS_INF_NS if empty else NULL_NS), name
        assert result.required_lookahead_ns[i] == _coded(one.required_lookahead_ns, PLUS_INF_NS)
        unlimited = PLUS_INF_NS if one.began else MINUS_INF_NS if empty else NULL_NS
        assert result.headroom_ns[i] == _coded(one.headroom_ns, unlimited)
        expected_events += [(i, e.start_ns, e.media_ns, e.duration_ns, e.open) for e in one.events]
    assert events == expected_events
    assert result.reordered.any()


def test_streams_are_cut_into_blocks_without_a_seam() -> None:
    fleet = _fleet(random.Random(3), 500)
    options = PlayerOptions(lookahead_ns=4 * TICK_NS)
    whole = play_fleet(fleet, options)
    numbers = [b.stream.tolist() for b in blocks.blocks_of(fleet, rows=7)]
    assert len(numbers) > 50
    assert [i for part in numbers for i in part] == np.flatnonzero(whole.chunks).tolist()


def test_an_end_before_the_last_arrival_is_at_the_last_arrival() -> None:
    fleet = Arrivals(
        offsets=np.array([0, 2]),
        arrival_ns=np.array([0, 50]),
        media_ns=np.array([10, 10]),
        done_ns=np.array([20]),
        ended=np.array([True]),
        give_up_ns=np.array([0]),
    )
    assert play_fleet(fleet, PlayerOptions(lookahead_ns=30)).start_ns.tolist() == [50]
    assert play([0, 50], [10, 10], PlayerOptions(lookahead_ns=30), done_ns=20).start_ns == 50


def test_huge_times_do_not_overflow() -> None:
    year = 365 * 86_400 * 10**9
    count = 500
    fleet = Arrivals(
        offsets=np.arange(0, 2 * count + 1, 2),
        arrival_ns=np.tile(np.array([0, year]), count),
        media_ns=np.full(2 * count, 10**9),
        done_ns=np.full(count, year),
        ended=np.ones(count, bool),
        give_up_ns=np.zeros(count, np.int64),
    )
    result = play_fleet(fleet, PlayerOptions(lookahead_ns=0))
    assert (result.stall_total_ns == year - 10**9).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 1])}, "offsets"),
        ({"media_ns": np.array([1])}, "2 arrivals but 1 durations"),
        ({"media_ns": np.array([1, -1])}, "row 1: the duration is negative"),
        ({"done_ns": np.array([1, 2])}, "each of 1 streams"),
        ({"arrival_ns": np.array([0.5, 1.0])}, "integers"),
    ],
)
def test_arrays_that_are_no_fleet_are_refused(change: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {
        "offsets": np.array([0, 2]),
        "arrival_ns": np.array([0, 5]),
        "media_ns": np.array([1, 1]),
        "done_ns": np.array([9]),
        "ended": np.array([True]),
        "give_up_ns": np.array([0]),
    }
    with pytest.raises(ValueError, match=message):
        Arrivals(**{**fields, **change})
