"""The ladder with the real built-in servers, shortened: every stage, its audio, judging it again."""

import asyncio

import numpy as np
import pytest
import soundfile

from cotenant.resources import data_dir
from cotenant.run_dir.reader import read, read_audio
from tests.conductor.harness import Ended, gate, ran

STAGES = ["tts-alone", "talking-head", "llm-decode", "llm-long-prefill", "all-together"]
# Strict arrivals, at most 2.6 s apart, so that something is due in every window however busy the machine is.
SHORT = (
    "timing.settle=500ms",
    "timing.measure=3s",
    "timing.solo=1s",
    "load.voices.mode=open",
    "load.voices.every=2s",
    "load.prefill.prompt=500",
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("ladder")
    flags = [part for override in SHORT for part in ("--set", override)]
    return asyncio.run(ran(folder, "all-together", "--lookahead", "400ms", "--json", *flags, deadline_s=400))


def test_every_stage_is_measured_and_the_exit_code_is_the_verdict(ladder: Ended) -> None:
    assert ladder.code in (0, 1, 4), ladder.err
    assert ladder.manifest["status"] == "complete"
    summary = ladder.summary
    assert [stage["name"] for stage in summary["stages"]] == STAGES
    valid = [stage for stage in summary["stages"] if stage["validity"] == "valid"]
    if summary["stages"][0] not in valid:
        assert ladder.code == 4
    elif any(stage["verdict"] == "fail" for stage in valid):
        assert ladder.code == 1
    else:
        assert ladder.code == (0 if len(valid) == len(STAGES) else 4)
    for stage in summary["stages"]:
        assert stage["speech"]["streams"] >= 2
        assert stage["speech"]["failed"] == 0
    assert set(summary["solo"]) == {"faces", "decode", "prefill"}
    assert summary["stages"][-1]["face"]["fps_min"] is not None
    assert summary["stages"][-1]["llm"]["decode"]["tokens_per_s"] > 0
    assert summary["a_a"]["stage"]["name"] == "tts-alone/again"


def test_it_says_once_that_a_cpu_tells_nothing_about_a_gpu(ladder: Ended) -> None:
    assert ladder.err.count("tells nothing about your GPU") == (ladder.manifest["device"]["kind"] == "cpu")


def test_what_arrived_is_the_recording_of_the_text(ladder: Ended) -> None:
    assert ladder.run_dir is not None
    recording = read(ladder.run_dir)
    lines = (data_dir("fixtures") / "texts" / "short.txt").read_text(encoding="utf-8").splitlines()
    whole = [
        row
        for row in recording.tables["streams"].to_pylist()
        if (row["load"], row["stage"], row["end"]) == ("voices", "tts-alone", "eos") and row["utterance"] >= 0
    ]
    assert whole
    for row in whole:
        number = (row["listener"] * 7 + row["utterance"]) % (len(lines) - 6)
        spoken, rate_hz = soundfile.read(
            data_dir("fixtures") / "speech" / f"short-{number + 1:02d}.flac", dtype="int16"
        )
        heard = np.frombuffer(read_audio(ladder.run_dir, recording, row["stream"]) or b"", dtype="<i2")
        assert rate_hz == row["rate_hz"] == 24_000
        np.testing.assert_array_equal(heard, spoken)


def test_another_lookahead_from_the_same_recording(ladder: Ended) -> None:
    assert ladder.run_dir is not None
    before = {path: path.stat().st_mtime_ns for path in ladder.run_dir.rglob("*")}
    judged = asyncio.run(gate(ladder.run_dir.parent, ladder.run_dir, "--lookahead", "1500ms", "--json"))
    again = asyncio.run(gate(ladder.run_dir.parent, ladder.run_dir, "--lookahead", "1500ms", "--json"))
    assert judged.out == again.out
    assert {path: path.stat().st_mtime_ns for path in ladder.run_dir.rglob("*")} == before
    for first, second in zip(ladder.summary["stages"], judged.parsed["stages"], strict=True):
        assert second["speech"]["clean_share"] >= first["speech"]["clean_share"]
        assert second["speech"]["time_to_playback_ms"]["p95"] > first["speech"]["time_to_playback_ms"]["p95"]
        assert second["speech"]["ttfa_ms"] == first["speech"]["ttfa_ms"]
