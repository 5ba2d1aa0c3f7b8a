"""Faces that are under way all through a measure window: of slow voices, and in windows of their own."""

import pytest

from cotenant.verdict.summary import judge
from tests.verdict.recordings import MS, Builder, S, good_run, steady
from tests.verdict.test_under_way import END, POINT, alone, slow, stage_of, verdicts


def with_face(builder: Builder, *, fps: float = 25.0, end: str = "open", until_ns: int = END) -> int:
    """A face of the first listener's slow voice, asked for with it; `fps` pictures arrive each second."""
    builder.scenario["load"]["faces"]["listeners"] = 1
    builder.scenario["stages"][0]["load"] = ["voices", "faces"]
    builder.scenario["gate"] = ["voice", "face"]
    count = int((until_ns - 4 * S) / S * fps) - round(fps)
    return builder.face("alone", 4 * S, steady(1000.0, count, 1000.0 / fps), utterance=-1, end=end)


def test_a_face_of_a_slow_voice_freezes_with_it() -> None:
    builder = alone()
    slow(builder)
    with_face(builder)
    stage = stage_of(builder)
    face = stage["face"]
    assert (face["streams"], face["under_way"], face["failed"]) == (1, 1, 0)
    # 400 ms of pictures, then none for 1600 ms: the seven stalls after a picture within 10 to 25 s, and the
    # one that had begun before.
    assert face["freezes"] == 8
    assert face["fps_p5"] == 0
    assert face["harmonic_fps"] < 5
    assert face["first_frame_ms"]["p95"] is None
    assert verdicts(stage)["face.fps_p5"] == "fail"
    assert verdicts(stage)["face.harmonic_fps"] == "fail"
    # The pictures keep to the voice, but so few tell nothing of a service.
    assert verdicts(stage)["face.skew_outside.detect"] == "inconclusive"


def test_a_face_that_showed_nothing_more_in_the_window_is_one_hole() -> None:
    builder = alone()
    slow(builder)
    with_face(builder, until_ns=5800 * MS)  # 20 pictures, the last of them at 7.36 s
    builder.rows["streams"][-1]["done"] = END + 20 * MS
    face = stage_of(builder)["face"]
    assert face["harmonic_fps"] == pytest.approx(1 / 15, abs=0.01)
    assert face["freezes"] == 1
    assert face["fps_p5"] == 0


def test_a_face_that_never_came_has_no_first_picture_by_the_end_of_the_window() -> None:
    builder = alone()
    slow(builder)
    with_face(builder, until_ns=5 * S)
    builder.rows["frames"].clear()
    stage = stage_of(builder)
    assert stage["face"]["first_frame_ms"]["n"] == 0  # by 7 s, playback began without it
    assert stage["verdict"] == "fail"
    assert verdicts(stage)["face.harmonic_fps"] == "fail"


def test_faces_alone_that_took_their_whole_window_are_seen() -> None:
    builder = good_run()
    builder.window("solo:faces", 2 * S, 7 * S)
    builder.face("solo:faces", S, steady(200.0, 30, 250.0), utterance=-1, end="open")
    solo = judge(builder.build(), POINT)["solo"]["faces"]
    assert (solo["streams"], solo["under_way"]) == (1, 1)
    assert solo["fps_p5"] == 4
    # One that only reached into it is no reference.
    builder.rows["streams"][-1]["done"] = 6 * S
    assert judge(builder.build(), POINT)["solo"]["faces"]["streams"] == 0
