"""Faces: frames driven by a voice or a recording, when their audio was handed over, and faults."""

import asyncio
import itertools
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from cotenant.load.face_audio import HandedAudio
from cotenant.load.listener import start_voices
from cotenant.load.solo_face import one_clip, packets
from cotenant.testing.truth_face import TruthFace, truth_face
from cotenant.testing.truth_server import Script, truth_server
from cotenant.units import NS_PER_MS, NS_PER_S
from tests.load.face_clip import SECOND, shown
from tests.load.rig import (
    PCM_HEADERS,
    KeptRows,
    desk_for,
    faces,
    new_stage,
    run,
    settings,
    tenant,
    voices,
)

PERIOD = 40 * NS_PER_MS


def test_the_audio_that_a_frame_needs() -> None:
    handed = HandedAudio(PERIOD)
    assert handed.needed_at(0) is None
    handed.add(640, at_ns=100)
    handed.add(640, at_ns=200)
    assert [handed.needed_at(i * PERIOD) for i in range(3)] == [100, 200, None]
    handed.add(100, at_ns=300)
    assert handed.needed_at(2 * PERIOD) is None
    handed.end(400)
    assert [handed.needed_at(i * PERIOD) for i in (2, 1, 0, 9)] == [400, 200, 100, 400]


@pytest.mark.parametrize("realtime", [False, True])
def test_a_good_clip(realtime: bool) -> None:
    face = TruthFace()
    rows = run(shown(face, realtime=realtime))
    row = rows.stream()
    assert (row["end"], row["kind"], row["utterance"], row["stamp"], row["status"]) == (
        "eos", "faces", 4, "user", 101,
    )  # fmt: skip
    assert row["due"] <= row["sent"] <= row["first_byte"] <= row["done"]
    assert face.audio_bytes == [32_000]
    assert face.configs == [{"type": "config", "sample_rate": 16_000, "fps": 25, "format": "jpeg"}]
    frames = rows.rows["frames"]
    assert [frame["media_time"] for frame in frames] == [i * PERIOD for i in range(25)]
    assert [frame["seq"] for frame in frames] == list(range(25))
    assert all(frame["audio_handed"] <= frame["arrival"] for frame in frames)
    handed = [frame["audio_handed"] for frame in frames]
    assert handed == sorted(handed)
    if realtime:
        gaps = [b - a for a, b in itertools.pairwise(handed)]
        assert min(gaps[:-2]) > 0
        assert handed[-1] - handed[0] >= 0.9 * NS_PER_S


def test_faces_follow_their_voices() -> None:
    script = Script(headers=PCM_HEADERS, pieces=[(i * 20 * NS_PER_MS, SECOND[:9600]) for i in range(5)])

    async def work() -> KeptRows:
        face = TruthFace()
        async with truth_face(face), truth_server(lambda _: script) as server:
            voice, one = voices(listeners=2, mode="closed"), faces(listeners=1)
            told = settings([tenant(server.url), tenant(face.url, "head")], [voice, one])
            async with desk_for(told) as (desk, rows):
                stage = new_stage(start_ns=time.monotonic_ns(), window=(0, 10**18))
                start_voices(desk, stage, voice, [one])
                while sum(row["end"] == "eos" for row in rows.rows["streams"]) < 8:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                assert stage.is_settled("faces")
                await stage.drain("open")
                return rows

    rows = run(work())
    last = {row["stream"]: row for row in rows.rows["streams"]}
    ended = [row for row in last.values() if row["end"] == "eos"]
    spoken = {(row["listener"], row["utterance"]): row for row in ended if row["kind"] == "voices"}
    seen = {(row["listener"], row["utterance"]): row for row in ended if row["kind"] == "faces"}
    # A second of speech comes in 80 ms: most of it is not shown.
    assert 1 <= len(seen) <= len([key for key in spoken if key[0] == 0]) / 2
    assert {listener for listener, _ in seen} == {0}
    for key in seen.keys() & spoken.keys():
        assert seen[key]["due"] == spoken[key]["due"]
    stream = next(iter(seen.values()))["stream"]
    assert sum(frame["stream"] == stream for frame in rows.rows["frames"]) == 25


def test_a_recording_alone(tmp_path: Path) -> None:
    path = tmp_path / "short-01.flac"
    soundfile.write(path, np.zeros(12_000, np.float32), 24_000)

    async def work() -> tuple[KeptRows, TruthFace, int]:
        face = TruthFace()
        async with truth_face(face):
            one = faces()
            async with desk_for(settings([tenant(face.url, "head")], [one])) as (desk, rows):
                desk.pace = [(0, 100 * NS_PER_MS), (20 * NS_PER_MS, 100 * NS_PER_MS)]
                stage = new_stage("solo:faces")
                due_ns = time.monotonic_ns()
                end_ns = await one_clip(desk, stage, one, 0, lambda: (2, path), due_ns)
                assert not stage.tickets
                return rows, face, end_ns - due_ns

    rows, face, length_ns = run(work())
    assert (rows.stream()["end"], rows.stream()["stage"], rows.stream()["utterance"]) == (
        "eos",
        "solo:faces",
        2,
    )
    assert face.audio_bytes == [16_000]
    assert length_ns == NS_PER_S // 2
    assert len(rows.rows["frames"]) == 13


@pytest.mark.parametrize(
    ("pace", "audio", "expected"),
    [
        ([(0, 80), (100, 320)], 400, [(0, 80), (100, 320)]),
        ([(0, 80), (100, 320)], 1000, [(0, 80), (100, 320), (200, 320), (300, 280)]),
        ([(0, 500)], 1200, [(0, 500), (500, 500), (1000, 200)]),
        ([], 800, [(0, 320), (320, 320), (640, 160)]),
    ],
)
def test_packets_of_a_recording(
    pace: list[tuple[int, int]], audio: int, expected: list[tuple[int, int]]
) -> None:
    ms = NS_PER_MS
    assert packets([(at * ms, media * ms) for at, media in pace], audio * ms) == [
        (at * ms, media * ms) for at, media in expected
    ]


def test_askers_do_not_count_as_followed() -> None:
    stage = new_stage(window=(0, 1))
    stage.plan(0, followed=False)
    assert stage.followed()
    stage.plan(0, followed=True)
    assert not stage.followed()
