"""Caveats of the run, of the engine and of our own measuring: each from data, none from what is missing."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from cotenant.records import Recording
from cotenant.verdict.caveats import caveat, crowded
from cotenant.verdict.summary import JudgeOptions, judge
from cotenant.verdict.typed import summary_of
from tests.verdict.recordings import MS, Builder, S, good_run

POINT = JudgeOptions(decision="point")


def _summary(builder: Builder, **manifest: Any) -> dict[str, Any]:
    recording = builder.build()
    return judge(Recording(manifest={**recording.manifest, **manifest}, tables=recording.tables), POINT)


def _kinds(part: Mapping[str, Any]) -> list[str]:
    return [caveat["kind"] for caveat in part["caveats"]]


def _crowd(builder: Builder) -> dict[str, Any]:
    stage: dict[str, Any] = _summary(builder)["stages"][1]
    return stage


def _engine(builder: Builder, metric: str, values: Mapping[int, float], tenant: str = "llm") -> None:
    for second, value in values.items():
        builder.rows["engine"].append({"t": second * S, "tenant": tenant, "metric": metric, "value": value})


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_good_run_has_none(device: str) -> None:
    summary = _summary(good_run(device=device))
    assert summary["caveats"] == []
    assert [stage["caveats"] for stage in summary["stages"]] == [[], []]


def test_a_caveat_has_kind_text_advice_and_its_numbers() -> None:
    assert caveat("a", "b", "c", share=1 / 3, count=2, bytes=None) == {
        "kind": "a", "text": "b", "advice": "c", "share": 0.333333, "count": 2, "bytes": None,
    }  # fmt: skip


def test_preemptions_are_counted_in_the_window_of_the_stage_that_has_the_load() -> None:
    builder = good_run()
    _engine(builder, "preemptions", {20: 9.0, 79: 5.0, 100: 2.0, 139: 1.0, 141: 7.0})
    summary = _summary(builder)
    assert _kinds(summary["stages"][0]) == []
    assert summary["stages"][1]["caveats"][0]["preemptions"] == 3


def test_another_tenants_counters_and_none_at_all_say_nothing() -> None:
    builder = good_run()
    _engine(builder, "preemptions", {100: 2.0}, tenant="other")
    _engine(builder, "preemptions", {100: 0.0})
    assert _kinds(_crowd(builder)) == []


def test_prompts_from_the_prefix_cache_are_a_share_of_what_was_asked() -> None:
    builder = good_run()
    _engine(builder, "prefix_cache_queries", {100: 1000.0, 110: 1000.0})
    _engine(builder, "prefix_cache_hits", {100: 19.0})
    assert _kinds(_crowd(builder)) == []
    _engine(builder, "prefix_cache_hits", {110: 481.0})
    found = _crowd(builder)["caveats"][0]
    assert (found["kind"], found["cached_share"], found["cached_tokens"]) == ("prefix-cache", 0.25, 500)


def test_our_own_timing_error_is_said_before_it_makes_a_stage_invalid() -> None:
    for bracket_ms, expected in ((7.9, []), (9.0, ["timing-error"]), (11.0, [])):
        builder = good_run(faces=False)
        for row in builder.rows["host"]:
            if row["metric"] == "offset_bracket_ns":
                row["value"] = bracket_ms * MS
        stage = _summary(builder)["stages"][0]
        assert _kinds(stage) == expected
        assert (stage["validity"] == "invalid") == (bracket_ms > 10)


@pytest.mark.parametrize(("device", "late", "expected"), [("gpu", 6, 1), ("gpu", 2, 0), ("cpu", 60, 0)])
def test_a_host_that_wakes_late_is_said_on_a_gpu(device: str, late: int, expected: int) -> None:
    builder = good_run(device=device)
    for second in range(80, 140):
        value = 40.0 * MS if second < 80 + late else 0.1 * MS
        builder.rows["host"].append(
            {"t": second * S, "source": "host", "metric": "sleep_lag_ns", "value": value}
        )
    stage = _crowd(builder)
    assert _kinds(stage) == ["host-lag"] * expected
    assert stage["host_canary_ms"]["p99"] == 40.0


@pytest.mark.parametrize(
    ("cores_used", "last_s", "expected"), [(1.0, 200, 1), (0.3, 200, 0), (1.0, 100, 0), (1.0, 0, 0)]
)
def test_who_else_used_the_machine_is_said_where_it_is_known(
    cores_used: float, last_s: int, expected: int
) -> None:
    builder = good_run()
    builder.others_use(cores_used, last_s)
    caveats = [one for one in _crowd(builder)["caveats"] if one["kind"] == "others-cpu"]
    assert len(caveats) == expected
    assert all(one["others_share"] == 0.5 for one in caveats)
    assert crowded(caveats) == ("while others used 50 % of this machine's CPU" if expected else "")


def test_of_a_machine_whose_other_cores_this_run_may_not_use_all_are_counted() -> None:
    builder = good_run()
    builder.others_use(1.0)
    device = {"kind": "cpu", "name": "test", "cpu_count": 2, "machine_cpu_count": 4}
    caveats = _summary(builder, device=device)["stages"][1]["caveats"]
    assert [one["others_share"] for one in caveats if one["kind"] == "others-cpu"] == [0.25]
    assert crowded(caveats) == ""


def test_an_attached_service_is_not_taken_for_somebody_else() -> None:
    builder = good_run()
    attached = {"kind": "speech", "engine": "attach", "url": "http://127.0.0.1:1"}
    builder.scenario["tenants"] = {**builder.scenario["tenants"], "tts": attached}
    builder.others_use(2.0)
    assert "others-cpu" not in _kinds(_crowd(builder))


def test_baselines_that_differ_are_a_caveat_of_the_run() -> None:
    builder = good_run()
    streams = {row["stream"] for row in builder.rows["streams"] if row["stage"] == "alone/again"}
    for row in builder.rows["chunks"]:
        row["arrival"] += 30 * MS if row["stream"] in streams else 0
    summary = _summary(builder)
    assert _kinds(summary) == ["a-a"]
    assert summary["caveats"][0]["ttfa_p95_ratio"] == pytest.approx(summary["a_a"]["ttfa_p95_ratio"])
    # Of a longest gap that stayed the same nothing is said; its ratio is among the numbers.
    text = summary["caveats"][0]["text"]
    assert text.startswith("the closing baseline differs from the first (TTFA p95 1.14 times): comparisons")
    assert summary["caveats"][0]["chunk_gap_max_p95_ratio"] == 1.0


def test_without_a_closing_baseline_nothing_is_said_to_differ() -> None:
    builder = good_run()
    builder.rows["marks"] = [row for row in builder.rows["marks"] if row["name"] != "alone/again"]
    assert _kinds(_summary(builder)) == []


def test_what_the_observers_told_becomes_caveats_of_the_run() -> None:
    note = {"kind": "mig-on", "text": "MIG is on", "advice": "name a slice"}
    refused = {"ready": False, "kind": "no_device", "message": "torch sees no CUDA device", "advice": ""}
    observers = {"gpu": {"ready": True, "notes": [note]}, "gpu-canary": refused}
    found = _summary(good_run(device="gpu"), observers=observers)
    assert _kinds(found) == ["no-canary", "mig-on"]
    assert found["caveats"][1] == note
    assert found["stages"][0]["why"]["canary_ms.p99"] == "torch sees no CUDA device"


@pytest.mark.parametrize(
    "observers", [None, [], {"gpu": None}, {"gpu": {"ready": None}}, {"gpu": {"notes": 1}}]
)
def test_observers_that_told_nothing_make_no_caveat(observers: Any) -> None:
    assert _kinds(_summary(good_run(device="gpu"), observers=observers)) == []


def test_servers_that_are_not_what_they_stand_for() -> None:
    tenants = {
        "llm": {"weights": "dummy"},
        "tts": {"frame_ms": 5.0, "published_frame_ms": 15.0, "optimistic": True},
        "head": {"clip_ms": 600.0, "published_clip_ms": 400.0, "optimistic": False},
    }
    found = _summary(good_run(device="gpu"), tenants=tenants)["caveats"]
    assert [each["kind"] for each in found] == [
        "dummy-weights",
        "stand-in-optimistic",
        "stand-in-pessimistic",
    ]
    assert (found[1]["frame_ms"], found[1]["published_frame_ms"]) == (5.0, 15.0)
    assert (found[2]["clip_ms"], found[2]["published_clip_ms"]) == (600.0, 400.0)
    assert "a clip takes 600 ms" in found[2]["text"]


@pytest.mark.parametrize(
    "told",
    [
        {"weights": "real"},
        {"frame_ms": 16.0, "published_frame_ms": 15.0, "optimistic": False},
        {"frame_ms": 5.0, "published_frame_ms": None, "optimistic": None},
        {"optimistic": True},
        None,
    ],
)
def test_a_server_near_its_model_or_without_a_published_time_makes_none(told: Any) -> None:
    assert _kinds(_summary(good_run(device="gpu"), tenants={"tts": told})) == []


def test_an_observer_that_ended_is_a_caveat_of_that_stage() -> None:
    builder = good_run()
    builder.fault("observer:gpu", 100 * S)
    observers = {"gpu": {"ready": True, "notes": [], "said": "cannot write: disk full"}}
    summary = _summary(builder, observers=observers)
    assert [_kinds(stage) for stage in summary["stages"]] == [[], ["observer-ended"]]
    text = "the observer gpu ended in this stage (cannot write: disk full)"
    assert summary["stages"][1]["caveats"][0]["text"] == text
    assert summary["validity"] == "valid"


def test_the_typed_summary_has_them_with_their_numbers() -> None:
    builder = good_run()
    _engine(builder, "preemptions", {100: 2.0})
    summary = summary_of(_summary(builder, tenants={"llm": {"weights": "dummy"}}))
    assert [each.kind for each in summary.caveats] == ["dummy-weights"]
    found = summary.stage("crowd").caveats[0]
    assert (found.kind, found.numbers) == ("preemptions", {"preemptions": 2})
    assert found.advice


def test_what_an_llm_server_does_not_take() -> None:
    text = {"protocol": "chat", "prompt": "text", "usage": "none", "limit": "max_tokens"}
    usual = {"protocol": "completions", "prompt": "ids", "usage": "running", "without": []}
    tenants = {"llm": {"request": {**text, "without": ["ignore_eos"]}}, "other": {"request": usual}}
    summary = _summary(good_run(), tenants=tenants)
    assert _kinds(summary) == ["no-ignore-eos", "unknown-prompts"]
    assert all("llm takes" in caveat["text"] for caveat in summary["caveats"])


def test_insecure_is_said() -> None:
    builder = good_run()
    url = {"engine": "attach", "url": "https://x:1", "insecure": True}
    builder.scenario["tenants"]["tts"] = {"kind": "speech", **url}
    (found,) = _summary(builder)["caveats"]
    assert found["kind"] == "insecure"
    assert found["text"].startswith("INSECURE: the certificate of tts")
    assert "ca_file" in found["advice"]


def test_what_is_on_another_machine_is_said() -> None:
    builder = good_run()
    builder.scenario["tenants"]["tts"] = {
        "kind": "speech",
        "engine": "attach",
        "url": "http://198.51.100.7:1",
    }
    assert _kinds(_summary(builder, tenants={"tts": {"elsewhere": False}, "llm": {}})) == []
    (found,) = _summary(builder, tenants={"tts": {"elsewhere": True}})["caveats"]
    assert (found["kind"], found["tenants_elsewhere"]) == ("elsewhere", 1)
    assert found["tenants_here"] >= 1
    assert found["text"].startswith("tts is on another machine (by its address): what is said here of CPU")
    everything = {name: {"elsewhere": True} for name in builder.scenario["tenants"]}
    (found,) = _summary(builder, tenants=everything)["caveats"]
    assert found["tenants_here"] == 0
    assert " are on other machines (by their addresses)" in found["text"]


def test_a_protocol_that_never_met_its_server_and_one_that_does_not_stream() -> None:
    told = {"name": "vllm-omni", "title": "vLLM-Omni", "how_tested": "after its source"}
    tried = {"speech_protocol": {**told, "experimental": False, "whole": False}}
    assert _kinds(_summary(good_run(), tenants={"tts": tried})) == []
    untried = {"speech_protocol": {**told, "experimental": True, "whole": True}}
    summary = _summary(good_run(), tenants={"tts": untried, "odd": {"speech_protocol": 3}})
    assert _kinds(summary) == ["experimental-protocol", "whole-answers"]
    assert "vLLM-Omni (vllm-omni)" in summary["caveats"][0]["text"]
    assert "after its source" in summary["caveats"][0]["text"]


def test_a_heads_protocol_that_never_met_its_server() -> None:
    told = {"name": "websocket", "title": "another head", "how_tested": "drawn pictures"}
    tenants = {
        "head": {"protocol": {**told, "experimental": True}},
        "llm": {"protocol": {**told, "experimental": False}},
        "odd": {"protocol": "websocket"},
    }
    (found,) = _summary(good_run(), tenants=tenants)["caveats"]
    assert found["kind"] == "experimental-protocol"
    assert found["text"].startswith("head is spoken to as another head (websocket)")
    assert "drawn pictures" in found["text"]


def _host_read(builder: Builder, times_ns: Iterable[int]) -> None:
    builder.rows["host"] += [
        {"t": t, "source": "host", "metric": "sleep_lag_ns", "value": 0.1 * MS} for t in times_ns
    ]


def test_a_host_observer_that_stood_still_is_said_where_it_did() -> None:
    builder = good_run()
    _host_read(builder, [t for t in range(0, 230 * S, S) if not 91 * S < t < 129 * S])
    summary = _summary(builder)
    assert [_kinds(stage) for stage in summary["stages"]] == [[], ["host-lost"]]
    (caveat,) = summary["stages"][1]["caveats"]
    # 80 to 140 s were measured; of 92 to 128 s nothing was read.
    assert caveat["coverage"] == 0.4
    assert caveat["text"] == "the host's readings came in 40 % of the seconds only"


def test_readings_off_the_beat_and_one_missing_at_the_end_are_no_loss() -> None:
    builder = good_run()
    _host_read(
        builder, [t + (300 if second % 2 else -300) * MS for second, t in enumerate(range(0, 140 * S, S))]
    )
    assert [_kinds(stage) for stage in _summary(builder)["stages"]] == [[], []]
