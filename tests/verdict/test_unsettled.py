"""A load without output by the settle limit: INVALID, unless it is the voice or the face that gave none."""

from typing import Any

import pytest

from cotenant.verdict.summary import JudgeOptions, exit_code, judge
from tests.verdict.recordings import MS, Builder, S, good_run, steady

POINT = JudgeOptions(decision="point")
STAGE_START, START, END = 79 * S, 80 * S, 140 * S


def run(*, faces: bool = False) -> Builder:
    """A good run, whose second stage did not settle; its voices (or its faces) are to be said anew."""
    builder = good_run(faces=faces)
    load = "faces" if faces else "voices"
    gone = {
        row["stream"] for row in builder.rows["streams"] if (row["stage"], row["load"]) == ("crowd", load)
    }
    for table in ("streams", "chunks", "frames"):
        builder.rows[table] = [row for row in builder.rows[table] if row["stream"] not in gone]
    builder.scenario["stages"][1]["load"] = ["voices", "faces", "decode"] if faces else ["voices", "decode"]
    builder.fault("settle:crowd", START - 1)
    return builder


def hung(builder: Builder, listener: int) -> None:
    for k in range(5):
        builder.voice(
            "crowd", START + 11 * k * S, [], [], listener=listener, utterance=k, end="error", done_ms=10_000.0
        )
        builder.rows["streams"][-1]["error_kind"] = "timeout"


def good(builder: Builder, listener: int, *, settled: bool) -> None:
    if settled:
        builder.voice("crowd", STAGE_START, steady(200, 5), [160.0] * 5, listener=listener, utterance=-1)
    for k in range(12):
        due = START + 5 * k * S
        builder.voice("crowd", due, steady(200, 20), [160.0] * 20, listener=listener, utterance=k)


def crowd_of(builder: Builder) -> tuple[dict[str, Any], int]:
    summary = judge(builder.build(), POINT)
    crowd: dict[str, Any] = summary["stages"][1]
    return crowd, int(exit_code(summary))


def test_a_voice_that_gives_nothing_beside_a_neighbour_fails_and_is_valid() -> None:
    builder = run()
    hung(builder, 0)
    hung(builder, 1)
    crowd, code = crowd_of(builder)
    assert (crowd["verdict"], crowd["validity"], code) == ("fail", "valid", 1)
    assert crowd["speech"]["errors"] == {"timeout": 10}
    (told,) = [caveat for caveat in crowd["caveats"] if caveat["kind"] == "silent"]
    assert told["listeners"] == 2
    assert told["text"].startswith("2 listeners had no output of voices within the settle limit of 1m")


def test_one_silent_listener_of_two_is_an_answer_too() -> None:
    builder = run()
    hung(builder, 0)
    good(builder, 1, settled=True)
    crowd, code = crowd_of(builder)
    assert (crowd["verdict"], crowd["validity"], code) == ("fail", "valid", 1)
    assert crowd["speech"]["clean_share"] == pytest.approx(12 / 17, abs=1e-6)


def test_a_voice_that_only_came_late_leaves_the_stage_invalid() -> None:
    builder = run()
    good(builder, 0, settled=False)
    good(builder, 1, settled=True)
    crowd, code = crowd_of(builder)
    assert (crowd["validity"], code) == ("invalid", 4)
    assert "settle limit" in crowd["invalid_because"][0]


def test_an_llm_without_output_leaves_the_stage_invalid_whatever_the_voices_did() -> None:
    builder = run()
    hung(builder, 0)
    hung(builder, 1)
    builder.rows["tokens"] = [row for row in builder.rows["tokens"] if row["arrival"] > START + S]
    assert crowd_of(builder)[0]["validity"] == "invalid"


def test_a_listener_of_whom_nothing_was_measured_tells_nothing() -> None:
    builder = run()
    good(builder, 1, settled=True)
    assert crowd_of(builder)[0]["validity"] == "invalid"


def test_a_face_that_never_comes_beside_a_good_voice_fails() -> None:
    builder = run(faces=True)
    builder.scenario["gate"] = ["voice", "face"]
    for listener in (0, 1):
        builder.voice(
            "crowd", STAGE_START, steady(200, 5), [160.0] * 5, listener=listener, utterance=-1,
        )  # fmt: skip
    for k in range(12):
        builder.face("crowd", START + 5 * k * S, [], utterance=k, end="error")
    crowd, code = crowd_of(builder)
    assert (crowd["verdict"], crowd["validity"], code) == ("fail", "valid", 1)
    assert crowd["face"]["errors"] == {"empty": 12}
    assert "no output of faces" in next(c["text"] for c in crowd["caveats"] if c["kind"] == "silent")


def test_the_faces_of_silent_voices_are_not_asked_for() -> None:
    builder = run()
    builder.scenario["stages"][1]["load"] = ["voices", "faces", "decode"]
    hung(builder, 0)
    hung(builder, 1)
    crowd, _ = crowd_of(builder)
    assert crowd["validity"] == "valid"
    assert next(c["listeners"] for c in crowd["caveats"] if c["kind"] == "silent") == 2


def test_what_came_just_in_time_counts_as_output() -> None:
    builder = run()
    hung(builder, 0)
    good(builder, 1, settled=True)
    # At the instant of the limit itself: then nothing was missing, and why it did not settle is not known.
    builder.voice("crowd", START - 201 * MS, [201 - 1e-6], [160.0], listener=0, utterance=-1)
    assert crowd_of(builder)[0]["validity"] == "invalid"
