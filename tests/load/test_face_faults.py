"""What a head, its voice and we ourselves do wrong: end and kind of the face, or a fault of ours."""

import asyncio
import time
from pathlib import Path

import pytest

from cotenant.load.face import show
from cotenant.load.face_audio import FaceFeed
from cotenant.load.solo_face import one_clip, start_faces
from cotenant.testing.truth_face import Fault, TruthFace, truth_face
from cotenant.units import NS_PER_MS, NS_PER_S
from tests.load.face_clip import shown
from tests.load.rig import KeptRows, desk_for, faces, new_stage, run, settings, tenant


@pytest.mark.parametrize(
    ("fault", "good_frames", "end", "kind"),
    [
        ("refuse", 0, "error", "unauthorized"),
        ("close", 5, "truncated", "truncated"),
        ("close", 0, "truncated", "truncated"),
        ("silent", 5, "truncated", "timeout"),
        ("silent", 0, "error", "timeout"),
        ("error", 5, "error", "in_stream"),
        ("garbage", 5, "error", "protocol"),
        ("no_frames", 0, "error", "empty"),
    ],
)
def test_faults(fault: Fault, good_frames: int, end: str, kind: str) -> None:
    face = TruthFace(fault=fault, good_frames=good_frames)
    rows = run(shown(face, stall_ns=200 * NS_PER_MS))
    row = rows.stream()
    assert (row["end"], row["error_kind"], row["utterance"]) == (end, kind, 4)
    assert len(rows.rows["frames"]) == good_frames


def test_a_head_that_is_not_there() -> None:
    async def work() -> KeptRows:
        one = faces()
        told = settings([tenant("http://127.0.0.1:1", "head")], [one])
        async with desk_for(told) as (desk, rows):
            stage = new_stage()
            ticket = stage.plan(0, followed=True)
            await show(desk, stage, FaceFeed(one, lambda: 0), 0, 0, ticket)
            return rows

    assert run(work()).stream()["error_kind"] == "refused"


def test_a_voice_without_audio_is_not_the_faces_failure() -> None:
    row = run(shown(TruthFace(), audio=False)).stream()
    assert (row["end"], row["utterance"]) == ("aborted", 4)


@pytest.mark.parametrize("good_frames", [0, 5])
def test_a_head_that_stops_reading_is_given_up(good_frames: int) -> None:
    """More audio than any buffer on the way holds, so that its end is never sent."""

    async def work() -> tuple[KeptRows, int, int]:
        face = TruthFace(fault="deaf", good_frames=good_frames)
        async with truth_face(face):
            one = faces()
            told = settings([tenant(face.url, "head")], [one], stall_limit_ns=300 * NS_PER_MS)
            async with desk_for(told) as (desk, rows):
                stage, feed = new_stage(), FaceFeed(one, lambda: 4)
                feed.feed(bytes(48_000), 24_000, "s16")
                for _ in range(32):
                    feed.queue.put_nowait(bytes(1 << 20))
                due_ns = time.monotonic_ns()
                clip = stage.spawn(show(desk, stage, feed, 0, due_ns, stage.plan(due_ns, followed=True)))
                await asyncio.sleep(0)
                # As long as the voice speaks the head may be silent.
                assert not (await asyncio.wait((clip,), timeout=0.7))[0]
                over_ns = time.monotonic_ns()
                feed.end()
                await clip
                return rows, over_ns, time.monotonic_ns()

    rows, over_ns, end_ns = run(work())
    row = rows.stream()
    assert (row["end"], row["error_kind"]) == ("truncated" if good_frames else "error", "timeout")
    assert row["done"] - over_ns >= 300 * NS_PER_MS
    assert row["done"] <= end_ns
    assert len(rows.rows["frames"]) == good_frames


def test_a_fault_of_ours_while_audio_is_handed_over_is_no_fault_of_the_head() -> None:
    async def work() -> None:
        face = TruthFace()
        async with truth_face(face):
            one = faces()
            told = settings([tenant(face.url, "head")], [one])
            async with desk_for(told) as (desk, _):
                stage, feed = new_stage(), FaceFeed(one, lambda: 4)
                feed.queue.put_nowait("no bytes")  # type: ignore[arg-type]
                feed.end()
                await show(desk, stage, feed, 0, 0, stage.plan(0, followed=True))

    with pytest.raises(TypeError):
        run(work())


def test_a_recording_that_cannot_be_read_is_a_fault_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "short-01.flac"
    path.write_bytes(b"no sound")

    async def work() -> None:
        face = TruthFace()
        async with truth_face(face):
            one = faces()
            async with desk_for(settings([tenant(face.url, "head")], [one])) as (desk, _):
                await one_clip(desk, new_stage("solo:faces"), one, 0, lambda: (0, path), time.monotonic_ns())

    with pytest.raises(RuntimeError, match="short-01"):
        run(work())


def test_numbers_of_solo_faces_begin_with_the_window() -> None:
    """Told while the next clip already waits: it belongs to the window if it is due in it."""

    async def work() -> tuple[KeptRows, int]:
        face = TruthFace()
        async with truth_face(face):
            one = faces(listeners=2)
            async with desk_for(settings([tenant(face.url, "head")], [one])) as (desk, rows):
                stage = new_stage("solo:faces", start_ns=time.monotonic_ns())
                stage.failure = asyncio.get_running_loop().create_future()
                start_faces(desk, stage, one, None)
                while not stage.is_settled("faces"):  # noqa: ASYNC110 - it is asked, it does not tell
                    await asyncio.sleep(0.01)
                start_ns = time.monotonic_ns() + 5 * NS_PER_MS
                stage.open_window(start_ns, start_ns + 60 * NS_PER_S)
                ended = 0
                while ended < 2:
                    await asyncio.sleep(0.01)
                    known = rows.rows["streams"]
                    ended = sum(row["due"] >= start_ns and row["end"] == "eos" for row in known)
                await stage.drain("open")
                stage.failure.cancel()
                return rows, start_ns

    rows, start_ns = run(work())
    for listener in (0, 1):
        mine = {row["due"]: row["utterance"] for row in rows.rows["streams"] if row["listener"] == listener}
        assert [mine[due] for due in sorted(mine) if due >= start_ns] == list(
            range(sum(due >= start_ns for due in mine))
        )
        assert {number for due, number in mine.items() if due < start_ns} <= {-1}
