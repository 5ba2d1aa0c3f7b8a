"""The small parts: options, gaps, energy, quantiles, events, states of a stream."""

import numpy as np
import pytest

from cotenant.playback.arrivals import ceil_to_grid, prepare, was_reordered
from cotenant.playback.continuity import continuity
from cotenant.playback.energy import in_speech
from cotenant.playback.gaps import gaps_time_weighted, stream_gaps
from cotenant.playback.lipsync import lip_sync, outside_share
from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import play, wall_of
from cotenant.playback.weighted import nearest_rank, weighted_rank

MS = 1_000_000


@pytest.mark.parametrize(
    "fields",
    [
        {"lookahead_ns": -1},
        {"start": "now"},
        {"after_underrun": "pray"},
        {"quantum_ns": -1},
        {"resync_after_ns": -5},
    ],
)
def test_impossible_players_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"negative|prefill or delay|resume, refill or drop"):
        PlayerOptions(**{"lookahead_ns": 0, **fields})  # type: ignore[arg-type]


def test_rows_are_sorted_stably_and_empty_ones_removed() -> None:
    arrival, media = prepare([5, 1, 5, 3], [10, 20, 30, 0])
    assert (arrival.tolist(), media.tolist()) == ([1, 5, 5], [20, 10, 30])
    assert was_reordered(np.array([2, 1]))
    with pytest.raises(ValueError, match="negative"):
        prepare([1], [-1])
    with pytest.raises(ValueError, match="integers"):
        prepare([1.5], [1])
    with pytest.raises(ValueError, match="1 arrivals but 2 durations"):
        prepare([1], [1, 2])


def test_the_grid_starts_at_its_origin() -> None:
    assert [ceil_to_grid(t, 3, 10) for t in (3, 4, 13, 14)] == [3, 13, 13, 23]
    assert ceil_to_grid(7, 3, 0) == 7


def test_a_cut_stream_needs_the_time_it_was_given_up() -> None:
    with pytest.raises(ValueError, match="given up"):
        play([1], [1], PlayerOptions(lookahead_ns=0), done_ns=None)


def test_a_cut_stream_that_never_began_has_only_what_arrivals_tell() -> None:
    played = play([0], [100 * MS], PlayerOptions(lookahead_ns=400 * MS), done_ns=None, give_up_ns=900 * MS)
    assert (played.start_ns, played.stall_total_ns, played.headroom_ns, played.underruns) == (None,) * 4
    assert played.required_lookahead_ns == 800 * MS
    assert (played.heard_ns, played.lost_ns, played.clean) == (0, 100 * MS, False)
    assert played.stall_ratio is None
    with pytest.raises(ValueError, match="never began"):
        wall_of(played, [0])


def test_an_open_stall_is_censored_where_it_was_given_up() -> None:
    played = play([0], [100 * MS], PlayerOptions(lookahead_ns=0), done_ns=None, give_up_ns=900 * MS)
    (event,) = played.events
    assert (event.start_ns, event.duration_ns, event.open) == (100 * MS, 800 * MS, True)
    assert (played.headroom_ns, played.end_ns, played.clean) == (-800 * MS, 900 * MS, False)
    drained = play([0], [100 * MS], PlayerOptions(lookahead_ns=0), done_ns=None, give_up_ns=50 * MS)
    assert (drained.events, drained.end_ns, drained.clean) == ((), 100 * MS, False)


def test_exactly_in_time_is_no_underrun_and_100_ms_are_clean() -> None:
    options = PlayerOptions(lookahead_ns=0)
    assert play([0, 100], [100, 100], options, done_ns=100).stall_total_ns == 0
    short = play([0, 2 * MS - 1], [MS, MS], options, done_ns=2 * MS)
    assert (short.underruns, short.stall_total_ns) == (0, MS - 1)
    for late, clean in ((100 * MS, True), (100 * MS + 1, False)):
        assert play([0, MS + late], [MS, MS], options, done_ns=300 * MS).clean is clean


def test_a_late_end_of_stream_is_no_underrun_but_holds_back_a_prefill() -> None:
    options = PlayerOptions(lookahead_ns=400 * MS)
    played = play([0], [100 * MS], options, done_ns=5000 * MS)
    assert (played.start_ns, played.underruns, played.headroom_ns) == (5000 * MS, 0, None)


def test_events_know_the_time_since_the_last_one() -> None:
    played = play([0, 30 * MS, 70 * MS], [10 * MS] * 3, PlayerOptions(lookahead_ns=0), done_ns=70 * MS)
    assert [(e.start_ns, e.media_ns, e.duration_ns, e.since_previous_ns) for e in played.events] == [
        (10 * MS, 10 * MS, 20 * MS, None),
        (40 * MS, 20 * MS, 30 * MS, 10 * MS),
    ]
    assert (wall_of(played, [0, 10 * MS, 20 * MS, 40 * MS]) // MS).tolist() == [0, 30, 70, 90]


def test_the_gap_of_a_random_instant() -> None:
    assert gaps_time_weighted(np.zeros(0, np.int64), (50, 99)) == [None, None]
    assert gaps_time_weighted(np.array([0, 0]), (50, 99)) == [0, 0]
    steady = np.append(np.full(599, 50), 3050)
    assert gaps_time_weighted(steady, (99, 50)) == [3050, 50]
    # Bursts are not joined.
    assert gaps_time_weighted(np.array([2, 2, 2]) * MS, (50,)) == [2 * MS]


def test_gaps_of_a_fleet_do_not_cross_streams() -> None:
    arrival, offsets = np.array([0, 20, 50, 7, 0, 1]) * MS, np.array([0, 0, 3, 3, 4, 6, 6])
    gaps, gap_offsets = stream_gaps(arrival, offsets)
    assert (gaps // MS).tolist() == [20, 30, 1]
    assert gap_offsets.tolist() == [0, 0, 2, 2, 2, 3, 3]
    gaps, gap_offsets = stream_gaps(arrival[:0], np.zeros(3, np.int64))
    assert (gaps.tolist(), gap_offsets.tolist()) == ([], [0, 0, 0])


def test_a_silence_is_in_speech_where_a_side_sounds() -> None:
    rate = 16_000
    tone = (8000 * np.sin(np.arange(rate) * 0.3)).astype(np.int16)
    pcm = np.concatenate([tone, np.zeros(rate, np.int16)])
    assert [in_speech(pcm, rate, at * MS) for at in (500, 1010, 1500)] == [True, True, False]
    assert in_speech(pcm, rate, 1030 * MS) is False
    assert in_speech(pcm, rate, 10**12) is None
    assert in_speech(np.zeros(100, np.int16), rate, 0) is None
    with pytest.raises(ValueError, match="no sample rate"):
        in_speech(pcm, 0, 0)


def test_quantiles_are_nearest_rank() -> None:
    values = np.arange(1, 21)
    assert [nearest_rank(values, p) for p in (5, 50, 95, 99, 100)] == [1, 10, 19, 20, 20]
    assert nearest_rank(values[:0], 50) is None
    assert weighted_rank(np.array([3, 1, 2]), np.array([1, 98, 1]), 98) == 1
    assert weighted_rank(np.array([3, 1, 2]), np.array([1, 98, 1]), 99) == 2
    assert weighted_rank(np.array([1]), np.array([0]), 50) is None


def test_the_limits_of_lip_sync_are_themselves_inside() -> None:
    skew, hold = np.array([45, -125, 46, -126, 90, 91, -185, -186]) * MS, np.full(8, 10)
    assert outside_share(skew, hold, (-125 * MS, 45 * MS)) == 0.75
    sync = lip_sync(skew, hold, None)
    assert sync is not None
    assert (sync.outside_detect, sync.outside_accept, sync.drift_ns_per_minute) == (0.75, 0.25, None)
    with pytest.raises(ValueError, match="no picture"):
        outside_share(skew[:0], hold[:0], (0, 1))


def test_no_audio_is_fine_for_vllm_omni_only() -> None:
    nothing = continuity([1, 2], [0, 0])
    assert (nothing.audio_underrun_ok, nothing.longest_stall_ns, nothing.c100) == (True, None, None)
