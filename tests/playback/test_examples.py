"""The arrival patterns of public reports, with the numbers that they must give."""

import csv
from pathlib import Path

import numpy as np
import pytest

from cotenant.playback.arrivals import Int64Array
from cotenant.playback.continuity import continuity
from cotenant.playback.face import FacePlayback, judge_face
from cotenant.playback.gaps import BURST_NS, gaps_time_weighted
from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import Playback, play
from cotenant.resources import data_dir

MS = 1_000_000


def _read(name: str) -> tuple[Int64Array, Int64Array]:
    with (Path(data_dir("fixtures")) / "arrivals" / name).open(newline="") as file:
        rows = [[round(float(cell) * MS) for cell in row] for row in list(csv.reader(file))[1:]]
    table = np.array(rows, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _play(name: str, lookahead_ms: int = 0, **more: object) -> Playback:
    arrival, media = _read(name)
    options = PlayerOptions(lookahead_ns=lookahead_ms * MS, **more)  # type: ignore[arg-type]
    return play(arrival, media, options, done_ns=int(arrival.max(initial=0)))


def _face(frames: str, voice: str) -> FacePlayback:
    arrival, media = _read(frames)
    return judge_face(arrival, media, None, _play(voice), 0, 25, 0)


def test_gaps_at_a_good_rtf() -> None:
    played = _play("gaps_at_good_rtf.csv")
    assert played.events[0].duration_ns == 1216 * MS
    assert played.required_lookahead_ns == 2584 * MS
    gaps = np.diff(played.arrival_ns)
    assert np.median(gaps[gaps >= BURST_NS][:11]) == pytest.approx(153.4 * MS)
    assert gaps_time_weighted(gaps, (99,)) == [1442 * MS]
    assert _play("gaps_at_good_rtf.csv", 2584, start="delay").underruns == 0
    assert _play("gaps_at_good_rtf.csv", 2583, start="delay").stall_total_ns == MS


def test_a_tiny_first_chunk() -> None:
    played = _play("tiny_first_chunk.csv")
    assert (played.underruns, played.stall_total_ns) == (1, 540 * MS)
    assert _play("tiny_first_chunk.csv", 400, start="delay").stall_total_ns == 140 * MS
    prefill = _play("tiny_first_chunk.csv", 100)
    assert (prefill.start_ns, prefill.underruns, prefill.clean) == (620 * MS, 0, True)
    large = _play("large_first_chunk.csv")
    assert (large.clean, large.required_lookahead_ns) == (True, 0)
    assert continuity(*_read("large_first_chunk.csv")).c50 is True
    assert continuity(*_read("tiny_first_chunk.csv")).c200 is False


def test_two_sentences_that_no_prefill_mends() -> None:
    assert _play("two_sentences.csv").stall_total_ns == 188 * MS
    assert _play("two_sentences.csv", 1200).stall_total_ns == 188 * MS
    assert _play("two_sentences.csv", 187, start="delay").stall_total_ns == MS
    assert _play("two_sentences.csv", 188, start="delay").underruns == 0


def test_slower_than_real_time_hides_from_the_longest_stall() -> None:
    played = _play("slower_than_real_time.csv")
    theirs = continuity(*_read("slower_than_real_time.csv"))
    assert played.underruns == 144
    assert {e.duration_ns for e in played.events} == {34_300_000}
    assert played.required_lookahead_ns == theirs.audio_underrun_ns == 144 * 34_300_000
    assert (theirs.c50, theirs.c100, theirs.audio_underrun_ok) == (True, True, False)
    assert played.clean
    assert played.stall_ratio == pytest.approx(4939.2 / (4939.2 + 12325))


def test_underruns_of_18_seconds() -> None:
    assert continuity(*_read("long_holes.csv")).audio_underrun_ns == 17_840 * MS


def test_nothing_measured_is_not_fine() -> None:
    played = _play("no_timestamps.csv")
    assert (played.chunks, played.clean, played.stall_total_ns, played.headroom_ns) == (0, False, None, None)
    assert (played.began, played.headroom_ns) == (False, None)


def test_a_face_at_22_fps() -> None:
    face = _face("face_at_22_fps.csv", "voice_of_face_at_22_fps.csv")
    skew_ms = face.skew_ns / MS
    assert int((skew_ms > 45).argmax()) == 9
    assert int((skew_ms > 90).argmax()) == 17
    assert face.freezes == ()
    assert face.sync is not None
    assert face.sync.outside_accept > 0.8


def test_a_face_that_stops_and_starts() -> None:
    face = _face("face_stop_start.csv", "voice_of_face_at_22_fps.csv")
    # 500 ms without a frame, one period before, and a frame that is gone after 20 ms and does not count.
    assert [(f.duration_ns, f.pause) for f in face.freezes] == [(560 * MS, False)] * 3
    assert face.fps_min == 12
    assert face.sync is not None
    assert face.sync.p95_ns == 0


def test_a_slow_drift_shows_in_the_slope_before_it_shows_in_a_freeze() -> None:
    face = _face("slow_drift.csv", "voice_of_slow_drift.csv")
    assert face.freezes == ()
    assert face.sync is not None
    assert face.sync.drift_ns_per_minute == pytest.approx(3.5e9 / 600 * 60 / (1 + 3.5 / 600), rel=1e-3)
    assert int(face.skew_ns[-1]) == pytest.approx(3.5e9, rel=1e-2)
