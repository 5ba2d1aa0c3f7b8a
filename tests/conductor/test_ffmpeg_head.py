"""ffmpeg's MJPEG over HTTP, attached as a head that is only watched: a whole stage, every picture counted."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotenant.run_dir.reader import read
from tests.conductor import harness
from tests.conductor.ffmpeg_head import FFMPEG, FPS, MISSING, FfmpegHead, ffmpeg_head

pytestmark = pytest.mark.skipif(FFMPEG is None, reason=MISSING)

PERIOD_NS = 10**9 // FPS
PACKETS = 20  # 1.6 s of speech
FRAMES = 40


def scenario(tts: str, head: FfmpegHead) -> dict[str, Any]:
    told = harness.voice_scenario(tts, gate=["speech.failed <= 0"])
    told["tenants"]["head"] = head.tenant()
    told["load"]["voices"] |= {"listeners": 1, "mode": "open", "every": "1800ms"}
    told["load"]["faces"] = {"tenant": "head", "kind": "faces", "follows": "voices"}
    told["stages"] = [{"name": "talking-head", "load": ["voices", "faces"]}]
    told["timing"] |= {"solo": "0s", "measure": "2s", "settle_limit": "20s", "stall_limit": "10s"}
    return told


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[harness.Ended, FfmpegHead]:
    async def work() -> tuple[harness.Ended, FfmpegHead]:
        async with harness.speech_server(lambda *_: harness.speech(PACKETS)) as tts, ffmpeg_head() as head:
            folder: Path = tmp_path_factory.mktemp("ffmpeg")
            return await harness.ran(folder, scenario(tts.url, head)), head

    return asyncio.run(work())


def test_the_stage_is_complete(run: tuple[harness.Ended, FfmpegHead]) -> None:
    ended, head = run
    assert ended.code in (0, 4), ended.err
    assert ended.manifest["status"] == "complete"
    assert [stage["name"] for stage in ended.summary["stages"]] == ["talking-head"]
    clips = [row for row in ended.measured("talking-head") if row["kind"] == "faces"]
    assert clips
    assert {(row["end"], row["error"], row["status"]) for row in clips} == {("eos", None, 200)}
    # One connection after another, each with an ffmpeg of its own; one more looked whether somebody is there.
    assert head.clients == 1 + len([row for row in ended.streams() if row["kind"] == "faces"])


def test_each_clip_has_a_picture_for_every_period_of_its_audio_at_the_rate_of_ffmpeg(
    run: tuple[harness.Ended, FfmpegHead],
) -> None:
    ended, _ = run
    assert ended.run_dir is not None
    frames = read(ended.run_dir).tables["frames"].to_pylist()
    for row in ended.measured("talking-head"):
        if row["kind"] == "faces":
            mine = [frame for frame in frames if frame["stream"] == row["stream"]]
            assert [frame["media_time"] for frame in mine] == [n * PERIOD_NS for n in range(FRAMES)]
            assert row["bytes"] == sum(frame["bytes"] for frame in mine)
            assert all(frame["bytes"] > 1000 for frame in mine)
            # A late picture moves no later one: the median gap is that of the source.
            gaps_ns = np.diff([frame["arrival"] for frame in mine])
            assert 0.8 * PERIOD_NS < np.median(gaps_ns) < 1.2 * PERIOD_NS
    face = ended.summary["stages"][0]["face"]
    assert face["harmonic_fps"] > 0.8 * FPS
    assert face["dropped_share"] < 0.2


def test_what_it_was_tried_against_is_in_the_manifest(run: tuple[harness.Ended, FfmpegHead]) -> None:
    ended, _ = run
    told = ended.manifest["tenants"]["head"]["protocol"]
    assert (told["name"], told["tested"], told["experimental"]) == ("mjpeg", "real server", False)
    assert [one["kind"] for one in ended.summary["caveats"] if one["kind"] == "experimental-protocol"] == []
