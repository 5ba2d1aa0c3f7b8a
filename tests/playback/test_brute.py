"""The player against the one that lives through every tick: 10,000 random streams a policy, start and end."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from cotenant.playback.player import Playback, play, wall_of
from tests.halves import Results, asked_for, halves, result
from tests.playback.brute import Case, Heard, simulate
from tests.playback.cases import POLICIES, options_of, random_case

STREAMS = 10_000
# Half a millisecond: some silences are too short to count. The odd one has no round millisecond in it.
TICKS_NS = (500_000, 13_333_333)


def _expected_needs(case: Case) -> list[int]:
    """When each chunk, and the missing one of a cut stream, is too late for a start at 0."""
    needs, position, block = [], 0, max(case.quantum, 1)
    for arrival, duration in case.chunks:
        needs.append(arrival - position // block * block)
        position += duration
    if case.give_up is not None:
        needs.append(case.give_up - position // block * block)
    return needs


def _check(case: Case, heard: Heard, played: Playback, tick: int) -> None:
    needs = _expected_needs(case)
    assert played.required_lookahead_ns == (max(needs) - case.chunks[0][0]) * tick
    if heard.start is None:
        assert played.start_ns is None
        assert played.stall_total_ns is None
        assert not played.clean
        return
    assert played.start_ns == heard.start * tick
    assert played.end_ns == heard.end * tick
    rows = np.column_stack([played.silence_start_ns, played.silence_media_ns, played.silence_duration_ns])
    assert (rows // tick).tolist() == heard.silences
    lengths = [length * tick for _, _, length in heard.silences]
    assert played.stall_total_ns == sum(lengths)
    assert played.underruns == len(played.events) == sum(length >= 1_000_000 for length in lengths)
    assert played.heard_ns == len(heard.heard_at) * tick
    assert played.heard_ns + played.lost_ns == played.audio_ns
    assert played.clean == (case.give_up is None and max(lengths, default=0) <= 100_000_000)
    if played.events and lengths[-1] >= 1_000_000:
        assert played.events[-1].open == heard.open
    media = np.array(sorted(heard.heard_at), np.int64)
    assert (wall_of(played, media * tick) // tick).tolist() == [heard.heard_at[m] for m in media.tolist()]
    started_by = case.chunks[0][0]
    if case.start == "prefill":
        in_hand = 0
        for started_by, duration in case.chunks:  # noqa: B007
            in_hand += duration
            if in_hand >= case.lookahead:
                break
    later = [n for n, (a, _) in zip(needs, case.chunks, strict=False) if a > started_by]
    later += needs[len(case.chunks) :]
    assert played.headroom_ns == ((heard.start - max(later)) * tick if later else None)
    if case.quantum == 0:
        levels = (played.playable_ahead_ns // tick).tolist()
        assert [v for v, e in zip(levels, heard.levels, strict=False) if e is not None] == [
            e for e in heard.levels if e is not None
        ]


def work(name: str) -> int:
    """Compares the streams of one policy, start and end; their number."""
    policy, start, end = name.split("-")
    rng = random.Random(f"{policy}/{start}/{end == 'cut'}")
    for number in range(STREAMS):
        case = random_case(rng, policy, start, end == "cut")
        tick = TICKS_NS[number % 2]
        rows = np.array(case.chunks, np.int64) * tick
        played = play(
            rows[:, 0],
            rows[:, 1],
            options_of(case, tick),
            done_ns=None if case.done is None else case.done * tick,
            give_up_ns=None if case.give_up is None else case.give_up * tick,
        )
        try:
            _check(case, simulate(case), played, tick)
        except AssertionError as error:
            raise AssertionError(f"stream {number}: {case}\n{error}") from error
    return STREAMS


NAMES = [
    f"{policy}-{start}-{end}"
    for policy in POLICIES
    for start in ("prefill", "delay")
    for end in ("ended", "cut")
]


@pytest.fixture(scope="module")
def compared(request: pytest.FixtureRequest) -> Iterator[Results]:
    with halves(__name__, asked_for(request, NAMES)) as results:
        yield results


@pytest.mark.parametrize("name", NAMES)
def test_player_equals_the_brute_force_player(name: str, compared: Results) -> None:
    assert result(compared, name) == STREAMS
