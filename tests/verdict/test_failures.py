"""What failed by an error is told as that: by service, since when; a crash is no slowness."""

import copy
from typing import Any

import pytest

from cotenant.report import console, markdown
from cotenant.report.why import first_cause, why_lines
from cotenant.verdict.summary import JudgeOptions, judge
from tests.verdict.recordings import SCENARIO, Builder, S, good_run, steady

ALONE = "the voice does not live here even alone"
POINT = JudgeOptions(decision="point")


def voices_alone(kinds: list[str | None], *, late: int = 0) -> Builder:
    """A baseline of voices, one utterance each 5 s from 10 s on: whole ones (None), of them the first `late`
    with a stall of 1 s, and failed ones, which are known after a second."""
    scenario = copy.deepcopy(dict(SCENARIO))
    scenario["stages"] = scenario["stages"][:1]
    builder = Builder(scenario=scenario)
    builder.window("alone", 10 * S, (10 + 5 * len(kinds)) * S)
    builder.stamps(0, (20 + 5 * len(kinds)) * S)
    for number, kind in enumerate(kinds):
        due = (10 + 5 * number) * S
        if kind is None:
            arrivals = [at + (1400.0 if number < late and at > 1000 else 0.0) for at in steady(200.0, 20)]
            builder.voice("alone", due, arrivals, [160.0] * 20, utterance=number)
        else:
            cut = kind == "truncated"
            arrivals = steady(200.0, 3) if cut else []
            end = "truncated" if cut else "error"
            builder.voice(
                "alone", due, arrivals, [160.0] * len(arrivals), utterance=number, end=end, done_ms=1000
            )
            builder.rows["streams"][-1]["error_kind"] = kind
    return builder


def told(builder: Builder) -> tuple[dict[str, Any], str]:
    recording = builder.build()
    summary = judge(recording, POINT)
    return summary, " ".join(console.render(summary, recording.manifest, 200).split())


def test_a_service_that_crashed_in_the_baseline_is_no_slow_one() -> None:
    summary, text = told(voices_alone([None, None, "truncated", "refused", "refused", "refused", "refused"]))
    (stage,) = summary["stages"]
    (failure,) = stage["failures"]
    assert (failure["tenant"], failure["of"]) == ("tts", "voices")
    assert (failure["failed"], failure["streams"]) == (5, 7)
    assert failure["kinds"] == {"refused": 4, "truncated": 1}
    assert failure["since_s"] == 12.0  # the stage began at 9 s, the cut was known at 21 s
    assert failure["stopped"] is True
    assert summary["verdict_because"] == "tts stopped answering at 0:12, in the baseline"
    assert why_lines(summary) == [
        "alone: tts: 5 of 7 utterances failed: refused 4 (nothing listens there), truncated 1 (the "
        "connection ended too early) from 0:12 on: the service stopped answering"
    ]
    assert ALONE not in text
    assert "lookahead up to" not in text
    assert stage["mend"] is None
    assert "FAIL tts stopped answering at 0:12, in the baseline: alone: 29 % of utterances clean" in text
    shown = markdown.render(summary)
    assert shown.index("stopped answering") < shown.index("**FAIL**")


def test_what_timed_out_was_slow_or_hung_and_did_not_stop_answering() -> None:
    summary, text = told(voices_alone([None, "timeout", "timeout", "timeout"]))
    assert summary["verdict_because"] == "tts was too slow or hung at 0:07, in the baseline"
    (failure,) = summary["stages"][0]["failures"]
    assert "timeout 3 (it was too slow or hung) from 0:07 on: none succeeded after that" in failure["text"]
    assert "stopped answering" not in text


@pytest.mark.parametrize(
    ("kind", "said"), [("unauthorized", "it wants a key"), ("server_error", "it failed inside")]
)
def test_an_answer_that_is_an_error_is_an_answer(kind: str, said: str) -> None:
    summary, text = told(voices_alone([None, kind, None, kind]))
    assert summary["verdict_because"] == "tts failed in the baseline"
    assert f"2 of 4 utterances failed: {kind} 2 ({said}), the first at 0:07" in text
    assert "stopped answering" not in text


def test_a_few_failures_beside_many_stalls_do_not_decide() -> None:
    summary, text = told(voices_alone([None] * 9 + ["server_error"], late=5))
    assert summary["verdict_because"] == ALONE
    (stage,) = summary["stages"]
    lines = why_lines(summary)
    assert "1 of 10 utterances failed: server_error 1 (it failed inside), at 0:47" in lines[-1]
    mend = stage["mend"]
    assert mend["left_out"] == 1
    assert mend["cures"] is False
    assert mend["lookahead_ms"] is not None
    assert "for the 9 utterances that came" in text or "among the 9 utterances that came" in text


def test_no_lookahead_is_told_where_all_that_came_was_good() -> None:
    summary, text = told(voices_alone([None] * 5 + ["empty", "empty"]))
    assert summary["verdict"] == "fail"
    assert summary["stages"][0]["mend"] is None
    assert "with a lookahead" not in text


def test_a_voice_that_begins_late_and_fails_once_is_late() -> None:
    builder = voices_alone([None] * 20 + ["server_error"])
    for row in builder.rows["chunks"]:
        row["arrival"] += S  # TTFA 1.2 s, over 500 ms
    summary, _ = told(builder)
    assert summary["verdict"] == "fail"
    assert "failed" not in summary["verdict_because"]


def test_beside_neighbours_the_stage_is_named_and_what_to_try_is_not() -> None:
    builder = good_run()
    for row in builder.rows["streams"]:
        if row["stage"] == "crowd" and row["load"] == "voices":
            row |= {"end": "error", "error_kind": "refused"}
    summary, text = told(builder)
    crowd = summary["stages"][1]
    # The closing baseline went well: the service came back.
    assert summary["verdict_because"] == "tts failed"
    assert [failure["tenant"] for failure in crowd["failures"]] == ["tts"]
    assert str(first_cause(crowd)).startswith("tts: 24 of 24 utterances failed: refused 24")
    assert "untried" not in text


def test_a_clip_without_its_voice_is_no_failure_of_the_face() -> None:
    builder = good_run()
    for row in builder.rows["streams"]:
        if row["stage"] == "crowd" and row["utterance"] in (3, 4) and row["kind"] != "completions":
            row |= {"end": "error", "error_kind": "empty"}
    crowd = judge(builder.build(), POINT)["stages"][1]
    assert [failure["of"] for failure in crowd["failures"]] == ["voices"]
    for row in builder.rows["streams"]:
        if row["kind"] == "voices":
            row |= {"end": "eos", "error_kind": None}
    crowd = judge(builder.build(), POINT)["stages"][1]
    assert [(failure["of"], failure["failed"]) for failure in crowd["failures"]] == [("faces", 2)]


def test_nothing_failed_nothing_told() -> None:
    summary = judge(good_run().build(), POINT)
    assert [stage["failures"] for stage in summary["stages"]] == [[], []]
