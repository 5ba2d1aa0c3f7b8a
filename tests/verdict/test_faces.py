"""The face part of a stage."""

from typing import Any

import pytest

from cotenant.verdict.summary import JudgeOptions, judge
from tests.verdict.recordings import Builder, S, good_run, steady


def _run() -> Builder:
    builder = Builder()
    builder.scenario["stages"] = [{"name": "crowd", "load": ["voices", "faces"]}]
    builder.scenario["gate"] = ["face"]
    builder.window("crowd", 10 * S, 70 * S)
    builder.stamps(0, 120 * S)
    return builder


def _stage(builder: Builder) -> dict[str, Any]:
    stage: dict[str, Any] = judge(builder.build(), JudgeOptions(decision="point"))["stages"][0]
    return stage


def _voice(builder: Builder, due_ns: int, **columns: Any) -> None:
    builder.voice("crowd", due_ns, steady(200, 20), [160] * 20, **columns)


def test_a_good_face_passes() -> None:
    builder = _run()
    _voice(builder, 20 * S)
    builder.face("crowd", 20 * S, steady(300, 80, 40))
    stage = _stage(builder)
    face = stage["face"]
    assert face["streams"] == 1
    assert face["fps_min"] == 25
    assert face["fps_p5"] == 25.0
    assert face["freezes"] == 0
    # The pair starts at the first frame and the buffer of 200 ms.
    assert face["first_frame_ms"]["p95"] == 500.0
    assert face["skew_outside"] == {"detect": 0.0, "accept": 0.0}
    assert face["dropped_share"] == 0.0
    assert stage["verdict"] == "pass"


def test_a_face_without_a_frame_fails() -> None:
    builder = _run()
    _voice(builder, 20 * S)
    builder.face("crowd", 20 * S, [], end="error")
    stage = _stage(builder)
    assert stage["face"]["failed"] == 1
    assert stage["face"]["fps_p5"] == 0.0
    assert stage["why"]["face.first_frame_ms.p95"] == "+inf"
    assert stage["face"]["freezes_per_minute"] is None
    verdicts = {gate["metric"]: gate["verdict"] for gate in stage["gates"]}
    assert verdicts["face.fps_p5"] == "fail"
    assert verdicts["face.harmonic_fps"] == "fail"
    assert verdicts["face.freezes_per_minute"] == "inconclusive"


def test_a_face_beside_good_ones_still_counts() -> None:
    builder = _run()
    for utterance in range(4):
        _voice(builder, (20 + 5 * utterance) * S, utterance=utterance)
        frames = steady(300, 80, 40) if utterance else []
        builder.face(
            "crowd", (20 + 5 * utterance) * S, frames, utterance=utterance, end="eos" if frames else "error"
        )
    face = _stage(builder)["face"]
    assert face["fps_min"] == 0
    assert face["harmonic_fps"] < 5


def test_a_face_whose_voice_never_played_has_no_first_frame() -> None:
    builder = _run()
    builder.voice("crowd", 20 * S, [], [], end="error")
    builder.face("crowd", 20 * S, [], end="aborted")
    stage = _stage(builder)
    assert stage["why"]["face.first_frame_ms.p95"] == "+inf"
    assert stage["face"]["fps_min"] is None
    assert stage["verdict"] == "fail"


def test_a_slow_face_drops_below_its_rate() -> None:
    builder = _run()
    _voice(builder, 20 * S)
    builder.face("crowd", 20 * S, steady(300, 80, 50))
    face = _stage(builder)["face"]
    assert face["fps_min"] in (19, 20)
    assert face["skew_ms"]["p95"] > 45
    assert face["skew_outside"]["detect"] > 0.05


def test_latency_counts_from_when_the_head_had_the_audio() -> None:
    builder = _run()
    builder.window("solo:faces", 90 * S, 100 * S)
    _voice(builder, 20 * S)
    builder.face("crowd", 20 * S, [*[700.0] * 5, *[900.0] * 5], handed_ms=200)
    builder.face("solo:faces", 92 * S, [450.0] * 10, handed_ms=200)
    summary = judge(builder.build(), JudgeOptions(decision="point"))
    assert summary["stages"][0]["face"]["frame_latency_ms"]["p50"] == 500.0
    assert summary["solo"]["faces"]["frame_latency_ms"]["p95"] == 250.0
    assert summary["stages"][0]["vs_reference"]["frame_latency_p95"]["ratio"] == 2.8


@pytest.mark.parametrize("media_time", [10**18, -(10**18), 2**63 - 2, 86_400 * S])
@pytest.mark.parametrize("stage", ["crowd", "solo:faces"])
def test_a_picture_from_nowhere_is_judged_and_makes_nothing_better(media_time: int, stage: str) -> None:
    def run(stray: bool) -> dict[str, Any]:
        builder = good_run(utterances=2, seconds=20)
        builder.window("solo:faces", 140 * S, 150 * S)
        builder.face("solo:faces", 141 * S, steady(250, 80, 40))
        mine = {row["stream"] for row in builder.rows["streams"] if row["stage"] == stage}
        last = [row for row in builder.rows["frames"] if row["stream"] in mine][-1]
        if stray:
            last["media_time"] = media_time
        summary = judge(builder.build(), JudgeOptions(decision="point", gates=("face",)))
        if stage == "crowd":
            return next(dict(entry["face"]) for entry in summary["stages"] if entry["name"] == stage)
        return dict(summary["solo"]["faces"])

    sane, stray = run(False), run(True)
    assert stray["fps_p5"] <= sane["fps_p5"]
    assert stray["freezes"] >= sane["freezes"]
    assert stray["skew_outside"]["accept"] >= sane["skew_outside"]["accept"]
    assert stray["dropped_share"] >= sane["dropped_share"]
    assert stray != sane
