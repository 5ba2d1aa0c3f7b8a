"""GPM's windows: their times, what is missing in them, and a loss in mid-run that never reads as 0."""

import ctypes
from typing import Any

import pytest

from cotenant.observers.gpm import METRICS, MIN_WINDOW_NS, Gpm, Window
from cotenant.testing.fake_gpu import FakeGpu
from cotenant.testing.fake_nvml_library import FakeLibrary
from tests.observers.nvml_rig import clock, device

SLICE = "MIG-11111111-0000-0000-0000-000000000000"
ALL = set(METRICS.values())


class Clock:
    """Goes on by 2 ns at each look, and by what is slept."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += 2
        return self.now_ns


def windows(gpu: FakeGpu, count: int, wanted: str = "0", missing: tuple[str, ...] = ()) -> list[Window]:
    now = Clock()
    with device(gpu, wanted=wanted, missing=missing) as (nvml, found):
        gpm = Gpm(nvml, found, now)
        closed = []
        for _ in range(count):
            now.now_ns += 200_000_000
            window = gpm.close_window()
            assert window is not None
            closed.append(window)
        gpm.close()
        return closed


def statuses(window: Window) -> set[str]:
    assert set(window.readings) == ALL
    assert all((reading.value is None) == (reading.status != "ok") for reading in window.readings.values())
    return {reading.status for reading in window.readings.values()}


def test_windows_follow_each_other_and_hold_every_metric() -> None:
    values = {2: 40.0, 3: 20.5, 5: 0.0, 10: 14.0, 20: 5000.0, 21: 7.0}
    first, second = windows(FakeGpu(gpm_values=values), 2)
    assert first.end_ns == second.start_ns
    assert first.end_ns - first.start_ns >= 200_000_000
    assert {name: reading.value for name, reading in first.readings.items()} == {
        "sm_percent": 40.0, "sm_occupancy_percent": 20.5, "tensor_percent": 0.0, "dram_percent": 14.0,
        "pcie_tx_mib_per_s": 5000.0, "pcie_rx_mib_per_s": 7.0,
    }  # fmt: skip


def test_a_window_that_would_be_too_short_goes_on() -> None:
    now = Clock()
    with device(FakeGpu()) as (nvml, found):
        gpm = Gpm(nvml, found, now)
        start_ns = now.now_ns
        now.now_ns += MIN_WINDOW_NS - 20
        assert gpm.close_window() is None
        now.now_ns += 100_000_000
        window = gpm.close_window()
        assert window is not None
        assert window.start_ns < start_ns
        assert window.end_ns - window.start_ns > MIN_WINDOW_NS + 90_000_000


def test_whether_the_last_window_had_nothing_at_work() -> None:
    now, gpu = Clock(), FakeGpu()
    with device(gpu) as (nvml, found):
        gpm = Gpm(nvml, found, now)
        seen = [gpm.reads_zero]
        for value, code in ((0.0, 0), (1e-7, 0), (0.0, 3)):
            gpu.gpm_values[2], gpu.codes["gpm:2"] = value, code
            now.now_ns += 200_000_000
            gpm.close_window()
            seen.append(gpm.reads_zero)
    assert seen == [False, True, False, False]


def test_the_two_buffers_take_turns() -> None:
    pairs = []

    class Watched(FakeLibrary):
        def _nvmlGpmMetricsGet(self, request: Any) -> int:
            older, newer = (
                ctypes.cast(sample, ctypes.c_void_p).value or 0
                for sample in (request._obj.sample1, request._obj.sample2)
            )
            assert self.sampled_ns[older] < self.sampled_ns[newer]
            pairs.append((older, newer))
            return super()._nvmlGpmMetricsGet(request)

    now = Clock()
    with device(FakeGpu(), library=Watched) as (nvml, found):
        gpm = Gpm(nvml, found, now)
        for _ in range(4):
            now.now_ns += 200_000_000
            gpm.close_window()
    assert pairs == [(1, 2), (2, 1), (1, 2), (2, 1)]


def test_not_a_number_and_impossible_shares_are_stale() -> None:
    values = {2: 140.0, 3: -1.0, 5: 100.4, 10: float("nan"), 20: 1e6, 21: float("inf")}
    (window,) = windows(FakeGpu(gpm_values=values), 1)
    told = {name: reading.status for name, reading in window.readings.items()}
    assert told == {
        "sm_percent": "stale", "sm_occupancy_percent": "stale", "tensor_percent": "ok",
        "dram_percent": "stale", "pcie_tx_mib_per_s": "ok", "pcie_rx_mib_per_s": "stale",
    }  # fmt: skip


def test_a_metric_that_the_driver_leaves_alone_is_not_the_one_before() -> None:
    class Forgetful(FakeLibrary):
        def _nvmlGpmMetricsGet(self, request: Any) -> int:
            if self.calls.count("nvmlGpmMetricsGet") == 2:
                request._obj.numMetrics = 1
            code = super()._nvmlGpmMetricsGet(request)
            request._obj.numMetrics = len(METRICS)
            return code

    now, told = Clock(), []
    with device(FakeGpu(), library=Forgetful) as (nvml, found):
        gpm = Gpm(nvml, found, now)
        for _ in range(3):
            now.now_ns += 200_000_000
            window = gpm.close_window()
            assert window is not None
            told.append((window.readings["sm_percent"].status, window.readings["dram_percent"].status))
    assert told == [("ok", "ok"), ("ok", "lost"), ("ok", "ok")]


def test_a_metric_that_this_gpu_does_not_count() -> None:
    (window,) = windows(FakeGpu(codes={"gpm:5": 3}), 1)
    assert window.readings["tensor_percent"] == (None, "unsupported")
    assert window.readings["sm_percent"] == (40.0, "ok")


@pytest.mark.parametrize(
    ("gpu", "missing", "status"),
    [
        (FakeGpu(gpm=False), (), "unsupported"),
        (FakeGpu(), ("nvmlGpmQueryDeviceSupport",), "unsupported"),
        (FakeGpu(), ("nvmlGpmSampleAlloc",), "unsupported"),
        (FakeGpu(codes={"nvmlGpmSampleGet": 4}), (), "no_permission"),
        (FakeGpu(codes={"nvmlGpmSampleGet": 15}), (), "lost"),
    ],
)
def test_gpm_that_never_was(gpu: FakeGpu, missing: tuple[str, ...], status: str) -> None:
    for window in windows(gpu, 2, missing=missing):
        assert statuses(window) == {status}


@pytest.mark.parametrize("code", [4, 3, 15, 999])
def test_gpm_lost_in_mid_run_is_lost_and_never_zero(code: int) -> None:
    # The first sample is taken before the first window.
    gpu = FakeGpu(fails_after={"nvmlGpmSampleGet": (3, code)})
    told = [statuses(window) for window in windows(gpu, 4)]
    assert told == [{"ok"}, {"ok"}, {"lost"}, {"lost"}]


def test_a_gap_ends_with_the_second_good_sample() -> None:
    now, told = Clock(), []
    gpu = FakeGpu()
    with device(gpu) as (nvml, found):
        gpm = Gpm(nvml, found, now)
        for code in (0, 4, 4, 0, 0):
            gpu.codes["nvmlGpmSampleGet"] = code
            now.now_ns += 200_000_000
            window = gpm.close_window()
            assert window is not None
            told.append((statuses(window), gpm.delivers))
    assert told == [({"ok"}, True), ({"lost"}, False), ({"lost"}, False), ({"lost"}, True), ({"ok"}, True)]


def test_the_metrics_of_a_gpu_that_fell_off_the_bus() -> None:
    first, second = windows(FakeGpu(fails_after={"nvmlGpmMetricsGet": (1, 15)}), 2)
    assert (statuses(first), statuses(second)) == ({"ok"}, {"lost"})


def test_a_slice_of_mig_is_sampled_by_its_instance() -> None:
    (window,) = windows(FakeGpu(mig_slices=[SLICE], codes={"nvmlGpmSampleGet": 3}), 1, wanted=SLICE)
    assert statuses(window) == {"ok"}


def test_the_time_of_a_sample_is_the_middle_of_its_call() -> None:
    with device(FakeGpu()) as (nvml, found):
        gpm = Gpm(nvml, found, clock(MIN_WINDOW_NS, start_ns=0))
        # Read at the start, around the first sample (1, 2), for the length, around the second (4, 5).
        window = gpm.close_window()
    assert window is not None
    assert (window.start_ns, window.end_ns) == (3 * MIN_WINDOW_NS // 2, 9 * MIN_WINDOW_NS // 2)
