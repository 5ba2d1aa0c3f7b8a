"""Faces: the closed form against a screen watched millisecond by millisecond, and the published numbers."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from cotenant.playback.arrivals import NULL_NS, PLUS_INF_NS
from cotenant.playback.face import FacePlayback, Model, harmonic_fps, judge_face
from cotenant.playback.freezes import freezes_of
from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import Playback, delayed, play

MS = 1_000_000


def _voice(chunks: list[tuple[int, int]], lookahead_ms: int = 0, after: str = "resume") -> Playback:
    rows = np.array(chunks, np.int64) * MS
    options = PlayerOptions(lookahead_ns=lookahead_ms * MS, after_underrun=after)  # type: ignore[arg-type]
    return play(rows[:, 0], rows[:, 1], options, done_ns=int(rows[-1, 0]))


def _face(
    frames: Sequence[tuple[float, float]],
    voice: Playback,
    *,
    buffer_ms: int = 0,
    model: Model = "audio_master",
) -> FacePlayback:
    rows = np.round(np.array(frames, np.float64).reshape(-1, 2) * MS).astype(np.int64)
    return judge_face(rows[:, 0], rows[:, 1], None, voice, 0, 25, buffer_ms * MS, model)


def _heard_ms(chunks: list[tuple[int, int]], start: int) -> list[int]:
    """Wall time of each millisecond of audio, by living through it."""
    heard: list[int] = []
    t = start
    while len(heard) < sum(d for _, d in chunks):
        if sum(d for a, d in chunks if a <= t) > len(heard):
            heard.append(t)
        t += 1
    return heard


def _watch(
    frames: list[tuple[int, int]], chunks: list[tuple[int, int]], lookahead: int, buffer: int
) -> tuple[int, int, list[tuple[int, int, int]]]:
    """(P, the voice's end, [(appears, media, skew)]): the screen looked at once a millisecond."""
    start = next(
        (a for i, (a, _) in enumerate(chunks) if sum(d for _, d in chunks[: i + 1]) >= lookahead), None
    )
    begun = start if start is not None else chunks[-1][0]
    pair = min(max(begun, min(a for a, _ in frames) + buffer), begun + 2000)
    heard = _heard_ms(chunks, pair)

    def due(media: int) -> int:
        return heard[media] if media < len(heard) else heard[-1] + 1 + media - len(heard)

    seen: list[tuple[int, int, int]] = []
    for t in range(pair, max(max(a, due(m)) for a, m in frames) + 1):
        ready = [m for a, m in frames if a <= t and due(m) <= t]
        if ready and (not seen or max(ready) > seen[-1][1]):
            seen.append((t, max(ready), t - due(max(ready))))
    kept = [s for s, n in zip(seen, [*seen[1:], None], strict=True) if n is None or n[0] - s[0] > 20]
    return pair, heard[-1] + 1, kept


def test_faces_equal_a_screen_watched_every_millisecond() -> None:
    rng = random.Random(5)
    for number in range(300):
        chunks, t = [], rng.randrange(50)
        for _ in range(rng.randrange(1, 6)):
            chunks.append((t, rng.randrange(20, 200)))
            t += rng.randrange(0, 260)
        audio = sum(d for _, d in chunks)
        frames, late = [], rng.randrange(0, 400)
        for k in range(audio // 40 + rng.randrange(0, 3)):
            late += rng.choice((0, 0, 0, 5, -5, 30, -30, 200))
            frames.append((max(0, chunks[0][0] + 40 * k + late), 40 * k))
        frames = frames or [(0, 0)]
        rng.shuffle(frames)
        lookahead, buffer = rng.choice((0, 100, 400)), rng.choice((0, 200))
        pair, end, kept = _watch(frames, chunks, lookahead, buffer)
        face = _face([(float(a), float(m)) for a, m in frames], _voice(chunks, lookahead), buffer_ms=buffer)
        assert face.pair_start_ns == pair * MS, number
        assert face.end_ns == end * MS
        shown = list(zip(face.shown_ns // MS, face.shown_media_ns // MS, face.skew_ns // MS, strict=True))
        assert shown == kept, number
        assert face.dropped == len(frames) - len(kept)
        last = max(end, kept[-1][0] + 40)
        windows = [sum(t <= at < t + 1000 for at, _, _ in kept) for t in range(pair, last - 999, 100)]
        assert face.window_counts.tolist() == windows


def test_a_healthy_face_has_25_frames_no_skew_and_no_freeze() -> None:
    voice = _voice([(0, 2000)])
    face = _face([(40 * k, 40 * k) for k in range(50)], voice, buffer_ms=200)
    assert (face.fps_min, face.fps_p5, face.dropped, face.freezes) == (25, 25, 0, ())
    assert face.harmonic_fps == pytest.approx(25)
    assert face.sync is not None
    assert (face.sync.p5_ns, face.sync.p95_ns, face.sync.outside_detect) == (0, 0, 0.0)
    assert face.pair_start_ns == 200 * MS
    assert face.first_frame_ns == 200 * MS


def test_frames_made_in_bursts_are_not_late_with_the_buffer() -> None:
    frames = [(200 * (k // 5) + 160, 40 * k) for k in range(50)]
    face = _face(frames, _voice([(0, 2000)]), buffer_ms=200)
    assert (face.late, face.dropped) == (0, 0)
    without = _face(frames, _voice([(0, 2000)]), buffer_ms=0)
    assert without.late == 0  # the pair waits for the first frame, and the bursts are a beat
    assert _face(frames[5:], _voice([(0, 2000)]), buffer_ms=0).pair_start_ns == 360 * MS


def test_video_made_at_22_fps_drifts_and_never_freezes() -> None:
    """LiveTalking's threads: 5.45 ms of skew a frame, +45 crossed at frame 9, +90 at frame 17."""
    face = _face([(k * 1000 / 22, 40 * k) for k in range(110)], _voice([(0, 4400)]))
    skew_ms = face.skew_ns / MS
    assert skew_ms[1] == pytest.approx(1000 / 22 - 40, abs=1e-5)
    assert int((skew_ms > 45).argmax()) == 9
    assert int((skew_ms > 90).argmax()) == 17
    assert face.freezes == face.freezes_spec == ()
    assert face.fps_min == 22
    assert face.sync is not None
    assert face.sync.drift_ns_per_minute == pytest.approx(0.12 * 60e9, rel=1e-3)
    assert face.sync.start_ns == 0


@pytest.mark.parametrize(("fps", "limit_ms"), [(25, 195), (20, 205), (10, 321)])
def test_libwebrtc_freezes_begin_where_its_source_says(fps: int, limit_ms: int) -> None:
    steady = np.arange(31, dtype=np.int64) * (1000 // fps) * MS
    for hole, expected in ((limit_ms - 1, 0), (limit_ms, 1)):
        shown = np.append(steady, steady[-1] + hole * MS)
        assert len(freezes_of(shown, int(shown[-1]), 0)) == expected


def test_the_specification_leaves_the_current_interval_out() -> None:
    steady = np.arange(31, dtype=np.int64) * 40 * MS
    for hole, expected in ((189, 0), (190, 1)):
        shown = np.append(steady, steady[-1] + hole * MS)
        assert len(freezes_of(shown, int(shown[-1]), 0, rule="spec")) == expected


def test_the_average_is_over_the_last_30_frames_only() -> None:
    slow, fast = np.arange(40, dtype=np.int64) * 200 * MS, np.arange(1, 41, dtype=np.int64) * 40 * MS
    shown = np.append(slow, slow[-1] + fast)
    for rule in ("libwebrtc", "spec"):
        held = np.append(shown, shown[-1] + 300 * MS)
        (only,) = freezes_of(held, int(held[-1]), 0, rule=rule)
        assert only.duration_ns == 300 * MS


def test_a_frame_that_stays_half_a_period_is_not_shown() -> None:
    voice = _voice([(0, 1000)])
    for stays, dropped in ((20, 1), (20.001, 0)):
        face = _face([(0, 0), (40, 40), (80 + 40 - stays, 80), (0, 120)], voice)
        assert face.dropped == dropped


def test_four_samples_are_too_few_for_libwebrtc() -> None:
    for count, expected in ((3, 0), (4, 1)):
        shown = np.append(np.arange(count + 1) * 40 * MS, (count * 40 + 1000) * MS)
        assert len(freezes_of(shown, int(shown[-1]), 0)) == expected


def test_halving_the_rate_is_no_freeze_but_shows_in_fps() -> None:
    frames = [(40.0 * k, 40.0 * k) for k in range(50)] + [
        (2000 + 83.0 * k, 2000 + 83.0 * k) for k in range(24)
    ]
    face = _face(frames, _voice([(0, 4000)]))
    assert face.freezes == ()
    assert face.fps_min is not None
    assert face.fps_min <= 13


def test_a_hole_over_5_s_is_a_freeze_and_a_pause_and_an_open_freeze_is_closed_by_the_end() -> None:
    frames = [(40.0 * k, 40.0 * k) for k in range(10)] + [
        (6000 + 40.0 * k, 6000 + 40.0 * k) for k in range(10)
    ]
    face = _face(frames, _voice([(0, 9000)]))
    hole, tail = face.freezes
    assert (hole.duration_ns, hole.pause, hole.open) == (5640 * MS, True, False)
    assert (tail.start_ns, tail.duration_ns, tail.pause, tail.open) == (6360 * MS, 2640 * MS, False, True)
    assert face.fps_min == 0


def test_harmonic_rate_of_ten_seconds_with_one_frozen() -> None:
    intervals = np.append(np.full(250, 40 * MS), 1000 * MS)
    assert harmonic_fps(intervals) == pytest.approx(7.857, abs=1e-3)
    assert harmonic_fps(np.zeros(0, np.int64)) is None


def test_the_three_models_differ_as_they_should() -> None:
    voice = _voice([(0, 1000), (1500, 1000)])  # half a second of silence in the middle
    frames = [(40.0 * k + (300 if k >= 10 else 0), 40.0 * k) for k in range(50)]
    master = _face(frames, voice)
    locked = _face(frames, voice, model="av_locked")
    free = _face(frames, voice, model="free_run")
    assert int(master.skew_ns.min()) >= 0
    assert int(master.skew_ns.max()) == 300 * MS
    assert not locked.skew_ns.any()
    assert locked.audio_wait_ns == 0  # the 300 ms disappear in the voice's own silence
    assert int(free.skew_ns.min()) == -200 * MS  # the voice stood still, the picture did not
    alone = _face(frames, _voice([(0, 2000)]), model="av_locked")
    assert alone.audio_wait_ns == 300 * MS
    assert alone.end_ns == 2300 * MS


def test_a_late_face_makes_the_pair_wait_two_seconds_at_most() -> None:
    voice = _voice([(100, 6000)])
    assert (
        _face([(1500 + 40.0 * k, 40.0 * k) for k in range(150)], voice, buffer_ms=200).pair_start_ns
        == 1700 * MS
    )
    late = _face([(4000 + 40.0 * k, 40.0 * k) for k in range(150)], voice, buffer_ms=200)
    assert late.pair_start_ns == 2100 * MS
    assert late.fps_min == 0


def test_waiting_for_the_face_saves_the_voice_a_stall() -> None:
    voice = _voice([(0, 100), (250, 100)])
    waited = delayed(voice, 200 * MS)
    assert (voice.stall_total_ns, waited.stall_total_ns) == (150 * MS, 0)
    assert delayed(voice, 0) is voice


def test_nothing_to_see() -> None:
    voice = _voice([(0, 3000)])
    none = _face([], voice)
    assert (none.fps_min, none.first_frame_ns, none.harmonic_fps, none.sync) == (0, PLUS_INF_NS, 0.0, None)
    options = PlayerOptions(lookahead_ns=0)
    silent = play(np.zeros(0, np.int64), np.zeros(0, np.int64), options, done_ns=5)
    alone = _face([(0, 0)], silent)
    assert not alone.began
    assert (alone.first_frame_ns, alone.fps_min, alone.freezes_per_minute) == (PLUS_INF_NS, None, None)
    short = _face([(0, 0)], _voice([(0, 500)]))
    assert short.fps_min is None
    assert short.harmonic_fps == 2.0


def test_frame_latency_counts_where_it_is_known() -> None:
    face = judge_face(
        np.array([50, 90]), np.array([0, 40]), np.array([20, NULL_NS]), _voice([(0, 100)]), 0, 25, 0
    )
    assert face.frame_latency_ns.tolist() == [30]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"media_time_ns": np.array([1, 2])}, "every frame"),
        ({"fps": 0}, "no face at 0 fps"),
        ({"model": "solo"}, "model 'solo'"),
    ],
)
def test_bad_faces_are_refused(fields: dict[str, object], message: str) -> None:
    good: dict[str, object] = {
        "arrival_ns": np.array([1]),
        "media_time_ns": np.array([1]),
        "audio_handed_ns": None,
        "voice": _voice([(0, 100)]),
        "due_ns": 0,
        "fps": 25,
    }
    with pytest.raises(ValueError, match=message):
        judge_face(**{**good, **fields})  # type: ignore[arg-type]
