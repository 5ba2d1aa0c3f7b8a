"""Many faces at once: the same numbers as one by one, whatever the voices, frames and players are."""

import random

import numpy as np
import pytest

from cotenant.playback.arrivals import NULL_NS, PLUS_INF_NS
from cotenant.playback.blocks import Arrivals, part_of
from cotenant.playback.face import FacePlayback, judge_face
from cotenant.playback.face_fleet import Clips, FaceFleet, judge_faces
from cotenant.playback.fleet import play_fleet
from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import Playback, play
from cotenant.playback.voice_clocks import voice_clocks

MS = 1_000_000
PLAYERS = [
    PlayerOptions(lookahead_ns=0),
    PlayerOptions(lookahead_ns=150 * MS, start="delay"),
    PlayerOptions(lookahead_ns=200 * MS, after_underrun="refill"),
    PlayerOptions(lookahead_ns=100 * MS, after_underrun="drop"),
    PlayerOptions(lookahead_ns=100 * MS, quantum_ns=10 * MS),
]


def _voices(rng: random.Random, count: int) -> Arrivals:
    offsets, arrival, media, ended, done = [0], [], [], [], []
    for _ in range(count):
        t = rng.randrange(0, 10_000)
        for _ in range(rng.choice((0, 1, 3, 8, 20))):
            t += rng.choice((0, 40, 90, 160, 400))
            arrival.append(t * MS + rng.randrange(MS))
            media.append(rng.choice((0, 80, 160, 300)) * MS + rng.randrange(2))
        offsets.append(len(arrival))
        ended.append(rng.random() < 0.8)
        done.append((t + rng.randrange(0, 900)) * MS)
    return Arrivals(
        offsets=np.array(offsets), arrival_ns=np.array(arrival), media_ns=np.array(media),
        done_ns=np.array(done), ended=np.array(ended), give_up_ns=np.array(done),
    )  # fmt: skip


def _playback(voices: Arrivals, index: int, options: PlayerOptions) -> Playback:
    if index < 0:
        return play([], [], options, done_ns=0)
    rows = slice(voices.offsets[index], voices.offsets[index + 1])
    done = int(voices.done_ns[index])
    return play(
        voices.arrival_ns[rows],
        voices.media_ns[rows],
        options,
        done_ns=done if voices.ended[index] else None,
        give_up_ns=done,
    )


def _clips(rng: random.Random, voices: Arrivals, count: int) -> Clips:
    offsets, rows, voice, due = [0], [], [], []
    for _ in range(count):
        index = rng.randrange(-1, voices.streams)
        first = int(voices.arrival_ns[voices.offsets[index]]) if 0 <= index < voices.streams - 1 else 0
        late, regular = rng.randrange(-200, 2500), rng.random() < 0.6
        for k in range(rng.choice((0, 1, 4, 40, 120))):
            late += (
                0
                if regular
                else rng.choice((0, 0, 0, 7, -7, 40, -40, 300, 6000 if rng.random() < 0.05 else 0))
            )
            media = 40 * k if regular else 40 * k + rng.choice((0, 0, 0, 40, -80))
            handed = NULL_NS if rng.random() < 0.2 else first + (40 * k - 100) * MS
            rows.append((max(0, first + (40 * k + late) * MS), media * MS, handed))
        if not regular and len(rows) > offsets[-1]:
            tail = rows[offsets[-1] :]
            rng.shuffle(tail)
            rows[offsets[-1] :] = tail
        offsets.append(len(rows))
        voice.append(index)
        due.append(first - rng.randrange(0, 500) * MS)
    arrival, media_time, handed_ns = np.array(rows, np.int64).reshape(-1, 3).T
    return Clips(
        offsets=np.array(offsets), arrival_ns=arrival, media_time_ns=media_time, audio_handed_ns=handed_ns,
        voice=np.array(voice), due_ns=np.array(due),
        fps=np.array([rng.choice((25, 25, 30)) for _ in range(count)]),
        face_buffer_ns=np.array([rng.choice((0, 200)) * MS for _ in range(count)]),
    )  # fmt: skip


def _one(fleet: FaceFleet, name: str, offsets: str, clip: int) -> list[int]:
    at = getattr(fleet, offsets)
    found: list[int] = getattr(fleet, name)[at[clip] : at[clip + 1]].tolist()
    return found


def _assert_same(fleet: FaceFleet, clip: int, face: FacePlayback) -> None:
    assert bool(fleet.began[clip]) == face.began
    assert int(fleet.pair_start_ns[clip]) == (face.pair_start_ns or 0)
    assert int(fleet.end_ns[clip]) == (face.end_ns or 0)
    for name in ("watched_ns", "first_frame_ns", "frames", "dropped", "late"):
        assert int(getattr(fleet, name)[clip]) == getattr(face, name), name
    assert int(fleet.freezes[clip]) == len(face.freezes)
    assert int(fleet.freezes_spec[clip]) == len(face.freezes_spec)
    assert int(fleet.pauses[clip]) == sum(freeze.pause for freeze in face.freezes)
    for offsets, names in (
        ("shown_offsets", ("shown_ns", "hold_ns", "skew_ns")),
        ("window_offsets", ("window_start_ns", "window_counts")),
        ("interval_offsets", ("intervals_ns",)),
        ("latency_offsets", ("frame_latency_ns",)),
    ):
        for name in names:
            assert _one(fleet, name, offsets, clip) == getattr(face, name).tolist(), name


@pytest.mark.parametrize("options", PLAYERS, ids=lambda o: f"{o.start}-{o.after_underrun}-{o.quantum_ns}")
@pytest.mark.parametrize("seed", range(6))
def test_a_fleet_of_faces_is_what_each_of_them_is(options: PlayerOptions, seed: int) -> None:
    rng = random.Random(seed)
    voices = _voices(rng, 25)
    clips = _clips(rng, voices, 60)
    fleet = judge_faces(clips, voices, play_fleet(voices, options), options)
    for clip in range(60):
        rows = slice(clips.offsets[clip], clips.offsets[clip + 1])
        face = judge_face(
            clips.arrival_ns[rows],
            clips.media_time_ns[rows],
            clips.audio_handed_ns[rows],
            _playback(voices, int(clips.voice[clip]), options),
            int(clips.due_ns[clip]),
            int(clips.fps[clip]),
            int(clips.face_buffer_ns[clip]),
        )
        _assert_same(fleet, clip, face)


def test_pieces_and_strange_media_times_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(9)
    voices, options = _voices(rng, 20), PLAYERS[0]
    clips = _clips(rng, voices, 40)
    media = clips.media_time_ns.copy()
    clip = int(np.argmax(np.diff(clips.offsets) * (clips.voice >= 0)))
    media[clips.offsets[clip]] = -(2**61)
    strange = Clips(**{name: getattr(clips, name) for name in Clips.__slots__} | {"media_time_ns": media})
    played = play_fleet(voices, options)
    whole = judge_faces(strange, voices, played, options)
    monkeypatch.setattr("cotenant.playback.face_fleet._ROWS", 50)
    pieces = judge_faces(strange, voices, played, options)
    for name in FaceFleet.__slots__:
        assert np.array_equal(getattr(whole, name), getattr(pieces, name)), name
    rows = slice(clips.offsets[clip], clips.offsets[clip + 1])
    face = judge_face(
        clips.arrival_ns[rows],
        media[rows],
        clips.audio_handed_ns[rows],
        _playback(voices, int(clips.voice[clip]), options),
        int(clips.due_ns[clip]),
        int(clips.fps[clip]),
        int(clips.face_buffer_ns[clip]),
    )
    _assert_same(whole, clip, face)


def test_no_face_at_all() -> None:
    none = np.zeros(0, np.int64)
    clips = Clips(
        offsets=np.zeros(1, np.int64), arrival_ns=none, media_time_ns=none, audio_handed_ns=none, voice=none,
        due_ns=none, fps=none, face_buffer_ns=none,
    )  # fmt: skip
    voices = _voices(random.Random(1), 0)
    fleet = judge_faces(clips, voices, play_fleet(voices, PLAYERS[0]), PLAYERS[0])
    assert fleet.began.size == fleet.shown_ns.size == 0
    assert fleet.window_offsets.tolist() == [0]


def test_faces_in_a_run_that_has_no_voice_at_all_were_not_seen() -> None:
    voices = part_of(_voices(random.Random(1), 3), np.zeros(0, np.int64))
    clips = _clips(random.Random(1), voices, 4)
    found = judge_faces(clips, voices, play_fleet(voices, PLAYERS[0]), PLAYERS[0])
    assert not found.began.any()
    assert found.shown_ns.size == 0
    assert found.frames.tolist() == np.diff(clips.offsets).tolist()


def test_a_face_without_a_voice_was_not_seen() -> None:
    voices = _voices(random.Random(2), 3)
    clips = Clips(
        offsets=np.array([0, 1]), arrival_ns=np.array([5]), media_time_ns=np.array([0]),
        audio_handed_ns=np.array([2]), voice=np.array([-1]), due_ns=np.array([0]), fps=np.array([25]),
        face_buffer_ns=np.array([0]),
    )  # fmt: skip
    fleet = judge_faces(clips, voices, play_fleet(voices, PLAYERS[0]), PLAYERS[0])
    assert (fleet.began.tolist(), fleet.first_frame_ns.tolist()) == ([False], [PLUS_INF_NS])
    assert fleet.frame_latency_ns.tolist() == [3]


@pytest.mark.parametrize("options", PLAYERS, ids=lambda o: f"{o.start}-{o.after_underrun}-{o.quantum_ns}")
def test_clocks_of_voices_are_those_of_each(options: PlayerOptions) -> None:
    voices = _voices(random.Random(4), 200)
    played = play_fleet(voices, options)
    began = np.flatnonzero(played.began)
    own = part_of(voices, began)
    clocks = voice_clocks(own, played.start_ns[began], options)
    for number, index in enumerate(began.tolist()):
        one = _playback(voices, index, options)
        steps = slice(clocks.offsets[number], clocks.offsets[number + 1])
        assert clocks.media_ns[steps].tolist() == one.clock_media_ns.tolist()
        assert clocks.wall_ns[steps].tolist() == one.clock_wall_ns.tolist()
        assert int(clocks.end_ns[number]) == one.end_ns
