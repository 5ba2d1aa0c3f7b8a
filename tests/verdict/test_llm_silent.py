"""A stage beside an LLM that gave no token while it was measured: it can fail, and never passes by that."""

from typing import Any

import pytest

from cotenant.verdict.at_lookaheads import judge_at
from cotenant.verdict.summary import JudgeOptions, exit_code, is_decided, judge
from tests.verdict.recordings import MS, Builder, S, good_run, steady

POINT = JudgeOptions(decision="point")
START, END = 80 * S, 140 * S
WHY = (
    "llm gave nothing while this was measured, so nothing was shown beside it; measure longer than a prompt "
    "takes, or look at its log"
)


def hung(builder: Builder, *, tokens_ms: tuple[float, ...] = (100.0, 900.0)) -> Builder:
    """The LLM of the second stage gives its first tokens while that settles, and then (after `tokens_ms` from
    1 s before it is measured on) none; both of its streams stay open."""
    gone = {row["stream"] for row in builder.rows["streams"] if row["load"] == "decode"}
    for table in ("streams", "tokens"):
        builder.rows[table] = [row for row in builder.rows[table] if row["stream"] not in gone]
    for stream in (0, 1):
        builder.asked("crowd", START - S, tokens_ms, done_ms=62_000, listener=stream, utterance=0, end="open")
    return builder


def crowd_of(builder: Builder, options: JudgeOptions = POINT) -> tuple[dict[str, Any], dict[str, Any]]:
    summary = judge(builder.build(), options)
    return summary, summary["stages"][1]


def told(stage: dict[str, Any]) -> list[dict[str, Any]]:
    return [caveat for caveat in stage["caveats"] if caveat["kind"] == "llm-silent"]


def test_a_good_voice_beside_an_llm_that_hangs_passes_nothing() -> None:
    builder = hung(good_run())
    summary, crowd = crowd_of(builder)
    assert crowd["llm"]["decode"]["delivered"] is True
    assert crowd["llm"]["decode"]["tokens_per_s"] == 0
    assert (crowd["verdict"], crowd["validity"], exit_code(summary)) == ("inconclusive", "valid", 3)
    assert {(gate["verdict"], gate["why"]["verdict"]) for gate in crowd["gates"]} == {("inconclusive", WHY)}
    (caveat,) = told(crowd)
    assert caveat["requests"] == 2
    assert caveat["text"].startswith("llm gave no token while this was measured, of 2 requests")
    # The baseline has no LLM, and measuring on shows nothing of one that hangs.
    assert summary["stages"][0]["verdict"] == "pass"
    assert is_decided(summary, "crowd")


def test_one_token_while_it_was_measured_is_an_llm_at_work() -> None:
    summary, crowd = crowd_of(hung(good_run(), tokens_ms=(100.0, 900.0, 60_999.0)))
    assert (summary["verdict"], crowd["verdict"], told(crowd)) == ("pass", "pass", [])
    _, crowd = crowd_of(hung(good_run(), tokens_ms=(100.0, 900.0, 61_000.0)))
    assert (crowd["verdict"], len(told(crowd))) == ("inconclusive", 1)


def test_a_voice_that_breaks_beside_it_fails_all_the_same() -> None:
    summary, crowd = crowd_of(hung(good_run(late_ms=1500.0, share=1.0)))
    assert (crowd["verdict"], exit_code(summary), len(told(crowd))) == ("fail", 1, 1)
    by_metric = {gate["metric"]: gate["verdict"] for gate in crowd["gates"]}
    assert by_metric["speech.clean_share"] == "fail"
    assert by_metric["speech.ttfa_ms.p95"] == "inconclusive"


@pytest.mark.parametrize("level", ["fail", "warn"])
def test_comparisons_and_gates_that_only_warn_pass_nothing_either(level: str) -> None:
    builder = good_run()
    builder.scenario["gate"] = [
        {
            "metric": "vs_reference.ttfa_p95.ratio",
            "op": "<=",
            "limit": 1.5,
            "level": level,
            "stages": ["crowd"],
        }
    ]
    assert crowd_of(builder)[1]["verdict"] == "pass"
    _, crowd = crowd_of(hung(builder))
    (gate,) = crowd["gates"]
    assert (gate["verdict"], gate["why"]["verdict"], crowd["verdict"]) == (
        "inconclusive",
        WHY,
        "inconclusive",
    )


def test_another_load_of_the_same_llm_tells_that_it_works() -> None:
    builder = hung(good_run())
    builder.scenario["load"]["prompts"] = {
        "tenant": "llm", "kind": "completions", "mode": "rate", "rate": "1/s", "prompt": 128, "output": 1,
    }  # fmt: skip
    builder.scenario["stages"][1]["load"].append("prompts")
    builder.asked("crowd", START + S, [], load="prompts", done_ms=62_000, end="open")
    assert told(crowd_of(builder)[1])[0]["requests"] == 3
    builder.asked("crowd", START + 2 * S, [100], load="prompts", done_ms=100)
    assert crowd_of(builder)[1]["verdict"] == "pass"


def test_an_llm_of_which_nothing_was_asked_is_not_silent() -> None:
    builder = hung(good_run())
    builder.scenario["load"]["decode"] = {
        "tenant": "llm", "kind": "completions", "mode": "rate", "rate": "0.01/s", "prompt": 128, "output": 1,
    }  # fmt: skip
    for row in builder.rows["streams"]:
        if row["load"] == "decode":
            row |= {"done": START - 50 * MS, "end": "eos"}
    assert (crowd_of(builder)[1]["verdict"], told(crowd_of(builder)[1])) == ("pass", [])


def test_a_solo_window_says_nothing_of_it() -> None:
    builder = good_run()
    builder.window("solo:decode", 220 * S, 225 * S)
    for stream in (0, 1):
        builder.asked("solo:decode", 219 * S, steady(100, 5), done_ms=7000, listener=stream, end="open")
    summary, crowd = crowd_of(builder)
    assert (summary["verdict"], told(summary["solo"]["decode"]), told(crowd)) == ("pass", [], [])


def test_no_lookahead_makes_it_pass() -> None:
    builder = hung(good_run(late_ms=900.0, share=0.5))
    builder.scenario["gate"] = ["speech.clean_share >= 95 %"]
    recording = builder.build()
    found = [one["stages"][1]["verdict"] for one in judge_at(recording, POINT, (0, 1500 * MS))]
    assert found == ["fail", "inconclusive"]
