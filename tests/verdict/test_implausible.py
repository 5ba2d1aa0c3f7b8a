"""Zeros of the GPU's counters while it was at work: which are believed, and what is said of the others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cotenant.resources import data_dir
from cotenant.run_dir.reader import read
from cotenant.verdict.implausible import STATUS, mark_implausible
from cotenant.verdict.summary import JudgeOptions, judge
from tests.verdict.recordings import MS, Builder, S, good_run

WINDOW = 200 * MS
SM = "sm_percent"
BOTH = {SM: 0.0, "dram_percent": 0.0}


def reading(tick: int, metric: str, value: float | None, gpu: str = "GPU-1", *, each: int = WINDOW) -> Any:
    return {
        "t0": tick * each, "t1": (tick + 1) * each, "gpu": gpu, "metric": metric, "value": value,
        "status": "ok" if value is not None else "lost",
    }  # fmt: skip


def idle(ticks: int = 20, values: Mapping[str, float | None] = BOTH) -> Builder:
    """A GPU whose windows of 200 ms all read the same."""
    builder = Builder(device="gpu")
    for tick in range(ticks):
        builder.rows["gpu"] += [reading(tick, metric, value) for metric, value in values.items()]
    return builder


def kernel(builder: Builder, at_ms: float, waited_ms: float = 1.0, device: str = "cuda:0") -> None:
    row = {"t": round(at_ms * MS), "latency": round(waited_ms * MS), "device": device}
    builder.rows["canary"].append(row)


def answered(
    builder: Builder, sent_ms: float, done_ms: float, *, end: str = "eos", holds: bool = True
) -> None:
    """A request of a tenant that is, or is not, on the driver's list of this GPU's processes."""
    due = round(sent_ms * MS)
    builder.stream(1_000_000, tenant="tts", due=due, done=round(done_ms * MS), end=end)
    if holds:
        builder.rows["gpu"].append(reading(0, "process_memory_bytes/tts", 1e9))


def refuted(builder: Builder, metric: str = SM) -> set[int]:
    """The ticks whose zero is not believed; every other row is as it was."""
    recording = builder.build()
    before = recording.tables["gpu"].to_pylist()
    after = mark_implausible(recording).tables["gpu"].to_pylist()
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert all((row["value"], row["status"]) == (None, STATUS) for row in changed)
    assert all(old["value"] == 0 for old, new in zip(before, after, strict=True) if old != new)
    return {row["t0"] // WINDOW for row in changed if row["metric"] == metric}


def test_an_idle_gpu_reads_zero_and_is_believed() -> None:
    assert refuted(idle()) == set()


def test_a_kernel_within_a_window_refutes_its_zero_and_no_other() -> None:
    builder = idle()
    kernel(builder, 1050)
    assert refuted(builder) == {5}
    assert refuted(builder, "dram_percent") == set()  # so small a kernel may find all in the cache


def test_a_kernel_across_an_edge_may_have_run_in_either() -> None:
    builder = idle()
    kernel(builder, 1150, 100)
    assert refuted(builder) == {5, 6}
    for row in builder.rows["gpu"]:
        if row["metric"] == SM and row["t0"] == 6 * WINDOW:
            row["value"] = 0.001
    assert refuted(builder) == set()


@pytest.mark.parametrize("device", ["cpu", "host"])
def test_a_canary_on_the_host_says_nothing_of_the_gpu(device: str) -> None:
    builder = idle()
    kernel(builder, 1050, device=device)
    assert refuted(builder) == set()


def test_a_kernel_that_never_came_back_and_one_in_no_window_prove_nothing() -> None:
    builder = idle()
    builder.rows["canary"].append({"t": 1050 * MS, "latency": None, "device": "cuda:0"})
    kernel(builder, 20 * 200 - 1, 5)
    kernel(builder, 9999)
    assert refuted(builder) == set()


def test_an_answered_request_of_a_tenant_on_this_gpu_refutes_all_its_windows() -> None:
    builder = idle()
    answered(builder, 1050, 1950)
    assert refuted(builder) == refuted(builder, "dram_percent") == {5, 6, 7, 8, 9}


@pytest.mark.parametrize("options", [{"holds": False}, {"end": "error"}, {"end": "open"}])
def test_a_request_that_may_have_been_served_elsewhere_or_not_at_all(options: dict[str, Any]) -> None:
    builder = idle()
    answered(builder, 1050, 1950, **options)
    assert refuted(builder) == set()


def test_one_window_that_counted_something_explains_the_whole_answer() -> None:
    builder = idle()
    answered(builder, 1050, 1950)
    builder.rows["gpu"][2 * 7]["value"] = 3.0
    assert refuted(builder) == set()


def test_a_hole_in_the_readings_may_have_held_the_work() -> None:
    builder = idle()
    answered(builder, 1050, 1950)
    lost = idle()
    lost.rows = {name: list(rows) for name, rows in builder.rows.items()}
    builder.rows["gpu"] = [row for row in builder.rows["gpu"] if row["t0"] != 7 * WINDOW]
    assert refuted(builder) == set()
    lost.rows["gpu"] = [
        {**row, "value": None, "status": "lost"} if row["t0"] == 7 * WINDOW else row
        for row in lost.rows["gpu"]
    ]
    assert refuted(lost) == set()


@pytest.mark.parametrize(("percent", "ticks"), [(40.0, set(range(5, 15))), (4.0, set())])
def test_nvmls_utilization_refutes_where_it_is_no_rounding(percent: float, ticks: set[int]) -> None:
    builder = idle()
    builder.rows["gpu"].append(reading(2, "nvml_utilization_percent", percent, each=S))
    # Its period may have begun up to a second before.
    assert refuted(builder) == ticks


def test_a_jetsons_load_refutes_nvmls_utilization_only() -> None:
    builder = idle(values={"nvml_utilization_percent": 0.0, SM: 0.0})
    builder.rows["gpu"].append(reading(2, "tegra_gpu_load_percent", 60.0, each=S))
    assert refuted(builder, "nvml_utilization_percent") == set(range(5, 15))
    assert refuted(builder) == set()


def test_what_may_well_be_zero_is_left_alone() -> None:
    builder = idle(
        values={"tensor_percent": 0.0, "pcie_tx_mib_per_s": 0.0, "clock_event_idle": 0.0, SM: 1e-5}
    )
    kernel(builder, 1050)
    answered(builder, 1050, 1950)
    assert all(refuted(builder, metric) == set() for metric in ("tensor_percent", "pcie_tx_mib_per_s", SM))


def test_of_several_gpus_the_canary_speaks_of_the_one_that_it_names() -> None:
    builder = idle()
    builder.rows["gpu"] += [reading(tick, SM, 0.0, "GPU-2") for tick in range(20)]
    kernel(builder, 1050)
    assert refuted(builder) == set()
    kernel(builder, 1050, device="GPU-2")
    marked = mark_implausible(builder.build()).tables["gpu"].to_pylist()
    assert [row["gpu"] for row in marked if row["status"] == STATUS] == ["GPU-2"]


def test_a_marked_recording_stays_as_it_is() -> None:
    builder = idle()
    kernel(builder, 1050)
    once = mark_implausible(builder.build())
    assert mark_implausible(once).tables["gpu"] == once.tables["gpu"]


RUNS = [path for path in sorted((data_dir("fixtures") / "runs").iterdir()) if path.is_dir()]


@pytest.mark.parametrize("path", RUNS, ids=[path.name for path in RUNS])
def test_a_recorded_run_of_a_healthy_gpu_has_none(path: Path) -> None:
    """Some of them have true zeros: before the canary ran, and after it ended."""
    recording = read(path)
    assert mark_implausible(recording) is recording


def test_a_gpu_that_always_reads_zero_says_so_and_its_zeros_are_no_means() -> None:
    builder = good_run(device="gpu")
    for tick in range(215 * 5):
        builder.rows["gpu"] += [reading(tick, metric, value) for metric, value in BOTH.items()]
        builder.rows["gpu"].append(reading(tick, "sm_clock_mhz", 1980.0))
        kernel(builder, tick * 200 + 10)
    summary = judge(builder.build(), JudgeOptions(decision="point"))
    for stage in summary["stages"]:
        assert stage["gpu"][SM] == {"mean": None, "coverage": 0.0}
        assert stage["why"]["gpu.sm_percent.mean"] == "the driver reported 0 while the GPU was at work"
        # The tenants are on no process list here: of DRAM nothing is known to be wrong.
        assert stage["gpu"]["dram_percent"] == {"mean": 0.0, "coverage": 1.0}
        (caveat,) = stage["caveats"]
        assert (caveat["kind"], caveat["sm_percent_share"]) == ("implausible-zeros", 1.0)
        assert "SM use for 100 %" in caveat["text"]
        assert stage["validity"] == "valid"


def test_half_of_a_stage_counts_as_missing() -> None:
    builder = good_run(device="gpu")
    for tick in range(215 * 5):
        builder.rows["gpu"].append(reading(tick, SM, 0.0 if tick < 110 * 5 else 40.0))
        kernel(builder, tick * 200 + 10)
    stages = {stage["name"]: stage for stage in judge(builder.build(), JudgeOptions())["stages"]}
    assert stages["crowd"]["gpu"][SM] == {"mean": 40.0, "coverage": 0.5}
    assert [caveat["sm_percent_share"] for caveat in stages["crowd"]["caveats"]] == [0.5]
