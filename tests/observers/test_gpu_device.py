"""Which GPU is meant, and what is said about the machine that it is in."""

from pathlib import Path

import pytest

from cotenant.observers.gpu_device import (
    GpuDevice,
    Machine,
    find_device,
    read_machine,
    unified_memory_used_bytes,
)
from cotenant.observers.nvml_open import NvmlTrouble
from cotenant.testing.fake_gpu import FakeGpu
from tests.observers.nvml_rig import BARE, CONTAINER, WSL2, device, opened

A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"
SLICES = ["MIG-11111111-0000-0000-0000-000000000000", "MIG-22222222-0000-0000-0000-000000000000"]


def find(wanted: str, **environ: str) -> GpuDevice | NvmlTrouble:
    with opened(FakeGpu(uuid=A), FakeGpu(uuid=B)) as nvml:
        return find_device(nvml, wanted, environ, BARE)


@pytest.mark.parametrize(
    ("wanted", "visible", "uuid"),
    [
        ("0", None, A), ("1", None, B), (B, None, B), ("GPU-b", None, B),
        ("1", "1", B),  # an NVML index is not renumbered
        ("cuda:0", None, A), ("cuda:1", None, B), ("cuda", None, A),
        ("cuda:0", "1", B), ("cuda:1", "1,0", A), ("cuda:0", " 1 , 0 ", B),
        ("cuda:0", B, B), ("cuda:0", "GPU-bbbb", B), ("cuda:0", "0,-1,1", A),
    ],
)  # fmt: skip
def test_the_gpu_that_is_meant(wanted: str, visible: str | None, uuid: str) -> None:
    found = find(wanted, **({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}))
    assert isinstance(found, GpuDevice)
    assert found.uuid == uuid
    assert found.index == (A, B).index(uuid)


@pytest.mark.parametrize(
    ("wanted", "visible"),
    [
        ("2", None), ("cuda:2", None), ("cuda:x", None), ("GPU-", None), ("GPU-c", None), ("", None),
        ("cuda:1", "1"), ("cuda:0", ""), ("cuda:0", "-1,0"), ("cuda:1", "0,7,1"), ("cuda:0", "NoDevFiles"),
        ("cuda:0", "GPU-c"),
    ],
)  # fmt: skip
def test_no_such_gpu(wanted: str, visible: str | None) -> None:
    found = find(wanted, **({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}))
    assert isinstance(found, NvmlTrouble)
    assert found.kind == "no_device"
    assert wanted != "2" or A in str(found)


def test_an_index_of_cuda_that_may_be_numbered_otherwise_is_said() -> None:
    unsure, sure = find("cuda:1"), find("cuda:1", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert isinstance(unsure, GpuDevice)
    assert isinstance(sure, GpuDevice)
    assert "CUDA_DEVICE_ORDER" in " ".join(note.text for note in unsure.notes)
    assert sure.notes == ()


def test_a_healthy_gpu_has_no_notes() -> None:
    with device(FakeGpu()) as (_, found):
        assert (found.name, found.driver, found.gpm) == ("NVIDIA H200", "580.159.04", True)
        assert (found.gpu_instance, found.unified_memory, found.notes) == (None, False, ())
        assert found.memory_total_bytes == 150_000_000_000


def test_a_slice_of_mig() -> None:
    with device(FakeGpu(mig_slices=SLICES), wanted=SLICES[1]) as (_, found):
        assert (found.uuid, found.gpu_instance, found.index) == (SLICES[1], 2, 0)
        assert (found.name, found.memory_total_bytes) == ("NVIDIA H200", 20_000_000_000)
        assert "whole card" in found.notes[0].text
    with device(FakeGpu(mig_slices=SLICES), wanted="MIG-2") as (_, found):
        assert found.gpu_instance == 2


def test_a_whole_gpu_on_which_mig_is_on_is_said() -> None:
    with device(FakeGpu(mig_slices=SLICES)) as (_, found):
        assert found.mig_slices == tuple(SLICES)
        assert found.gpu_instance is None
        assert SLICES[0] in found.notes[0].text


def test_a_slice_named_by_cuda_visible_devices() -> None:
    with opened(FakeGpu(mig_slices=SLICES)) as nvml:
        found = find_device(nvml, "cuda:0", {"CUDA_VISIBLE_DEVICES": SLICES[0]}, BARE)
    assert isinstance(found, GpuDevice)
    assert found.gpu_instance == 1


@pytest.mark.parametrize(
    "gpu",
    [
        FakeGpu(name=b"NVIDIA GB10", codes={"nvmlDeviceGetMemoryInfo_v2": 3, "nvmlDeviceGetMemoryInfo": 3}),
        FakeGpu(name=b"NVIDIA GB10", memory_total_bytes=0, memory_used_bytes=0),
    ],
    ids=["not supported", "success with zeros"],
)
def test_memory_that_is_the_systems(gpu: FakeGpu) -> None:
    with device(gpu) as (_, found):
        assert found.unified_memory
        assert found.memory_total_bytes is None
        assert "/proc/meminfo" in found.notes[0].text


def test_memory_that_may_not_be_read_is_not_the_systems() -> None:
    with device(FakeGpu(codes={"nvmlDeviceGetMemoryInfo_v2": 4})) as (_, found):
        assert (found.unified_memory, found.memory_total_bytes) == (False, None)


@pytest.mark.parametrize(
    ("gpu", "missing"),
    [
        (FakeGpu(gpm=False), ()),
        (FakeGpu(codes={"nvmlGpmQueryDeviceSupport": 3}), ()),
        (FakeGpu(), ("nvmlGpmQueryDeviceSupport",)),
    ],
    ids=["Ampere", "vGPU", "old driver"],
)
def test_a_gpu_without_gpm_says_so(gpu: FakeGpu, missing: tuple[str, ...]) -> None:
    with device(gpu, missing=missing) as (_, found):
        assert not found.gpm
        assert "GPM" in found.notes[0].text


def test_wsl2_and_containers_are_said() -> None:
    with device(FakeGpu(), WSL2) as (_, found):
        assert "WSL2" in found.notes[0].text
    with device(FakeGpu(), CONTAINER) as (_, found):
        assert "container" in found.notes[0].text


def test_another_reader_of_the_counters_is_said_where_they_are_read(tmp_path: Path) -> None:
    for pid, name in ((7, "nv-hostengine"), (8, "nv-hostengine"), (9, "python3"), (10, "dcgm-exporter")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
    (tmp_path / "11").mkdir()  # it ended meanwhile
    readers = read_machine(tmp_path, tmp_path).counter_readers
    assert readers == ("dcgm-exporter", "nv-hostengine")
    machine = Machine(wsl2=False, nested_pids=False, counter_readers=readers)
    with device(FakeGpu(), machine) as (_, found):
        assert "dcgm-exporter and nv-hostengine" in found.notes[0].text
    with device(FakeGpu(gpm=False), machine) as (_, found):
        assert [note.kind for note in found.notes] == ["no-gpm"]


def test_a_wsl2_kernel_and_a_nested_pid_namespace_are_known(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "sys/kernel/osrelease").write_text("5.15.153.1-microsoft-standard-WSL2\n")
    (tmp_path / "self/ns/pid").symlink_to("pid:[4026531836]")
    assert read_machine(tmp_path, tmp_path) == WSL2
    (tmp_path / "sys/kernel/osrelease").write_text("6.8.0-45-generic\n")
    assert read_machine(tmp_path, tmp_path) == BARE
    (tmp_path / "self/ns/pid").unlink()
    (tmp_path / "self/ns/pid").symlink_to("pid:[4026532281]")
    assert read_machine(tmp_path, tmp_path) == CONTAINER


def test_a_name_that_is_no_text() -> None:
    with device(FakeGpu(name=b"\xff\xfe")) as (_, found):
        assert found.name == "NVIDIA GPU (name unreadable)"


def test_meminfo() -> None:
    text = "MemTotal:       1000 kB\nMemFree:  5 kB\nMemAvailable:    400 kB\nHugePages_Total:    0\nOdd\n"
    assert unified_memory_used_bytes(text) == 600 * 1024
    assert unified_memory_used_bytes("MemTotal: 1000 kB\n") is None
    assert unified_memory_used_bytes("") is None
