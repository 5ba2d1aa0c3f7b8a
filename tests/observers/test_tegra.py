"""A Jetson's load from a sysfs tree: where it lies, what it says, and that it is nobody else's."""

from pathlib import Path

import pytest

from cotenant.observers.gpu_device import Machine, read_machine
from cotenant.observers.gpu_readings import QuickReadings, SlowReadings
from cotenant.observers.tegra import METRIC, find_load, read_load
from cotenant.testing.fake_gpu import FakeGpu
from tests.observers.nvml_rig import by_metric, device

_CALLS = (
    "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetFieldValues", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetPcieThroughput", "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)  # fmt: skip
NAMED_ONLY = dict.fromkeys(_CALLS, 3)


def orin(**changes: object) -> FakeGpu:
    """As JetPack 6 and 7.2 show it: a name, and nothing else."""
    fields: dict[str, object] = {"name": b"Orin (nvgpu)", "gpm": False, "codes": dict(NAMED_ONLY)}
    return FakeGpu(**{**fields, **changes})  # type: ignore[arg-type]


def devfreq(sysfs: Path, entry: str, kind: str, compatible: str, load: str | None) -> Path:
    """A devfreq device with its node of the device tree."""
    place = sysfs / "class/devfreq" / entry / "device"
    (place / "of_node").mkdir(parents=True)
    (place / "of_node/name").write_bytes(kind.encode() + b"\0")
    (place / "of_node/compatible").write_bytes(compatible.encode() + b"\0nothing\0")
    if load is not None:
        (place / "load").write_text(load)
    return place / "load"


def at(sysfs: Path, place: str, load: str = "437\n") -> Path:
    path = sysfs / place / "load"
    path.parent.mkdir(parents=True)
    path.write_text(load)
    return path


@pytest.mark.parametrize(
    "place", ["devices/gpu.0", "devices/platform/gpu.0", "devices/platform/bus@0/17000000.gpu"]
)
def test_the_places_of_each_board(tmp_path: Path, place: str) -> None:
    path = at(tmp_path, place)
    assert find_load(tmp_path) == path
    assert read_machine(tmp_path).tegra_load == path
    assert read_load(path) == (43.7, "ok")


def test_the_devfreq_class_names_it_and_another_makers_gpu_is_none(tmp_path: Path) -> None:
    devfreq(tmp_path, "13000000.gpu", "gpu", "arm,mali-valhall-csf", "1000\n")
    devfreq(tmp_path, "15340000.vic", "vic", "nvidia,tegra234-vic", "900\n")
    devfreq(tmp_path, "16000000.gpu", "gpu", "nvidia,ga10b", None)
    (tmp_path / "class/devfreq/odd").mkdir()
    assert find_load(tmp_path) is None
    path = devfreq(tmp_path, "17000000.ga10b", "ga10b", "nvidia,ga10b", "12\n")
    assert find_load(tmp_path) == path
    assert read_load(path) == (1.2, "ok")


def test_a_machine_that_is_no_jetson_has_none(tmp_path: Path) -> None:
    assert find_load(tmp_path) is None
    assert read_machine(tmp_path).tegra_load is None


@pytest.mark.parametrize("text", ["", "-1\n", "1001\n", "99999999999\n", "busy\n", "43.7\n", "\u0664\n"])
def test_what_is_no_share_of_a_thousand_is_no_load(tmp_path: Path, text: str) -> None:
    assert read_load(at(tmp_path, "devices/gpu.0", text)) == (None, "unsupported")


def test_nothing_and_all_are_loads(tmp_path: Path) -> None:
    path = at(tmp_path, "devices/gpu.0", "0\n")
    assert read_load(path) == (0.0, "ok")
    path.write_text("1000\n")
    assert read_load(path) == (100.0, "ok")


def test_a_file_that_is_gone_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = at(tmp_path, "devices/gpu.0")
    path.unlink()
    assert read_load(path) == (None, "lost")
    path.mkdir()
    assert read_load(path) == (None, "lost")

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", refuse)
    assert read_load(path) == (None, "no_permission")


@pytest.mark.parametrize(
    "gpu", [orin(), orin(name=b"\xff"), orin(codes={})], ids=["orin", "no name", "garbage"]
)
def test_a_jetson_is_known_by_its_name_or_by_its_memory(tmp_path: Path, gpu: FakeGpu) -> None:
    machine = Machine(wsl2=False, nested_pids=False, tegra_load=at(tmp_path, "devices/gpu.0"))
    with device(gpu, machine) as (_, found):
        assert found.tegra_load == machine.tegra_load


def test_a_jetsons_load_has_a_name_of_its_own_and_nothing_else_is_made_up(tmp_path: Path) -> None:
    path = at(tmp_path, "devices/platform/gpu.0")
    machine = Machine(wsl2=False, nested_pids=False, tegra_load=path)
    with device(orin(), machine) as (nvml, found):
        assert "no SM use" in next(note.text for note in found.notes if note.kind == "jetson")
        readings = SlowReadings(nvml, found, lambda: False, dict)
        slow = by_metric(readings.take())
        path.write_text("999\n")
        assert by_metric(readings.take())[METRIC] == (99.9, "ok")
        quick = by_metric(QuickReadings(nvml, found).take())
    assert slow.pop(METRIC) == (43.7, "ok")
    assert not {name for name in (*slow, *quick) if name.startswith(("sm_percent", "sm_occupancy"))}
    assert slow["nvml_utilization_percent"] == (None, "unsupported")
    del quick["unified_memory_used_bytes"]  # of this machine
    assert {*slow.values(), *quick.values()} == {(None, "unsupported")}


def test_a_board_that_answers_everything_with_garbage(tmp_path: Path) -> None:
    path = at(tmp_path, "devices/gpu.0")
    garbage = orin(
        codes={}, memory_used_bytes=2**60, power_mw=0, utilization_percent=2**31,
        clocks_mhz={1: 0, 2: 4_000_000_000}, processes=[(0, 5), (2**32 - 1, 2**60)],
    )  # fmt: skip
    with device(garbage, Machine(wsl2=False, nested_pids=False, tegra_load=path)) as (nvml, found):
        told = by_metric(SlowReadings(nvml, found, lambda: False, dict).take())
    assert told[METRIC] == (43.7, "ok")
    assert told["nvml_utilization_percent"] == (None, "unsupported")
    assert told["processes"] == (0.0, "ok")


def test_a_card_beside_a_jetsons_own_gpu_and_one_with_gpm_do_not_get_its_load(tmp_path: Path) -> None:
    machine = Machine(wsl2=False, nested_pids=False, tegra_load=at(tmp_path, "devices/gpu.0"))
    for gpu in (FakeGpu(name=b"NVIDIA RTX A2000", gpm=False), FakeGpu()):
        with device(gpu, machine) as (nvml, found):
            assert "jetson" not in {note.kind for note in found.notes}
            assert METRIC not in by_metric(SlowReadings(nvml, found, lambda: False, dict).take())
