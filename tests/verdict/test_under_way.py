"""Utterances that take a whole measure window, where nothing else falls due for their listeners."""

import math
from typing import Any

import pytest

from cotenant.verdict.summary import JudgeOptions, exit_code, judge
from tests.verdict.recordings import MS, Builder, S, good_run, steady

POINT = JudgeOptions(decision="point")
INTERVAL = JudgeOptions(decision="interval")
START, END = 10 * S, 25 * S


def alone(*, stage: str = "alone", window: tuple[int, int] = (START, END)) -> Builder:
    """A run of a baseline alone, with its window and exact stamps."""
    builder = Builder()
    builder.scenario["stages"] = [{"name": "alone", "load": ["voices"], "baseline": True}]
    builder.window(stage, *window)
    for span in builder.rows["marks"]:
        if (span["what"], span["edge"]) == ("stage", "start"):
            span["t"] = 0
    builder.stamps(0, 40 * S)
    return builder


def slow(
    builder: Builder,
    *,
    due_ns: int = 4 * S,
    first_ms: float = 1000.0,
    until_ns: int = END + 20 * MS,
    listener: int = 0,
    rtf: float = 5.0,
    end: str = "open",
    **columns: Any,
) -> int:
    """An utterance under way from settling on: 400 ms of audio each 400 ms times `rtf`."""
    step_ms = 400 * rtf
    count = max(0, math.ceil(((until_ns - due_ns) / MS - first_ms) / step_ms))
    return builder.voice(
        "alone", due_ns, steady(first_ms, count, step_ms), [400.0] * count, listener=listener, utterance=-1,
        end=end, done_ms=(until_ns - due_ns) / MS, **columns,
    )  # fmt: skip


def stage_of(builder: Builder, options: JudgeOptions = POINT) -> dict[str, Any]:
    found: dict[str, Any] = judge(builder.build(), options)["stages"][0]
    return found


def verdicts(stage: dict[str, Any]) -> dict[str, str]:
    return {gate["metric"]: gate["verdict"] for gate in stage["gates"]}


def test_a_window_full_of_stalls_fails_though_nothing_fell_due_in_it() -> None:
    builder = alone()
    for listener in (0, 1):
        slow(builder, listener=listener)
    summary = judge(builder.build(), POINT)
    (stage,) = summary["stages"]
    speech = stage["speech"]
    assert (stage["verdict"], stage["validity"]) == ("fail", "valid")
    assert exit_code(summary) == 1
    # From 5 s on 400 ms are heard, then 1600 ms are not: 7 times and 8 times within 10 to 25 s.
    assert (speech["streams"], speech["under_way"], speech["failed"]) == (2, 2, 0)
    assert speech["clean_share"] == 0.0
    assert speech["underruns"] == 2 * 8
    assert speech["stall_ms"] == {"total": 2 * 12_200.0, "longest": 1600.0}
    assert speech["stall_ratio"] == pytest.approx(12.2 / 15, abs=1e-6)
    assert speech["headroom_ms"]["p50"] == -12_200.0
    assert verdicts(stage) == {
        "speech.ttfa_ms.p95": "inconclusive",
        "speech.time_to_playback_ms.p95": "inconclusive",
        "speech.clean_share": "fail",
        "speech.stall_ratio": "fail",
        "speech.headroom_ms.p5": "fail",
    }
    # The first sound came while the stage settled: the window knows nothing of it.
    assert speech["ttfa_ms"]["p95"] is None
    assert "before it" in stage["why"]["speech.ttfa_ms.p95"]
    assert [caveat["kind"] for caveat in stage["caveats"]] == ["under-way"]
    assert stage["mend"]["lookahead_ms"] is None


def test_it_is_decided_by_intervals_too() -> None:
    builder = alone()
    builder.scenario["load"]["voices"]["listeners"] = 8
    for listener in range(8):
        slow(builder, listener=listener)
    stage = stage_of(builder, INTERVAL)
    assert stage["verdict"] == "fail"
    assert verdicts(stage)["speech.clean_share"] == "fail"
    # All eight stood in one block of time: no interval is formed of what takes several.
    assert verdicts(stage)["speech.headroom_ms.p5"] == "inconclusive"


def test_one_listener_s_silence_through_six_blocks_of_time_decides_by_interval() -> None:
    builder = alone(window=(10 * S, 70 * S))
    builder.stamps(40 * S, 80 * S)
    builder.scenario["load"]["voices"]["listeners"] = 1
    slow(builder, until_ns=70 * S + 20 * MS, rtf=10.0)
    stage = stage_of(builder, INTERVAL)
    (gate,) = [gate for gate in stage["gates"] if gate["metric"] == "speech.stall_ratio"]
    assert (gate["verdict"], gate["n"]) == ("fail", 6)
    assert gate["value"] == pytest.approx(0.9, abs=0.01)
    assert gate["low"] > 0.5


def test_what_sounds_well_passes_nothing_by_lack_of_data() -> None:
    builder = alone()
    for listener in (0, 1):
        slow(builder, listener=listener, rtf=0.5, first_ms=200.0)
    summary = judge(builder.build(), POINT)
    (stage,) = summary["stages"]
    assert stage["speech"]["clean_share"] == 1.0
    assert set(verdicts(stage).values()) == {"inconclusive"}
    assert "measure longer" in stage["gates"][2]["why"]["verdict"]
    # It is no baseline to compare with either.
    assert stage["validity"] == "invalid"
    assert exit_code(summary) == 4


def test_stalls_before_the_window_are_not_its_own() -> None:
    builder = alone()
    arrivals = [200.0, 3200.0, *steady(3300.0, 60, 300.0)]
    builder.voice("alone", 4 * S, arrivals, [400.0] * 62, utterance=-1, end="open", done_ms=21_020.0)
    speech = stage_of(builder)["speech"]
    assert (speech["underruns"], speech["stall_ms"]["total"]) == (0, 0.0)
    assert speech["clean_share"] == 1.0
    # Headroom is negative by the stall of the settling: of the window it is not known.
    assert speech["headroom_ms"]["p5"] is None
    assert speech["required_lookahead_ms"]["p95"] is None


def test_a_listener_who_waited_counts_beside_those_who_had_their_turns() -> None:
    builder = alone()
    for k in range(3):
        due = START + (1 + 4 * k) * S
        builder.voice("alone", due, steady(200, 10), [160.0] * 10, listener=1, utterance=k)
    before = stage_of(builder)
    assert before["verdict"] == "pass"
    slow(builder, listener=0)
    stage = stage_of(builder)
    assert (stage["speech"]["streams"], stage["speech"]["under_way"]) == (4, 1)
    assert stage["speech"]["clean_share"] == 0.75
    assert verdicts(stage)["speech.clean_share"] == "fail"
    # Of the others everything is known: what the waiting one cannot change passes.
    assert verdicts(stage)["speech.ttfa_ms.p95"] == "pass"
    assert stage["speech"]["ttfa_ms"] == before["speech"]["ttfa_ms"]


@pytest.mark.parametrize(
    ("due_ns", "over_ns", "counted"),
    [
        (START - 1, END - 500 * MS, True),  # the pause after it reaches the window's end
        (START - 1, END - 500 * MS - 1, False),
        (START, END + S, False),  # due in the window: judged whole, as ever
    ],
)
def test_the_limits_of_a_window_that_is_taken_whole(due_ns: int, over_ns: int, counted: bool) -> None:
    builder = alone()
    builder.voice("alone", START + S, steady(200, 10), [160.0] * 10, listener=1)
    # All of it comes at once and is heard until `over`.
    heard_ms = (over_ns - due_ns) / MS - 100
    builder.voice("alone", due_ns, [100.0], [heard_ms], utterance=-1 if due_ns < START else 0)
    speech = stage_of(builder)["speech"]
    assert speech.get("under_way", 0) == counted
    assert speech["streams"] == 1 + (counted or due_ns == START)


@pytest.mark.parametrize(("over_ns", "streams"), [(START, 0), (START + 1, 1)])
def test_where_nothing_fell_due_all_that_reached_into_the_window_counts(over_ns: int, streams: int) -> None:
    builder = alone()
    builder.voice("alone", 8 * S, [100.0], [(over_ns - 8 * S) / MS - 100], utterance=-1)
    assert stage_of(builder)["speech"]["streams"] == streams


@pytest.mark.parametrize(("waited_ns", "streams"), [(S - 1, 0), (S, 1)])
def test_a_wait_of_under_a_second_tells_nothing_yet(waited_ns: int, streams: int) -> None:
    end = START + 200 * MS
    builder = alone(window=(START, end))
    builder.voice("alone", end - waited_ns, [], [], utterance=-1, end="open", done_ms=waited_ns / MS)
    assert stage_of(builder)["speech"]["streams"] == streams


@pytest.mark.parametrize(("media_ms", "streams"), [(399.0, 0), (400.0, 1)])
def test_a_run_that_broke_off_before_the_lookahead_was_there_tells_nothing(
    media_ms: float, streams: int
) -> None:
    end = START + 4 * MS
    builder = alone(window=(START, end))
    builder.voice("alone", end - 90 * MS, [20.0], [media_ms], utterance=-1, end="open", done_ms=92.0)
    assert stage_of(builder)["speech"]["streams"] == streams


def test_a_service_without_an_answer_all_through_the_window_fails_every_gate() -> None:
    builder = alone()
    for listener in (0, 1):
        slow(builder, listener=listener, first_ms=1e9)
    stage = stage_of(builder)
    assert set(verdicts(stage).values()) == {"fail"}
    assert (stage["speech"]["failed"], stage["speech"]["clean_share"]) == (0, 0.0)
    assert stage["why"]["speech.ttfa_ms.p95"] == "+inf"


def test_one_that_was_given_up_is_named_by_its_error() -> None:
    builder = alone()
    number = slow(builder, first_ms=1e9, end="error", until_ns=END + S)
    builder.rows["streams"][-1]["error_kind"] = "timeout"
    stage = stage_of(builder)
    assert number == builder.rows["streams"][-1]["stream"]
    assert (stage["verdict"], stage["speech"]["failed"]) == ("fail", 1)
    assert stage["speech"]["errors"] == {"timeout": 1}


def test_beside_one_that_failed_by_an_error_the_stalls_of_the_window_decide() -> None:
    builder = alone()
    slow(builder, listener=0)
    builder.voice("alone", START + S, [], [], listener=1, utterance=0, end="error", done_ms=500)
    builder.rows["streams"][-1]["error_kind"] = "refused"
    stage = stage_of(builder)
    assert (stage["speech"]["failed"], stage["speech"]["under_way"]) == (1, 1)
    assert (stage["mend"]["left_out"], stage["mend"]["lookahead_ms"]) == (1, None)


def test_a_recording_that_broke_off_in_the_window_is_judged_until_then() -> None:
    builder = alone()
    slow(builder)
    row = builder.rows["streams"][-1]
    row["done"] = row["end"] = None
    builder.rows["marks"] = [mark for mark in builder.rows["marks"] if mark["edge"] == "start"]
    builder.status = "interrupted"
    stage = stage_of(builder)
    assert (stage["verdict"], stage["speech"]["failed"]) == ("fail", 0)
    assert stage["speech"]["stall_ratio"] == pytest.approx(0.8, abs=0.03)


def test_no_pair_is_made_of_settling_texts() -> None:
    builder = good_run(faces=False)
    for stage, start in (("alone", 10 * S), ("crowd", 80 * S)):
        builder.rows["streams"] = [
            row for row in builder.rows["streams"] if (row["stage"], row.get("listener")) != (stage, 0)
        ]
        builder.voice(stage, start - S // 2, steady(100, 400, 400.0), [200.0] * 400, utterance=-1, end="open")
    summary = judge(builder.build(), POINT)
    crowd = summary["stages"][1]
    assert crowd["speech"]["under_way"] == 1
    assert crowd["vs_reference"]["ttfa_p95"]["n"] == 12
    assert crowd["speech"]["short"] == 0
