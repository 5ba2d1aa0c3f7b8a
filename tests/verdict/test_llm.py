"""The LLM part of a stage, by hand."""

from typing import Any

from cotenant.report.gate_words import short_sentence
from cotenant.verdict.summary import JudgeOptions, judge
from tests.verdict.recordings import Builder, S, steady


def _run(**load: Any) -> Builder:
    builder = Builder()
    decode = {"tenant": "llm", "kind": "completions", "streams": 2, "prompt": 128, "output": 40, **load}
    builder.scenario["load"] = {**builder.scenario["load"], "decode": decode}
    builder.scenario["stages"] = [{"name": "crowd", "load": ["decode"]}]
    builder.scenario["gate"] = []
    builder.window("crowd", 10 * S, 20 * S)
    builder.stamps(0, 30 * S)
    return builder


def _stage(builder: Builder, *gates: str) -> dict[str, Any]:
    stage: dict[str, Any] = judge(builder.build(), JudgeOptions(decision="point", gates=gates))["stages"][0]
    return stage


def test_rates_are_of_the_window_whoever_sent_the_request() -> None:
    builder = _run()
    # Due before the window, tokens at 9.1, 9.2 ... 11.0: 10 of them inside (10.0 to 10.9), and 11.0.
    builder.asked("crowd", 9 * S, steady(100, 20), done_ms=2000)
    builder.asked("crowd", 19 * S, steady(500, 20, 100), done_ms=None, end="open")
    entry = _stage(builder)["llm"]["decode"]
    # 19.5 to 19.9 are inside, what came after the window is not.
    assert entry["tokens_per_s"] == (11 + 5) / 10
    assert entry["requests"] == 1
    assert entry["ttft_ms"]["p50"] == 500.0
    assert entry["ttft_ms"]["n"] == 1
    assert entry["prompt_tokens_per_s"] == 12.8
    assert entry["prompts"] == 1
    assert entry["itl_ms"]["n"] == 11 + 4
    assert entry["finished"] == 1
    assert entry["open"] == 1
    assert entry["tpot_ms"]["p50"] == 100.0


def test_streams_alive_all_the_time_are_delivered() -> None:
    builder = _run()
    for stream in (0, 1):
        builder.asked("crowd", 9 * S, steady(100, 100), done_ms=12_000, listener=stream)
    stage = _stage(builder)
    assert stage["llm"]["decode"]["delivered"] is True
    assert stage["validity"] == "valid"


def test_a_load_that_was_not_there_makes_the_stage_invalid() -> None:
    builder = _run()
    builder.asked("crowd", 9 * S, steady(100, 100), done_ms=12_000)
    stage = _stage(builder)
    assert stage["llm"]["decode"]["delivered"] is False
    assert stage["llm"]["decode"]["delivered_share"] == 0.5
    assert stage["validity"] == "invalid"
    assert "decode" in stage["invalid_because"][0]


def test_a_rate_is_delivered_when_it_was_sent_on_time() -> None:
    builder = _run(mode="rate", rate="1/s", streams="auto")
    del builder.scenario["load"]["decode"]["streams"]
    for index in range(10):
        due = (10 + index) * S
        builder.asked("crowd", due, [100], done_ms=100, sent=due + (150_000_000 if index < 1 else 0))
    assert _stage(builder)["llm"]["decode"]["delivered"] is False
    builder.rows["streams"][0]["sent"] = builder.rows["streams"][0]["due"] + 100_000_000
    assert _stage(builder)["llm"]["decode"]["delivered"] is True


def test_a_request_that_failed_has_an_infinite_first_token() -> None:
    builder = _run()
    builder.asked("crowd", 11 * S, [100], done_ms=100)
    builder.asked("crowd", 12 * S, [], done_ms=100, end="error", error_kind="overloaded")
    stage = _stage(builder, "llm.decode.ttft_ms.p95 <= 1s")
    assert stage["why"]["llm.decode.ttft_ms.p95"] == "+inf"
    assert stage["llm"]["decode"]["errors"] == {"overloaded": 1}
    assert stage["gates"][0]["verdict"] == "fail"


def test_a_request_still_without_a_token_leaves_its_quantile_open() -> None:
    builder = _run()
    builder.asked("crowd", 11 * S, [100], done_ms=100)
    builder.asked("crowd", 12 * S, [], done_ms=3000, end="open")
    stage = _stage(builder, "llm.decode.ttft_ms.p95 <= 10s", "llm.decode.ttft_ms.p50 <= 1s")
    assert "over 3000 ms" in stage["why"]["llm.decode.ttft_ms.p95"]
    assert [gate["verdict"] for gate in stage["gates"]] == ["inconclusive", "pass"]


def test_no_window_is_no_rate() -> None:
    builder = _run()
    builder.rows["marks"].clear()
    builder.asked("crowd", 11 * S, [100], done_ms=100)
    stage = _stage(builder, "llm.decode.tokens_per_s >= 0")
    assert stage["llm"]["decode"]["tokens_per_s"] is None
    assert stage["gates"][0]["verdict"] == "inconclusive"
    assert stage["verdict"] == "inconclusive"


def test_solo_window_is_the_reference() -> None:
    builder = _run()
    builder.window("solo:decode", 30 * S, 35 * S)
    for stream in (0, 1):
        builder.asked("solo:decode", 30 * S, steady(0, 100, 50), done_ms=5000, listener=stream)
    builder.asked("crowd", 10 * S, steady(50, 100, 100), done_ms=10_000)
    summary = judge(builder.build(), JudgeOptions(decision="point"))
    assert summary["solo"]["decode"]["tokens_per_s"] == 40.0
    reference = summary["stages"][0]["vs_reference"]["llm"]["decode"]
    assert reference["tokens_per_s"]["ratio"] == 0.25
    assert reference["itl_p99"]["ratio"] == 2.0


def test_an_unknown_number_of_prompt_tokens_is_not_zero() -> None:
    builder = _run()
    builder.asked("crowd", 11 * S, [100], done_ms=100)
    builder.asked("crowd", 12 * S, [100], done_ms=100, prompt_tokens=None)
    gates = ("llm.decode.prompt_tokens_per_s <= 1k", "llm.decode.prompt_tokens_per_s >= 0")
    stage = _stage(builder, *gates)
    assert stage["llm"]["decode"]["prompt_tokens_per_s"] is None
    assert stage["llm"]["decode"]["prompts"] == 2
    assert "1 of 2 prompts" in stage["why"]["llm.decode.prompt_tokens_per_s"]
    assert [gate["verdict"] for gate in stage["gates"]] == ["inconclusive", "inconclusive"]
    # What came outside the window is not asked.
    builder.rows["streams"][1].update(due=30 * S, done=31 * S)
    builder.rows["tokens"][1]["arrival"] = 30 * S
    assert _stage(builder)["llm"]["decode"]["prompt_tokens_per_s"] == 12.8


def test_what_is_known_to_be_over_the_limit_fails_without_a_value() -> None:
    builder = _run()
    builder.asked("crowd", 12 * S, [], done_ms=3000, end="open")
    gates = ("llm.decode.ttft_ms.p95 <= 2s", "llm.decode.ttft_ms.p95 <= 3s", "llm.decode.ttft_ms.p95 >= 1s")
    stage = _stage(builder, *gates)
    assert [gate["verdict"] for gate in stage["gates"]] == ["fail", "inconclusive", "inconclusive"]
    assert stage["gates"][0]["value"] is None
    said = short_sentence(stage["gates"][0])
    assert said.startswith("llm.decode.ttft_ms.p95 over 3000 ms: requests were still without a token")


def test_a_server_without_a_token_all_through_the_window_fails_though_nothing_was_due_in_it() -> None:
    builder = _run()
    for listener in (0, 1):
        builder.asked("crowd", 9 * S, [], done_ms=11_020, end="open", listener=listener)
    stage = _stage(builder, "llm.decode.ttft_ms.p95 <= 2s")
    assert (stage["verdict"], stage["validity"]) == ("fail", "valid")
    assert (stage["llm"]["decode"]["ttft_ms"]["n"], stage["llm"]["decode"]["requests"]) == (2, 0)


def test_a_wait_that_did_not_take_the_whole_window_is_of_no_window() -> None:
    builder = _run()
    builder.asked("crowd", 9 * S, [11_000.0 - 1e-6], done_ms=12_000)  # first token just inside
    assert _stage(builder, "llm.decode.ttft_ms.p95 <= 2s")["llm"]["decode"]["ttft_ms"]["n"] == 0
    builder.asked("crowd", 9 * S, [11_000.0], done_ms=12_000, listener=1)
    stage = _stage(builder, "llm.decode.ttft_ms.p95 <= 2s", "llm.decode.ttft_ms.p95 <= 12s")
    assert stage["llm"]["decode"]["ttft_ms"]["p95"] == 11_000.0
    # Nothing passes by that alone.
    assert [gate["verdict"] for gate in stage["gates"]] == ["fail", "inconclusive"]
