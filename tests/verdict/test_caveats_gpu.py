"""What the GPU did to a stage: caveats, what makes it INVALID, and nothing out of what is not known."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from cotenant.records import Recording
from cotenant.verdict.caveats_gpu import SPOILED_SHARE
from cotenant.verdict.summary import JudgeOptions, judge
from tests.verdict.recordings import MS, Builder, S, good_run

POINT = JudgeOptions(decision="point")
# Of good_run's windows, in s: the baseline, the crowd, the baseline again.
SPANS = {"alone": (10, 70), "crowd": (80, 140), "alone/again": (150, 210)}
STEADY: Mapping[str, float] = {
    "sm_percent": 40.0,
    "dram_percent": 10.0,
    "sm_clock_mhz": 1980.0,
    "memory_used_bytes": 1e10,
    "throttle_power_cap_share": 0.0,
    "throttle_sw_thermal_share": 0.0,
    "throttle_hw_thermal_share": 0.0,
    "throttle_hw_power_brake_share": 0.0,
    "clock_event_hw_slowdown": 0.0,
    "foreign_processes": 0.0,
    "foreign_memory_bytes": 0.0,
    "foreign_changes": 0.0,
}


def _watched(**stages: Mapping[str, float | None]) -> Builder:
    """A good run on a GPU whose readings are steady but for what is given by stage (`again` for the closing
    baseline); a value of None leaves the metric out there."""
    builder = good_run(device="gpu")
    for second in range(215):
        name = next((name for name, (start, end) in SPANS.items() if start <= second < end), "")
        values = {**STEADY, **stages.get(name.replace("alone/again", "again"), {})}
        for metric, value in values.items():
            if value is not None:
                builder.rows["gpu"].append(_row(second, metric, value))
        for tick in range(10):
            row = {"t": second * S + tick * 100 * MS, "latency": MS, "device": "cuda:0"}
            builder.rows["canary"].append(row)
    return builder


def _row(second: int, metric: str, value: float | None, status: str = "ok") -> dict[str, Any]:
    return {
        "t0": second * S, "t1": (second + 1) * S, "gpu": "GPU-1", "metric": metric, "value": value,
        "status": status,
    }  # fmt: skip


def _judged(builder: Builder) -> dict[str, Any]:
    summary = judge(builder.build(), POINT)
    return {stage["name"]: stage for stage in summary["stages"]} | {"again": summary["a_a"]["stage"]}


@pytest.mark.parametrize(("here", "validity"), [(1, "invalid"), (0, "valid")])
def test_this_machines_gpu_spoils_nothing_where_every_service_is_elsewhere(here: int, validity: str) -> None:
    recording = _watched(crowd={"throttle_hw_thermal_share": 0.9}).build()
    names = list(recording.manifest["scenario"]["tenants"])
    tenants = {name: {"elsewhere": True} for name in names[here:]}
    changed = Recording(manifest={**recording.manifest, "tenants": tenants}, tables=recording.tables)
    stage = judge(changed, POINT)["stages"][1]
    assert stage["validity"] == validity
    assert bool(_kinds(stage)) is (validity == "invalid")


def _kinds(stage: Mapping[str, Any]) -> list[str]:
    return [caveat["kind"] for caveat in stage["caveats"]]


def _set(builder: Builder, metric: str, seconds: Iterable[int], value: float) -> None:
    wanted = set(seconds)
    for row in builder.rows["gpu"]:
        if row["metric"] == metric and row["t0"] // S in wanted:
            row["value"] = value


def test_a_steady_gpu_has_no_caveat() -> None:
    stages = _judged(_watched())
    for stage in stages.values():
        assert (stage["validity"], stage["caveats"]) == ("valid", [])


def test_a_run_without_gpu_readings_has_no_caveat_but_reasons() -> None:
    for stage in _judged(good_run(device="gpu")).values():
        assert stage["caveats"] == []
        assert stage["why"]["gpu.sm_percent.mean"] == "no sample in the measure window"


def test_the_power_cap_is_a_caveat_whatever_its_share() -> None:
    stage = _judged(_watched(crowd={"throttle_power_cap_share": 0.6}))["crowd"]
    assert stage["validity"] == "valid"
    assert _kinds(stage) == ["throttle-power"]
    assert stage["caveats"][0]["throttled_share"] == 0.6
    assert "60 % of the time" in stage["caveats"][0]["text"]


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        ("throttle_sw_thermal_share", "throttle-thermal"),
        ("throttle_hw_thermal_share", "throttle-thermal"),
        ("throttle_hw_power_brake_share", "throttle-hw"),
        ("clock_event_hw_slowdown", "throttle-hw"),
    ],
)
@pytest.mark.parametrize("where", ["alone", "crowd", "again"])
def test_heat_and_the_hardware_spoil_what_they_slow_down(metric: str, kind: str, where: str) -> None:
    stages = _judged(_watched(**{where: {metric: 0.3}}))
    assert {name for name, stage in stages.items() if stage["validity"] == "invalid"} == {where}
    assert _kinds(stages[where]) == [kind]
    assert "30 % of the time" in stages[where]["invalid_because"][0]
    assert "run again" in stages[where]["invalid_because"][0]


def test_a_little_heat_is_a_caveat_and_less_is_nothing() -> None:
    little = _judged(_watched(crowd={"throttle_sw_thermal_share": SPOILED_SHARE}))["crowd"]
    assert (little["validity"], _kinds(little)) == ("valid", ["throttle-thermal"])
    assert _kinds(_judged(_watched(crowd={"throttle_sw_thermal_share": 0.009}))["crowd"]) == []


def test_without_counters_samples_of_the_reasons_count() -> None:
    gone = dict.fromkeys(("throttle_sw_thermal_share", "throttle_hw_thermal_share"))
    stage = _judged(_watched(crowd={**gone, "clock_event_sw_thermal": 0.5}))["crowd"]
    assert _kinds(stage) == ["throttle-thermal"]
    assert _kinds(_judged(_watched(crowd=gone))["crowd"]) == []


def test_a_clock_that_the_power_cap_lowered_is_the_loads_own_doing() -> None:
    low = {"sm_clock_mhz": 1700.0, "throttle_power_cap_share": 0.5}
    stage = _judged(_watched(crowd=low))["crowd"]
    assert stage["validity"] == "valid"
    assert _kinds(stage) == ["throttle-power", "clocks-power"]
    assert "stage's own load" in stage["caveats"][1]["text"]
    assert stage["caveats"][1]["sm_clock_ratio"] == pytest.approx(1700 / 1980, abs=1e-5)


def test_a_clock_that_fell_by_more_than_the_cap_explains_has_drifted() -> None:
    low = {"sm_clock_mhz": 1700.0, "throttle_power_cap_share": 0.05}
    assert _kinds(_judged(_watched(crowd=low))["crowd"]) == ["throttle-power", "clocks-drifted"]
    high = _judged(_watched(crowd={"sm_clock_mhz": 2100.0}))["crowd"]
    assert (high["validity"], _kinds(high)) == ("valid", ["clocks-drifted"])
    assert "the baseline was slower" in high["caveats"][0]["text"]


def test_baselines_at_different_clocks_spoil_the_stages_whose_clocks_left_the_firsts() -> None:
    stages = _judged(_watched(crowd={"sm_clock_mhz": 1700.0}, again={"sm_clock_mhz": 1700.0}))
    assert stages["alone"]["validity"] == "valid"
    assert stages["again"]["validity"] == stages["crowd"]["validity"] == "invalid"
    assert "0.86 times that of the first (1700 against 1980 MHz)" in stages["again"]["invalid_because"][0]
    # A stage that ran at the first baseline's clocks can be compared with it, though its noise is not known.
    summary = judge(_watched(again={"sm_clock_mhz": 1700.0}).build(), POINT)
    assert summary["stages"][1]["validity"] == "valid"
    assert summary["a_a"]["ttfa_p95_ratio"] is None
    assert "the SM clock of the closing baseline" in summary["a_a"]["why"]["ttfa_p95_ratio"]


@pytest.mark.parametrize("missing", ["alone", "crowd", "again"])
def test_an_unknown_clock_says_nothing_of_others(missing: str) -> None:
    stages = _judged(_watched(**{missing: {"sm_clock_mhz": None}}))
    assert {stage["validity"] for stage in stages.values()} == {"valid"}
    for name, stage in stages.items():
        assert _kinds(stage) == (["gpu-coverage"] if name == missing else [])


def test_a_process_of_somebody_else_that_stays_is_a_caveat() -> None:
    builder = _watched()
    _set(builder, "foreign_processes", range(215), 2.0)
    _set(builder, "foreign_memory_bytes", range(215), 3.0 * 2**30)
    for stage in _judged(builder).values():
        assert (stage["validity"], _kinds(stage)) == ("valid", ["foreign-process"])
        assert stage["caveats"][0]["memory_bytes"] == 3 * 2**30
    assert "2 processes that are none of this run's held the GPU with 3.0 GiB" in stage["caveats"][0]["text"]


def test_an_attached_service_is_said_to_be_counted_with_them() -> None:
    builder = _watched(**{name: {"foreign_processes": 1.0} for name in ("alone", "crowd", "again")})
    builder.scenario["tenants"]["llm"] |= {"engine": "attach", "url": "http://127.0.0.1:9", "shape": "auto"}
    assert "attached services are counted with them (llm)" in _judged(builder)["crowd"]["caveats"][0]["text"]


@pytest.mark.parametrize("where", ["crowd", "again"])
def test_a_process_that_came_spoils_the_comparison(where: str) -> None:
    stages = _judged(_watched(**{where: {"foreign_processes": 1.0}}))
    assert {name for name, stage in stages.items() if stage["validity"] == "invalid"} == {where}
    assert _kinds(stages[where]) == ["foreign-process", "foreign-came-or-went"]
    assert stages[where]["caveats"][1]["differing_share"] == 1.0


def test_one_that_left_in_the_baseline_spoils_it_and_a_short_visitor_does_not() -> None:
    builder = _watched()
    _set(builder, "foreign_processes", range(10, 20), 1.0)
    stages = _judged(builder)
    assert stages["alone"]["validity"] == "invalid"
    assert stages["crowd"]["validity"] == "valid"
    builder = _watched()
    _set(builder, "foreign_processes", range(100, 103), 1.0)
    stage = _judged(builder)["crowd"]
    assert (stage["validity"], _kinds(stage)) == ("valid", ["foreign-process", "foreign-came-or-went"])


def test_one_that_took_anothers_place_is_seen_though_their_number_is_the_same() -> None:
    builder = _watched()
    _set(builder, "foreign_processes", range(215), 1.0)
    _set(builder, "foreign_changes", [100], 2.0)
    assert _judged(builder)["crowd"]["validity"] == "invalid"


def test_processes_that_cannot_be_listed_are_no_processes_that_left() -> None:
    gone = dict.fromkeys(("foreign_processes", "foreign_memory_bytes", "foreign_changes"))
    builder = _watched(crowd=gone)
    _set(builder, "foreign_processes", range(215), 1.0)
    builder.rows["gpu"] += [_row(second, "foreign_processes", None, "lost") for second in range(80, 140)]
    stage = _judged(builder)["crowd"]
    assert (stage["validity"], _kinds(stage)) == ("valid", [])


def test_a_gpu_that_was_lost_in_mid_stage_is_said_with_its_time_and_share() -> None:
    builder = _watched()
    for row in builder.rows["gpu"]:
        if row["t0"] >= 92 * S:
            row |= {"value": None, "status": "lost"}
    recording = builder.build()
    manifest = {**recording.manifest, "anchor": {"mono_ns": 2 * S, "wall_ns": 0}}
    summary = judge(type(recording)(manifest=manifest, tables=recording.tables), POINT)
    crowd, again = summary["stages"][1], summary["a_a"]["stage"]
    assert _kinds(crowd) == ["gpu-observer-lost"]
    assert "20 % of the time only (the last one 90.0 s into the run)" in crowd["caveats"][0]["text"]
    assert crowd["gpu"]["sm_percent"]["coverage"] == 0.2
    assert again["why"]["gpu.sm_percent.mean"] == "the driver stopped answering for it 90.0 s into the run"
    assert _kinds(again) == ["gpu-observer-lost"]


def test_one_metric_that_was_lost_is_named() -> None:
    stage = _judged(_watched(crowd={"dram_percent": None}))["crowd"]
    assert _kinds(stage) == ["gpu-coverage"]
    assert "DRAM use for 0 %" in stage["caveats"][0]["text"]


def test_a_metric_that_this_gpu_never_had_is_not_lost() -> None:
    gone: Mapping[str, float | None] = {"dram_percent": None, "sm_percent": None}
    builder = _watched(alone=gone, crowd=gone, again=gone)
    builder.rows["gpu"] = [row for row in builder.rows["gpu"] if row["metric"] not in gone]
    builder.rows["gpu"] += [_row(second, "sm_percent", None, "unsupported") for second in range(215)]
    for stage in _judged(builder).values():
        assert stage["caveats"] == []
        assert stage["why"]["gpu.sm_percent.mean"] == "this GPU or driver does not report it"


def test_a_canary_that_ended_is_lost_from_then_on_and_one_that_never_ran_is_not() -> None:
    builder = _watched()
    builder.rows["canary"] = [row for row in builder.rows["canary"] if row["t"] < 110 * S]
    stages = _judged(builder)
    assert [_kinds(stages[name]) for name in ("alone", "crowd", "again")] == [
        [],
        ["canary-lost"],
        ["canary-lost"],
    ]
    assert stages["crowd"]["caveats"][0]["coverage"] == 0.5
    builder.rows["canary"] = []
    assert [stage["caveats"] for stage in _judged(builder).values()] == [[], [], []]
