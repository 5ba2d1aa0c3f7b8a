"""A whole load process over its control socket: the life of a stage, faults of ours, being left alone."""

import errno
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cotenant.load.settings import read_settings
from cotenant.run_dir import manifest, reader
from cotenant.testing.truth_face import TruthFace, truth_face
from cotenant.testing.truth_server import Script, truth_server
from cotenant.units import NS_PER_MS
from tests.load.conductor import load_process, spec
from tests.load.rig import PCM_HEADERS, run
from tests.load.test_asker import idle_llm

PIECE = bytes(4800)
GOOD = Script(headers=PCM_HEADERS, pieces=[(i * 10 * NS_PER_MS, PIECE) for i in range(4)])

SILENT = Script(headers=PCM_HEADERS, pieces=[(0, PIECE)], ending="silent")

# The load process with a writer whose every write finds the disk full.
FULL_DISK = """
import errno, os, sys
from cotenant.load import process
def refuse(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
process.RunWriter.flush = refuse
sys.exit(process.main())
"""

# The load process with a fault that shows when a stream is stopped.
FAULTY = """
import sys
from cotenant.load import process, desk
def broken(*_):
    raise ZeroDivisionError("made to break")
desk.StreamRows.stopped = broken
sys.exit(process.main())
"""


def test_the_life_of_a_stage(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()

    async def work() -> tuple[list[Mapping[str, Any]], tuple[int, int], int]:
        face = TruthFace()
        async with (
            truth_face(face),
            truth_server(lambda _: GOOD) as tts,
            idle_llm() as llm,
            load_process(tmp_path) as (conductor, child),
        ):
            conductor.tell(**spec(run_dir, tts.url, face.url, llm))
            for load, streams in (("voices", 2), ("faces", 1), ("decode", 2)):
                conductor.tell(do="warm", load=load)
                warmed = await conductor.wait("warmed")
                assert (warmed["load"], warmed["ok"], warmed["failed"]) == (load, streams, 0)
            loads = ["voices", "faces", "decode"]
            at_ns = time.monotonic_ns() + 50 * NS_PER_MS
            conductor.tell(do="start", stage="all", round=1, loads=loads, at_ns=at_ns)
            settled = {(await conductor.wait("settled"))["load"] for _ in loads}
            assert settled == set(loads)
            window = (time.monotonic_ns() + 50 * NS_PER_MS, time.monotonic_ns() + 1200 * NS_PER_MS)
            conductor.tell(do="measure", start_ns=window[0], end_ns=window[1])
            await conductor.wait("followed")
            followed_ns = time.monotonic_ns()
            conductor.tell(do="drain")
            await conductor.wait("drained")
            conductor.tell(do="stop")
            assert await child.wait() == 0
            return conductor.progress, window, followed_ns

    progress, window, followed_ns = run(work(), uv=False)
    assert followed_ns >= window[1]
    manifest.write(run_dir, {"schema": 1, "tool": "cotenant", "run_id": "run-1"})
    recording = reader.read(run_dir)
    streams = recording.tables["streams"].to_pylist()
    assert {row["stage"] for row in streams} == {"warm", "all"}
    measured = [
        row for row in streams if row["kind"] != "completions" and window[0] <= row["due"] < window[1]
    ]
    assert measured
    assert {row["end"] for row in measured} == {"eos"}
    assert all(row["done"] <= followed_ns for row in measured)
    voices = [row for row in measured if row["kind"] == "voices"]
    for listener in (0, 1):
        numbers = [row["utterance"] for row in voices if row["listener"] == listener]
        assert sorted(numbers) == list(range(len(numbers)))
    assert {row["stream"] // 1_000_000 for row in streams} == {2}
    assert reader.read_audio(run_dir, recording, voices[0]["stream"]) == PIECE * 4
    assert all(len(recording.tables[name]) for name in ("chunks", "frames", "tokens"))
    host = recording.tables["host"].to_pylist()
    assert {row["metric"] for row in host} == {"cpu_s", "loop_lag_ns", "offset_bracket_ns", "realtime"}
    assert {row["source"] for row in host} == {"listeners"}
    assert progress[-1].keys() == {"event", "open", "streams", "failed", "underruns", "tokens"}
    # The last progress is told when all is followed, with those that ended last: LLM requests may go on.
    assert progress[-1]["streams"] >= len(measured)


def test_a_service_that_is_not_there_is_told_by_the_warm_up(tmp_path: Path) -> None:
    async def work() -> dict[str, Any]:
        async with load_process(tmp_path) as (conductor, child):
            dead = "http://127.0.0.1:1"
            conductor.tell(**spec(tmp_path, dead, dead, dead))
            conductor.tell(do="warm", load="voices")
            warmed = await conductor.wait("warmed")
            conductor.tell(do="stop")
            assert await child.wait() == 0
            return warmed

    warmed = run(work(), uv=False)
    assert (warmed["ok"], warmed["failed"], warmed["error_kind"]) == (0, 2, "refused")
    assert "127.0.0.1:1" in warmed["error"]


@pytest.mark.parametrize(
    ("last", "end"), [("stop", "aborted"), ("drain", "open"), ("hang up", "aborted"), ("start", "open")]
)
def test_what_is_open_at_the_end_is_on_disk_as_what_it_is(tmp_path: Path, last: str, end: str) -> None:
    """At a drain it is `open`; where we stop it ourselves, or the conductor is gone, `aborted`."""

    async def work() -> None:
        async with truth_server(lambda _: SILENT) as tts, load_process(tmp_path) as (conductor, child):
            conductor.tell(**spec(tmp_path, tts.url, tts.url, tts.url))
            conductor.tell(do="start", stage="one", round=1, loads=["voices"], at_ns=time.monotonic_ns())
            await conductor.wait("settled")
            if last == "start":
                conductor.tell(do="start", stage="two", round=1, loads=[], at_ns=time.monotonic_ns())
            if last == "drain":
                conductor.tell(do="drain")
                await conductor.wait("drained")
            if last == "hang up":
                conductor.hang_up()
            else:
                conductor.tell(do="stop")
            assert await child.wait() == 0

    run(work(), uv=False)
    manifest.write(tmp_path, {"schema": 1, "tool": "cotenant", "run_id": "run-1"})
    tables = reader.read(tmp_path).tables
    assert {row["end"] for row in tables["streams"].to_pylist()} == {end}
    assert len(tables["chunks"]) >= 2


@pytest.mark.parametrize("last", ["stop", "hang up"])
def test_a_fault_of_ours_while_all_is_stopped_is_not_lost(tmp_path: Path, last: str) -> None:
    async def work() -> int | None:
        async with (
            truth_server(lambda _: SILENT) as tts,
            load_process(tmp_path, FAULTY) as (conductor, child),
        ):
            conductor.tell(**spec(tmp_path, tts.url, tts.url, tts.url))
            conductor.tell(do="start", stage="one", round=1, loads=["voices"], at_ns=time.monotonic_ns())
            await conductor.wait("settled")
            if last == "stop":
                conductor.tell(do="stop")
                assert "ZeroDivisionError" in (await conductor.wait("crashed"))["error"]
            else:
                conductor.hang_up()
            return await child.wait()

    assert run(work(), uv=False) == 70


def test_a_window_that_is_told_too_late_ends_it(tmp_path: Path) -> None:
    async def work() -> tuple[dict[str, Any], int | None]:
        async with truth_server(lambda _: GOOD) as tts, load_process(tmp_path) as (conductor, child):
            conductor.tell(**spec(tmp_path, tts.url, tts.url, tts.url))
            at_ns = time.monotonic_ns()
            conductor.tell(do="start", stage="one", round=1, loads=["voices"], at_ns=at_ns)
            await conductor.wait("settled")
            conductor.tell(do="measure", start_ns=at_ns, end_ns=at_ns + 10**9)
            return await conductor.wait("crashed"), await child.wait()

    crashed, code = run(work(), uv=False)
    assert (code, "too late" in crashed["error"]) == (70, True)


@pytest.mark.parametrize("command", [{"do": "dance"}, {"do": "measure", "start_ns": 0, "end_ns": 1}])
def test_a_fault_of_ours_is_told_and_ends_it(tmp_path: Path, command: dict[str, Any]) -> None:
    async def work() -> tuple[dict[str, Any], int | None]:
        async with load_process(tmp_path) as (conductor, child):
            conductor.tell(**spec(tmp_path, "http://x", "http://x", "http://x"))
            conductor.tell(**command)
            crashed = await conductor.wait("crashed")
            return crashed, await child.wait()

    crashed, code = run(work(), uv=False)
    assert code == 70
    assert "ValueError" in crashed["error"]


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    async def work() -> tuple[dict[str, Any], int | None]:
        async with (
            truth_server(lambda _: GOOD) as tts,
            load_process(tmp_path, FULL_DISK) as (conductor, child),
        ):
            conductor.tell(**spec(tmp_path, tts.url, tts.url, tts.url))
            conductor.tell(do="warm", load="voices")
            await conductor.wait("warmed")
            return await conductor.wait("crashed"), await child.wait()

    crashed, code = run(work(), uv=False)
    assert (code, crashed["errno"]) == (70, errno.ENOSPC)
    assert crashed["error"].startswith("disk full")


def test_settings_read_both_texts_and_numbers() -> None:
    told = spec(Path("/r"), "http://a", "http://b", "http://c/v1")
    told["loads"]["decode"] |= {"mode": "rate", "rate": "0.5/s", "prompt": "4k", "streams": "auto"}
    told["loads"]["voices"]["every"] = 250
    read = read_settings(told)
    decode, voices = read.loads["decode"], read.loads["voices"]
    assert (getattr(decode, "rate_per_s", 0), getattr(decode, "prompt", 0)) == (0.5, 4000)
    assert getattr(voices, "every_ns", 0) == 250
    assert read.tenants["llm"].url(3, "/v1/completions") == "http://c/v1/completions"
    assert read.tenants["tts"].url(3, "/v1/audio/speech") == "http://a/v1/audio/speech"


def test_replicas_take_turns() -> None:
    told = spec(Path("/r"), "http://a", "http://b", "http://c")
    told["tenants"]["tts"]["urls"] = ["http://a", "http://a2"]
    read = read_settings(told)
    assert [read.tenants["tts"].url(v, "/x") for v in range(3)] == ["http://a/x", "http://a2/x", "http://a/x"]
