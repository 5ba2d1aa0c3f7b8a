"""Memory by process and the processes of others, where pids are lists of the host, of MPS or of nobody."""

import os

from cotenant.observers.gpu_readings import SlowReadings
from cotenant.testing.fake_gpu import FakeGpu
from tests.observers.nvml_rig import CONTAINER, WSL2, by_metric, device, slow

# Beyond what this machine gives out; the parent may well be process 1.
SECOND = 2_999_998
TENANTS = {os.getpid(): "llm", SECOND: "llm", 2_999_999: "tts"}


def test_memory_by_process_is_the_sum_of_a_tenants_own() -> None:
    gpu = FakeGpu(processes=[(os.getpid(), 70), (SECOND, 5), (1, 1000), (0, 9), (2**32 - 1, 9)])
    # A tenant that is not on this GPU has no row: its memory there is not known to be 0.
    assert memory(slow(gpu, tenants=TENANTS)) == {"llm": (75.0, "ok")}
    assert memory(slow(gpu)) == {}


def memory(readings: dict[str, tuple[float | None, str]]) -> dict[str, tuple[float | None, str]]:
    prefix = "process_memory_bytes/"
    return {name.removeprefix(prefix): value for name, value in readings.items() if name.startswith(prefix)}


def test_processes_that_are_none_of_the_runs_are_counted() -> None:
    gpu = FakeGpu(processes=[(os.getpid(), 70), (SECOND, 5), (0, 9)], mps_processes=[(1, 2)])
    found = slow(gpu, tenants=TENANTS)
    assert found["processes"] == (3.0, "ok")
    assert found["foreign_processes"] == (1.0, "ok")
    assert found["foreign_memory_bytes"] == (2.0, "ok")
    assert slow(gpu)["foreign_processes"] == (3.0, "ok")
    assert slow(FakeGpu(), tenants=TENANTS)["foreign_processes"] == (0.0, "ok")
    for name in ("processes", "foreign_processes", "foreign_memory_bytes", "foreign_changes"):
        assert slow(FakeGpu(), CONTAINER)[name] == (None, "unsupported")


def test_a_process_that_holds_more_than_there_is_is_none() -> None:
    found = slow(FakeGpu(memory_total_bytes=100, memory_used_bytes=50, processes=[(1, 101), (2, 100)]))
    assert (found["processes"], found["foreign_memory_bytes"]) == ((1.0, "ok"), (100.0, "ok"))


def test_one_that_came_while_another_went_is_two_changes() -> None:
    gpu = FakeGpu(processes=[(1, 70)])
    with device(gpu) as (nvml, found):
        readings = SlowReadings(nvml, found, lambda: True, dict, own_of=lambda pids: {3} & set(pids))
        assert by_metric(readings.take())["foreign_changes"] == (0.0, "ok")
        gpu.processes = [(2, 70), (3, 5)]
        now = by_metric(readings.take())
        assert (now["foreign_changes"], now["foreign_processes"]) == ((2.0, "ok"), (1.0, "ok"))
        # What cannot be read is no change, and the next one that can has nothing to compare with.
        gpu.codes["nvmlDeviceGetComputeRunningProcesses_v3"] = 15
        assert by_metric(readings.take())["foreign_changes"] == (None, "lost")
        gpu.codes.clear()
        gpu.processes = []
        assert by_metric(readings.take())["foreign_changes"] == (0.0, "ok")


def test_a_foreign_process_of_unknown_size_makes_the_sum_unknown() -> None:
    found = slow(FakeGpu(processes=[(1, 70), (2, 2**64 - 1)]))
    assert found["foreign_processes"] == (2.0, "ok")
    assert found["foreign_memory_bytes"] == (None, "unsupported")


def test_clients_of_mps_are_listed_apart() -> None:
    gpu = FakeGpu(processes=[(1, 30)], mps_processes=[(os.getpid(), 70)])
    assert memory(slow(gpu, tenants=TENANTS)) == {"llm": (70.0, "ok")}
    found = slow(
        gpu, tenants=TENANTS, missing=tuple(f"nvmlDeviceGetMPSComputeRunningProcesses_v{n}" for n in (2, 3))
    )
    assert memory(found) == {}


def test_a_tenant_that_left_the_gpu_has_lost_its_memory() -> None:
    gpu = FakeGpu(processes=[(os.getpid(), 70)])
    with device(gpu) as (nvml, found):
        readings = SlowReadings(nvml, found, lambda: True, lambda: TENANTS)
        assert memory(by_metric(readings.take())) == {"llm": (70.0, "ok")}
        gpu.processes = [(1, 5)]
        assert memory(by_metric(readings.take())) == {"llm": (None, "lost")}


def test_pids_of_the_host_in_a_container_match_no_tenant() -> None:
    # One of the host's pids happens to be a tenant's here; the other does not exist at all.
    gpu = FakeGpu(processes=[(os.getpid(), 70), (2**31 - 7, 5)])
    unsupported = {"llm": (None, "unsupported"), "tts": (None, "unsupported")}
    assert memory(slow(gpu, CONTAINER, tenants=TENANTS)) == unsupported
    assert memory(slow(FakeGpu(processes=[]), CONTAINER, tenants=TENANTS)) == unsupported
    assert memory(slow(FakeGpu(processes=[]), WSL2, tenants=TENANTS)) == unsupported
    # A container whose driver translates them.
    assert memory(slow(FakeGpu(processes=[(os.getpid(), 70)]), CONTAINER, tenants=TENANTS)) == {
        "llm": (70.0, "ok")
    }


def test_a_driver_that_keeps_sizes_to_itself() -> None:
    gpu = FakeGpu(processes=[(os.getpid(), 2**64 - 1)])
    assert memory(slow(gpu, tenants=TENANTS)) == {"llm": (None, "unsupported")}


def test_the_second_form_of_the_process_list_serves_old_drivers() -> None:
    gpu = FakeGpu(processes=[(os.getpid(), 70)])
    newest = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3")
    assert memory(slow(gpu, tenants=TENANTS, missing=newest)) == {"llm": (70.0, "ok")}
    second = ("nvmlDeviceGetComputeRunningProcesses_v2",)
    found = slow(gpu, tenants=TENANTS, missing=newest + second)
    assert memory(found) == {"llm": (None, "unsupported"), "tts": (None, "unsupported")}


def test_a_process_list_that_may_not_be_read() -> None:
    gpu = FakeGpu(codes={"nvmlDeviceGetComputeRunningProcesses_v3": 4})
    assert memory(slow(gpu, tenants={1: "llm"})) == {"llm": (None, "no_permission")}
