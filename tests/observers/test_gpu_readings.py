"""What NVML tells beside GPM, healthy and on every machine that misreports."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from cotenant.observers import gpu_readings
from cotenant.observers.gpu_readings import QuickReadings, SlowReadings
from cotenant.run_dir import manifest, reader
from cotenant.run_dir.writer import RunWriter
from cotenant.scenario.load import load
from cotenant.testing import fake_nvml_library
from cotenant.testing.fake_gpu import FakeGpu
from cotenant.testing.fake_nvml_library import FakeLibrary
from cotenant.verdict.observed import gpu_part
from cotenant.verdict.plan import Plan, Window
from tests.observers.nvml_rig import WSL2, by_metric, clock, device, slow

STEP_NS = 200_000_000
SLICE = "MIG-11111111-0000-0000-0000-000000000000"

_PLAN = Plan(
    scenario=load("tts-alone"), loads={}, stages=(), measured={}, lived={}, faults=(), last_ns=0, has_gpu=True
)


def quick(
    gpu: FakeGpu, missing: tuple[str, ...] = (), wanted: str = "0"
) -> dict[str, tuple[float | None, str]]:
    with device(gpu, wanted=wanted, missing=missing) as (nvml, found):
        readings = QuickReadings(nvml, found, clock(STEP_NS))
        return by_metric(readings.take())


def test_quick_readings_of_a_healthy_gpu() -> None:
    found = quick(FakeGpu(event_reasons=0x4 | 0x40, throttled_share=0))
    assert found == {
        "power_w": (690.0, "ok"), "sm_clock_mhz": (1980.0, "ok"), "memory_clock_mhz": (3201.0, "ok"),
        "memory_used_bytes": (9e10, "ok"), "clock_event_idle": (0.0, "ok"),
        "clock_event_power_cap": (1.0, "ok"), "clock_event_hw_slowdown": (0.0, "ok"),
        "clock_event_sync_boost": (0.0, "ok"), "clock_event_sw_thermal": (0.0, "ok"),
        "clock_event_hw_thermal": (1.0, "ok"), "clock_event_hw_power_brake": (0.0, "ok"),
        "throttle_power_cap_share": (0.0, "ok"), "throttle_sync_boost_share": (0.0, "ok"),
        "throttle_sw_thermal_share": (0.0, "ok"), "throttle_hw_thermal_share": (0.0, "ok"),
        "throttle_hw_power_brake_share": (0.0, "ok"),
    }  # fmt: skip


def test_rows_follow_each_other() -> None:
    with device(FakeGpu()) as (nvml, found):
        readings = QuickReadings(nvml, found, clock(STEP_NS, start_ns=1000))
        first, second = readings.take(), readings.take()
    assert {(row.t0_ns, row.t1_ns) for row in first} == {(1000, 1000 + STEP_NS)}
    assert {(row.t0_ns, row.t1_ns) for row in second} == {(1000 + STEP_NS, 1000 + 2 * STEP_NS)}


def test_a_throttle_counter_is_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with device(FakeGpu()) as (nvml, found):
        counters = iter([1_000_000_000, 1_050_000_000, 1_250_000_000, 5])
        real = nvml.fields

        def fields(*arguments: object) -> dict[int, object]:
            told = real(*arguments)  # type: ignore[arg-type]
            return {**told, 74: told[74]._replace(value=float(next(counters)))}

        monkeypatch.setattr(nvml, "fields", fields)
        readings = QuickReadings(nvml, found, clock(STEP_NS))
        shares = [by_metric(readings.take())["throttle_power_cap_share"] for _ in range(3)]
    assert shares == [(0.25, "ok"), (1.0, "ok"), (None, "stale")]  # the last: the driver started anew


def test_fields_that_a_driver_does_not_have() -> None:
    found = quick(FakeGpu(codes={"field:270": 3, "field:186": 4, "field:74": 999}))
    assert found["throttle_hw_thermal_share"] == (None, "unsupported")
    assert found["power_w"] == (None, "no_permission")
    assert found["throttle_power_cap_share"] == (None, "lost")
    assert found["throttle_sw_thermal_share"] == (0.0, "ok")


def test_an_old_driver_knows_the_event_reasons_by_their_old_name() -> None:
    found = quick(FakeGpu(event_reasons=0x20), missing=("nvmlDeviceGetCurrentClocksEventReasons",))
    assert found["clock_event_sw_thermal"] == (1.0, "ok")
    both = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    assert quick(FakeGpu(), missing=both)["clock_event_sw_thermal"] == (None, "unsupported")


@pytest.mark.parametrize("clock_mhz", [0, 4_000_000_000], ids=["zero", "garbage"])
def test_a_success_with_impossible_values_is_unsupported(clock_mhz: int) -> None:
    # Jetson: some builds answer everything, with nothing in it.
    gpu = FakeGpu(clocks_mhz={1: clock_mhz, 2: clock_mhz}, power_mw=0, memory_used_bytes=2**60)
    found = quick(gpu)
    for metric in ("sm_clock_mhz", "memory_clock_mhz", "power_w", "memory_used_bytes"):
        assert found[metric] == (None, "unsupported")


def test_a_gpu_that_supports_next_to_nothing() -> None:
    codes = dict.fromkeys(
        ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetClockInfo",
         "nvmlDeviceGetFieldValues", "nvmlDeviceGetCurrentClocksEventReasons",
         "nvmlDeviceGetCurrentClocksThrottleReasons"), 3)  # fmt: skip
    found = quick(FakeGpu(codes=codes))
    assert {reading for name, reading in found.items() if name != "unified_memory_used_bytes"} == {
        (None, "unsupported")
    }


def test_unified_memory_is_told_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(name=b"NVIDIA GB10", memory_total_bytes=0, memory_used_bytes=0)
    monkeypatch.setattr(gpu_readings, "_meminfo", lambda: "MemTotal: 100 kB\nMemAvailable: 40 kB\n")
    found = quick(gpu)
    assert found["memory_used_bytes"] == (None, "unsupported")
    assert found["unified_memory_used_bytes"] == (60 * 1024, "ok")
    monkeypatch.setattr(gpu_readings, "_meminfo", lambda: "")
    assert quick(gpu)["unified_memory_used_bytes"] == (None, "unsupported")


def test_a_slice_of_mig_has_memory_and_processes_of_its_own() -> None:
    gpu = FakeGpu(mig_slices=[SLICE], processes=[(1, 70), (2, 5)], slice_processes=[(3, 7)])
    assert quick(gpu, wanted=SLICE)["memory_used_bytes"] == (5e9, "ok")
    assert quick(gpu)["memory_used_bytes"] == (9e10, "ok")
    found = slow(gpu, wanted=SLICE)
    assert (found["processes"], found["foreign_memory_bytes"]) == ((1.0, "ok"), (7.0, "ok"))


def test_a_thor_has_its_utilization_and_no_memory_clock_or_power() -> None:
    codes = dict.fromkeys(
        ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetClockInfo",
         "nvmlDeviceGetFieldValues", "nvmlDeviceGetTotalEnergyConsumption"), 3)  # fmt: skip
    gpu = FakeGpu(name=b"NVIDIA Thor", gpm=False, codes=codes)
    unsupported = (None, "unsupported")
    found = quick(gpu)
    for metric in ("memory_used_bytes", "sm_clock_mhz", "memory_clock_mhz", "power_w"):
        assert found[metric] == unsupported
    told = slow(gpu, gpm=False)
    assert (told["nvml_utilization_percent"], told["energy_power_w"]) == ((39.0, "ok"), unsupported)


def test_a_repeated_power_sample_is_stale_where_the_driver_stamps_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    samples = iter([(7_000.0, 10), (7_000.0, 10), (8_000.0, 20), (8_000.0, 20), (8_000.0, 30)])
    with device(FakeGpu()) as (nvml, found):
        real = nvml.fields

        def fields(*arguments: object) -> dict[int, object]:
            told = real(*arguments)  # type: ignore[arg-type]
            value, stamp_us = next(samples)
            return {**told, 186: told[186]._replace(value=value, stamp_us=stamp_us)}

        monkeypatch.setattr(nvml, "fields", fields)
        readings = QuickReadings(nvml, found, clock(STEP_NS))
        power = [by_metric(readings.take())["power_w"] for _ in range(4)]
    # The stamp of the second is the first's, but none had moved yet: that may be a driver without stamps.
    assert power == [(7.0, "ok"), (8.0, "ok"), (None, "stale"), (8.0, "ok")]


def test_power_without_stamps_is_taken_as_it_is() -> None:
    with device(FakeGpu(power_stamp_frozen=True)) as (nvml, found):
        readings = QuickReadings(nvml, found, clock(STEP_NS))
        assert [by_metric(readings.take())["power_w"] for _ in range(3)] == [(690.0, "ok")] * 3


def test_a_gpu_that_is_gone_has_no_values() -> None:
    gone = dict.fromkeys(
        ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetClockInfo", "nvmlDeviceGetFieldValues",
         "nvmlDeviceGetCurrentClocksEventReasons"), 15)  # fmt: skip
    gpu = FakeGpu()
    with device(gpu) as (nvml, found):
        readings = QuickReadings(nvml, found, clock(STEP_NS))
        assert set(by_metric(readings.take()).values()) != {(None, "lost")}
        gpu.codes |= gone
        assert set(by_metric(readings.take()).values()) == {(None, "lost")}


def test_nvml_utilization_only_where_gpm_is_missing() -> None:
    always = {"energy_power_w", "processes", "foreign_processes", "foreign_memory_bytes", "foreign_changes"}
    assert set(slow(FakeGpu())) == always
    found = slow(FakeGpu(), gpm=False)
    assert found["nvml_utilization_percent"] == (39.0, "ok")
    assert found["nvml_pcie_tx_kb_per_s"] == (1000.0, "ok")
    assert found["nvml_pcie_rx_kb_per_s"] == (1001.0, "ok")


def test_a_gpm_that_reads_zero_is_looked_at_beside_nvmls_own_utilization() -> None:
    library = FakeLibrary(FakeGpu())
    with device(library.gpus[0], library=lambda *_, **__: library) as (nvml, found):
        zero = [False]
        readings = SlowReadings(nvml, found, lambda: True, dict, gpm_reads_zero=lambda: zero[0])
        assert "nvml_utilization_percent" not in by_metric(readings.take())
        zero[0] = True
        told = by_metric(readings.take())
    assert told["nvml_utilization_percent"] == (39.0, "ok")
    assert "nvml_pcie_tx_kb_per_s" not in told
    assert "nvmlDeviceGetPcieThroughput" not in library.calls


def test_utilization_that_cannot_be_had_is_not_zero() -> None:
    mig = slow(FakeGpu(mig_slices=[SLICE]), gpm=False, wanted=SLICE)
    wsl2 = slow(FakeGpu(utilization_percent=0), WSL2, gpm=False)
    assert mig["nvml_utilization_percent"] == wsl2["nvml_utilization_percent"] == (None, "unsupported")
    vgpu = slow(FakeGpu(codes={"nvmlDeviceGetPcieThroughput": 3}), gpm=False)
    assert vgpu["nvml_pcie_tx_kb_per_s"] == (None, "unsupported")
    garbage = slow(FakeGpu(utilization_percent=2**31), gpm=False)
    assert garbage["nvml_utilization_percent"] == (None, "unsupported")


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        (FakeGpu(energy_mj_per_s=700_000), (700.0, "ok")),
        (FakeGpu(codes={"nvmlDeviceGetTotalEnergyConsumption": 3}), (None, "unsupported")),
        (FakeGpu(energy_mj_per_s=-1_000_000), (None, "stale")),
    ],
)
def test_power_by_the_energy_counter(
    gpu: FakeGpu, expected: tuple[float | None, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 5_000_000_000
    monkeypatch.setattr(fake_nvml_library, "time", SimpleNamespace(monotonic_ns=lambda: now_ns))
    with device(gpu) as (nvml, found):
        readings = SlowReadings(nvml, found, lambda: True, lambda: {}, lambda: now_ns)
        for later_ns in (400_000_000, 1_000_000_000):
            now_ns += later_ns
            assert by_metric(readings.take())["energy_power_w"] == expected


def test_the_verdict_reads_these_rows(tmp_path: Path) -> None:
    second_ns = 1_000_000_000
    gpu = FakeGpu()
    writer = RunWriter(tmp_path, "gpu", audio_limit_bytes=None)
    with device(gpu) as (nvml, found):
        readings = QuickReadings(nvml, found, clock(second_ns, start_ns=0))
        for mhz in (1000, 2000, 0, 2000):  # the third is none
            gpu.clocks_mhz[1] = mhz
            for row in readings.take():
                writer.append(
                    "gpu", t0=row.t0_ns, t1=row.t1_ns, gpu=found.uuid, metric=row.metric, value=row.value,
                    status=row.status,
                )  # fmt: skip
    writer.close()
    manifest.write(tmp_path, {"schema": 1, "tool": "cotenant"})
    window = Window(start_ns=second_ns // 2, end_ns=4 * second_ns)
    entry = gpu_part(reader.read(tmp_path), (window,), _PLAN).entry
    assert entry["sm_clock_mhz"]["mean"] == pytest.approx((0.5 * 1000 + 2 * 2000) / 2.5)
    assert entry["sm_clock_mhz"]["coverage"] == pytest.approx(2.5 / 3.5, abs=1e-3)
    assert entry["power_w"] == {"mean": 690.0, "coverage": 1.0}
