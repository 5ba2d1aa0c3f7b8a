"""Two runs side by side: what is a regression, what is not, and what cannot be told."""

from typing import Any

import pytest

from cotenant.errors import ExitCode
from cotenant.report.comparison import render
from cotenant.verdict.compare_runs import compare_runs, exit_code
from cotenant.verdict.effects import METRICS
from tests.verdict.recordings import MS, Builder, S, good_run


def late_run() -> Builder:
    """In the crowd every second utterance has a chunk 1300 ms late."""
    return good_run(late_ms=1300.0, share=0.5)


def metric(found: dict[str, Any], path: str, stage: str = "crowd") -> dict[str, Any]:
    entries = [e for s in found["stages"] if s["name"] == stage for e in s["metrics"] if e["metric"] == path]
    assert len(entries) == 1
    entry: dict[str, Any] = entries[0]
    return entry


def shifted(by_ms: float) -> Builder:
    """A run whose crowd begins to speak that much later."""
    builder = good_run()
    crowd = {row["stream"] for row in builder.rows["streams"] if row["stage"] == "crowd"}
    for row in builder.rows["chunks"]:
        if row["stream"] in crowd:
            row["arrival"] += round(by_ms * MS)
    for row in builder.rows["streams"]:
        if row["stage"] == "crowd" and row["kind"] == "voices":
            row["done"] += round(by_ms * MS)
    return builder


@pytest.mark.parametrize("decision", ["interval", "point"])
def test_a_run_is_not_worse_than_itself(decision: Any) -> None:
    run = late_run().build()
    found = compare_runs(run, run, decision)
    assert found["paired"] is True
    assert [stage["pairs"] for stage in found["stages"]] == [24, 24]
    assert {entry["verdict"] for stage in found["stages"] for entry in stage["metrics"]} == {"same"}
    assert exit_code(found) is ExitCode.PASS


def test_worse_one_way_is_better_the_other() -> None:
    good, late = good_run().build(), late_run().build()
    worse, better = compare_runs(good, late, "interval"), compare_runs(late, good, "interval")
    assert exit_code(worse) is ExitCode.FAIL
    assert exit_code(better) is ExitCode.PASS
    for path, sign in (("speech.clean_share", -1), ("speech.headroom_ms.p5", -1), ("speech.stall_ratio", 1)):
        assert metric(worse, path)["verdict"] == "regression"
        assert metric(better, path)["verdict"] == "improvement"
        assert metric(worse, path)["difference"] * sign > 0
        assert metric(worse, path)["low"] * sign > 0
        assert metric(worse, path)["high"] * sign > 0
        assert metric(worse, path, "alone")["verdict"] == "same"
    assert metric(worse, "speech.clean_share")["difference"] == -0.5
    assert metric(worse, "speech.clean_share")["paired"] is True


@pytest.mark.parametrize(("by_ms", "verdict"), [(9.0, "same"), (19.0, "same"), (25.0, "regression")])
def test_a_latency_has_to_grow_by_a_tenth_and_by_ten_ms(by_ms: float, verdict: str) -> None:
    found = compare_runs(good_run().build(), shifted(by_ms).build(), "interval")
    entry = metric(found, "speech.ttfa_ms.p95")
    assert entry["difference"] == by_ms
    assert entry["verdict"] == verdict


def test_a_difference_as_large_as_the_runs_own_is_none() -> None:
    """The closing baseline of A is 30 ms later than its first: 30 ms between runs says nothing."""
    noisy = good_run()
    again = {row["stream"] for row in noisy.rows["streams"] if row["stage"] == "alone/again"}
    for row in noisy.rows["chunks"]:
        if row["stream"] in again:
            row["arrival"] += 30 * MS
    entry = metric(compare_runs(noisy.build(), shifted(25.0).build(), "interval"), "speech.ttfa_ms.p95")
    assert entry["verdict"] == "same"


def test_unpaired_where_they_asked_different_things_and_said_so() -> None:
    other = late_run()
    other.scenario = {**other.scenario, "seed": 11}
    found = compare_runs(good_run().build(), other.build(), "interval")
    assert found["paired"] is False
    assert "seed" in found["why"]["paired"]
    assert {stage["pairs"] for stage in found["stages"]} == {None}
    assert "not paired" in render(found)
    share = metric(found, "speech.clean_share")
    assert share["paired"] is False
    assert share["verdict"] == "regression"
    # 24 utterances of each do not bound a p5.
    headroom = metric(found, "speech.headroom_ms.p5")
    assert (headroom["verdict"], headroom["why"]["verdict"]) == (
        "inconclusive",
        "too few to bound the difference",
    )


def test_the_services_may_differ() -> None:
    other = good_run()
    other.scenario = {**other.scenario, "name": "new", "about": "another model", "gate": ["face"]}
    other.scenario["tenants"] = {**other.scenario["tenants"]}
    other.scenario["tenants"]["tts"] = {
        "kind": "speech", "engine": "attach", "url": "http://127.0.0.1:1", "model": "m",
    }  # fmt: skip
    assert compare_runs(good_run().build(), other.build())["paired"] is True


def test_what_is_missing_in_b_is_never_a_pass() -> None:
    whole, silent, unmeasured = (good_run(faces=False) for _ in range(3))
    for row in silent.rows["streams"]:
        if row["stage"] == "crowd" and row["kind"] == "voices":
            row["due"] = 240 * S
    unmeasured.rows["marks"] = [row for row in unmeasured.rows["marks"] if row["name"] != "crowd"]
    for broken in (silent, unmeasured):
        found = compare_runs(whole.build(), broken.build(), "point")
        assert exit_code(found) is ExitCode.INCONCLUSIVE
        assert "UNCLEAR" in render(found)


def test_a_voice_that_fell_silent_is_a_regression() -> None:
    dumb = good_run()
    crowd = {row["stream"] for row in dumb.rows["streams"] if row["stage"] == "crowd"}
    dumb.rows["chunks"] = [row for row in dumb.rows["chunks"] if row["stream"] not in crowd]
    found = compare_runs(good_run().build(), dumb.build(), "interval")
    entry = metric(found, "speech.ttfa_ms.p95")
    assert (entry["b"], entry["why"]["b"], entry["verdict"]) == (None, "+inf", "regression")
    assert exit_code(found) is ExitCode.FAIL


def test_an_invalid_stage_decides_nothing() -> None:
    late = late_run()
    for row in late.rows["host"]:
        if row["metric"] == "offset_bracket_ns":
            row["value"] = 50e6
    found = compare_runs(good_run().build(), late.build())
    assert exit_code(found) is ExitCode.INCONCLUSIVE
    assert "timing error" in found["stages"][1]["why"]["verdict"]


def test_no_stage_in_common_is_nothing_to_compare() -> None:
    other = good_run()
    for stage in other.scenario["stages"]:
        stage_name = stage["name"]
        assert stage_name in ("alone", "crowd")
    other.scenario = {
        **other.scenario, "stages": [{**s, "name": s["name"] + "-2"} for s in other.scenario["stages"]],
    }  # fmt: skip
    found = compare_runs(good_run().build(), other.build())
    assert (found["only_in_a"], found["only_in_b"]) == (["alone", "crowd"], ["alone-2", "crowd-2"])
    assert exit_code(found) is ExitCode.INCONCLUSIVE


def test_the_least_effects_are_data() -> None:
    found = compare_runs(good_run().build(), good_run().build())
    assert found["minimum_effects"]["speech.ttfa_ms.p95"] == {"share": 0.1, "absolute": 10.0}
    assert found["minimum_effects"]["speech.clean_share"] == {"share": 0.0, "absolute": 0.02}
    assert set(found["minimum_effects"]) == {entry.path for entry in METRICS}


@pytest.mark.parametrize("decision", ["interval", "point"])
def test_a_stage_that_b_lacks_cannot_be_the_same(decision: Any) -> None:
    less = good_run()
    del less.scenario["stages"][1]
    less.rows["streams"] = [row for row in less.rows["streams"] if row["stage"] != "crowd"]
    whole = good_run().build()
    assert exit_code(compare_runs(whole, less.build(), decision)) is ExitCode.INCONCLUSIVE
    assert "only A has crowd" in render(compare_runs(whole, less.build(), decision))
    # What is new in B has nothing to be worse than.
    assert exit_code(compare_runs(less.build(), whole, decision)) is ExitCode.PASS


@pytest.mark.parametrize("decision", ["interval", "point"])
def test_an_infinity_is_worse_than_a_number(decision: Any) -> None:
    dumb = good_run()
    crowd = {row["stream"] for row in dumb.rows["streams"] if row["stage"] == "crowd"}
    dumb.rows["chunks"] = [row for row in dumb.rows["chunks"] if row["stream"] not in crowd]
    good = good_run().build()
    for path in ("speech.stall_ratio", "speech.ttfa_ms.p95", "speech.headroom_ms.p5"):
        assert metric(compare_runs(good, dumb.build(), decision), path)["verdict"] == "regression"
        assert metric(compare_runs(dumb.build(), dumb.build(), decision), path)["verdict"] == "same"


def test_a_run_without_a_closing_baseline_says_so() -> None:
    less = good_run()
    less.rows["marks"] = [row for row in less.rows["marks"] if row["name"] != "alone/again"]
    found = compare_runs(good_run().build(), less.build())
    assert found["caveats"] == ["B has no valid closing baseline: how much it varies by itself is not known"]


def test_one_is_no_plural_and_a_difference_of_shares_is_points() -> None:
    good, late = good_run().build(), late_run().build()
    said = render(compare_runs(good, late, "interval"))
    assert "-50.0 points" in said
    share = next(line for line in said.splitlines() if "clean_share" in line)
    assert share.count("%") == 2  # A and B themselves.
    assert share.count(" points") == 2  # The difference, and both of its bounds together.
    entry = {"verdict": "regression", "metric": "speech.clean_share", "a": 1.0, "b": 0.5, "difference": -0.5}
    entry |= {"low": -0.6, "high": -0.4, "why": {}}
    alike = {**entry, "verdict": "same"}
    stage = {"name": "crowd", "pairs": 1, "verdict": "fail", "metrics": [entry, alike], "why": {}}
    about = {"run_id": "r", "scenario": "s"}
    one = {
        "a": about, "b": about, "why": {}, "caveats": [], "only_in_a": [], "only_in_b": [], "stages": [stage],
        "paired": True, "decision": "interval", "verdict": "fail",
    }  # fmt: skip
    said = render(one)
    assert "WORSE   1 metric of B (1 utterance paired, 95 % intervals)" in said
    assert "1 metric is the same within the least difference that matters" in said
    assert "-60.0 to -40.0 points" in said


def frozen_run(*lost: range) -> Builder:
    """A run that lacks those of the 80 frames of every clip."""
    builder = good_run()
    gone = {number for numbers in lost for number in numbers}
    builder.rows["frames"] = [row for row in builder.rows["frames"] if row["seq"] not in gone]
    return builder


@pytest.mark.parametrize("decision", ["interval", "point"])
def test_freezes_of_a_picture_that_stands_still_are_not_compared(decision: Any) -> None:
    """One hole of 3 s between four pictures makes fewer freezes than two of 0.5 s, and is no better."""
    standing = frozen_run(range(3, 79)).build()
    moving = frozen_run(range(20, 32), range(50, 62)).build()
    cases = ((moving, standing, "B", ExitCode.FAIL), (standing, moving, "A", ExitCode.PASS))
    for a, b, name, code in cases:
        found = compare_runs(a, b, decision)
        entry = metric(found, "face.freezes_per_minute")
        assert (entry["b"] > entry["a"]) is (name == "A")
        assert (entry["verdict"], entry["difference"]) == (None, None)
        assert entry["why"]["verdict"].startswith(f"not compared: the picture stands still in {name} (for ")
        assert entry["why"]["verdict"].endswith(" % of the time)")
        assert exit_code(found) is code
        line = next(line for line in render(found).splitlines() if "freezes_per_minute" in line)
        assert "not compared: the picture stands still" in line
    # What stands still in both is no worse: the faces' other metrics say what is.
    assert exit_code(compare_runs(standing, standing, decision)) is ExitCode.PASS


def test_freezes_of_a_picture_that_moves_are_compared() -> None:
    """Holes of 1.3 s in every second clip leave 10 frames a second harmonically, and yet it moves."""
    found = compare_runs(good_run().build(), late_run().build(), "point")
    assert metric(found, "face.harmonic_fps")["b"] < 25 / 2
    assert metric(found, "face.freezes_per_minute")["verdict"] == "regression"
