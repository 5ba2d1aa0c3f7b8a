"""The GPU observer as a process, over a fake GPU: what it says, writes and leaves."""

import itertools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cotenant.observers import gpu
from cotenant.observers.gpm import METRICS
from cotenant.observers.gpu_readings import QuickReadings
from cotenant.observers.kin import Kin
from cotenant.run_dir import manifest, reader
from cotenant.run_dir.writer import RunWriter
from cotenant.testing.fake_gpu import FakeGpu
from cotenant.testing.fake_nvml import install
from cotenant.testing.fake_nvml_library import FakeLibrary
from tests.observers.nvml_rig import device
from tests.observers.processes import Observer, observing

UUID = "GPU-11111111-2222-3333-4444-555555555555"
FAKE = "cotenant.testing.fake_nvml"
MODULE = "cotenant.observers.gpu"


def values(observer: Observer, metric: str) -> list[tuple[float | None, str]]:
    return [(row["value"], row["status"]) for row in observer.rows("gpu") if row["metric"] == metric]


def test_a_real_process_records_until_it_is_told_to_end(tmp_path: Path) -> None:
    fake = json.dumps({"processes": [[os.getpid(), 70]]})
    arguments = ("--gpu", UUID, "--pids", f"me={os.getpid()}", "--period-ms", "120")
    with observing(tmp_path, FAKE, fake, MODULE, *arguments) as observer:
        assert observer.ready["ready"] is True
        assert (observer.ready["gpu"], observer.ready["gpm"]) == (UUID, True)
        observer.until(lambda: len(values(observer, "energy_power_w")) >= 2)
        seen = len(observer.rows("gpu"))
        assert observer.end() == 0
    rows = observer.rows("gpu")
    assert len(rows) >= seen
    assert {row["gpu"] for row in rows} == {UUID}
    assert all((row["value"] is None) == (row["status"] != "ok") for row in rows)
    assert set(METRICS.values()) <= {row["metric"] for row in rows}
    assert set(values(observer, "sm_percent")) == {(40.0, "ok")}
    windows = sorted((row["t0"], row["t1"]) for row in rows if row["metric"] == "dram_percent")
    assert all(end - start >= 110_000_000 for start, end in windows)
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(windows))
    assert "nvml_utilization_percent" not in {row["metric"] for row in rows}
    latencies = {row["metric"] for row in observer.rows("host") if row["source"] == "gpu-observer"}
    assert {"nvmlGpmSampleGet_ns", "nvmlDeviceGetFieldValues_ns", "tick_lag_ns"} <= latencies
    whole = (tmp_path / f"tables/gpu/{UUID}.arrows").read_bytes()
    assert whole.endswith(b"\xff\xff\xff\xff\0\0\0\0")


def test_gpm_that_ends_in_mid_run_gives_way_to_nvml_utilization(tmp_path: Path) -> None:
    fake = json.dumps({"fails_after": {"nvmlGpmSampleGet": [4, 4]}})
    with observing(tmp_path, FAKE, fake, MODULE, "--gpu", "0", "--period-ms", "120") as observer:
        observer.until(lambda: len(values(observer, "nvml_utilization_percent")) >= 1)
        assert observer.end() == 0
    told = values(observer, "sm_percent")
    assert told[:3] == [(40.0, "ok")] * 3
    assert set(told[3:]) == {(None, "lost")}
    assert set(values(observer, "nvml_utilization_percent")) == {(39.0, "ok")}


@pytest.mark.parametrize(
    ("fake", "wanted", "kind"),
    [({"init_code": 18}, "0", "mismatch"), ({"init_code": 9}, "0", "no_driver"), ({}, "3", "no_device")],
)
def test_what_it_says_where_there_is_nothing_to_observe(
    tmp_path: Path, fake: dict[str, Any], wanted: str, kind: str
) -> None:
    with observing(tmp_path, FAKE, json.dumps(fake), MODULE, "--gpu", wanted) as observer:
        assert observer.process.wait(timeout=30) == 5
        assert observer.ready["ready"] is False
        assert observer.ready["kind"] == kind
        assert observer.ready["message"]
        assert observer.ready["advice"]


def test_a_machine_without_the_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with install(None):
        assert gpu.main(["--run-dir", str(tmp_path)]) == 5
    assert json.loads(capsys.readouterr().out)["kind"] == "no_library"


def test_windows_that_gpm_cannot_measure_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        gpu.main(["--run-dir", str(tmp_path), "--period-ms", "100"])
    assert caught.value.code == 2
    assert "at least 110 ms" in capsys.readouterr().err


def test_a_gpu_that_hangs_loses_no_rows_and_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, release, stop = threading.Event(), threading.Event(), threading.Event()
    monkeypatch.setattr(gpu, "_JOIN_S", 0.05)

    class Hanging(FakeLibrary):
        def _nvmlDeviceGetClockInfo(self, handle: Any, kind: Any, mhz: Any) -> int:
            if self.calls.count("nvmlDeviceGetClockInfo") > 4:  # two ticks
                hanging.set()
                release.wait(30)
            return super()._nvmlDeviceGetClockInfo(handle, kind, mhz)

    manifest.write(tmp_path, {"schema": 1, "tool": "cotenant"})
    writer = RunWriter(tmp_path, "gpu", audio_limit_bytes=None)
    with device(FakeGpu(), library=Hanging) as (nvml, found):
        observing = threading.Thread(
            target=gpu.observe, args=(nvml, found, writer, Kin({}), 110_000_000, stop), daemon=True
        )
        observing.start()
        assert hanging.wait(30)
        stop.set()
        observing.join(timeout=30)
        assert not observing.is_alive()
        assert not nvml.close(within_s=0)
        writer.close()
        release.set()
    rows = reader.read(tmp_path).tables["gpu"].to_pylist()
    assert len([row for row in rows if row["metric"] == "sm_clock_mhz"]) == 2


def test_a_fault_of_our_own_in_a_thread_ends_the_observer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> list[Any]:
        raise ZeroDivisionError

    monkeypatch.setattr(QuickReadings, "take", broken)
    writer = RunWriter(tmp_path, "gpu", audio_limit_bytes=None)
    with device(FakeGpu()) as (nvml, found):
        with pytest.raises(ZeroDivisionError):
            gpu.observe(nvml, found, writer, Kin({}), 110_000_000, threading.Event())
        writer.close()


def test_slow_calls_are_made_on_a_thread_that_times_nothing() -> None:
    library = FakeLibrary(FakeGpu(gpm=False))
    stop = threading.Event()
    with device(library.gpus[0], library=lambda *_, **__: library) as (nvml, found):
        sampler = gpu.Sampler(nvml, found, Kin({"me": os.getpid()}), 110_000_000, stop)
        seen: set[str] = set()
        while "nvml_utilization_percent" not in seen:
            seen |= {row.metric for row in sampler.rows.get(timeout=30)}
        stop.set()
        sampler.join()
    slow = {
        "nvmlDeviceGetPcieThroughput",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetTotalEnergyConsumption",
    }
    assert slow <= library.callers["slow"]
    assert not library.callers["quick"] & slow


def test_pids_of_a_tenant_are_its_whole_tree_and_those_of_all_its_replicas() -> None:
    kin = Kin({"me@0": os.getpid(), "me@1": os.getppid(), "gone": 2**31 - 9})
    assert kin.tenants()[os.getpid()] == "me"
    assert set(kin.tenants().values()) == {"me"}
    assert Kin({}).tenants() == {}


def test_what_descends_from_the_run_is_its_own_and_stays_so() -> None:
    kin = Kin({}, os.getpid())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert kin.own([child.pid, os.getpid(), os.getppid()]) == {child.pid, os.getpid()}
        child.communicate(b"\n")
    assert kin.own([child.pid]) == {child.pid}
    assert Kin({}).own([os.getpid()]) == set()
