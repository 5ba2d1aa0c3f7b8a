"""The choke point: whatever NVML and its binding do, a value with a status comes back."""

import sys
import threading
import types
from typing import Any

import pynvml
import pytest

from cotenant.observers.nvml import Nvml, Reading, valid_processes
from cotenant.observers.nvml_open import NvmlTrouble, open_nvml
from cotenant.testing.fake_gpu import FakeGpu
from cotenant.testing.fake_nvml import install
from cotenant.testing.fake_nvml_library import FakeLibrary
from tests.observers.nvml_rig import opened

CALL = "nvmlDeviceGetTotalEnergyConsumption"


def handle_of(nvml: Nvml) -> Any:
    return nvml.call("nvmlDeviceGetHandleByIndex", 0).value


@pytest.mark.parametrize(
    ("code", "status"),
    [(2, "unsupported"), (3, "unsupported"), (4, "no_permission"), (6, "stale"), (10, "stale"),
     (13, "unsupported"), (15, "lost"), (16, "lost"), (21, "stale"), (25, "unsupported"), (999, "lost"),
     (12345, "lost")],
)  # fmt: skip
def test_each_code_of_the_library_is_a_status(code: int, status: str) -> None:
    with opened(FakeGpu(codes={CALL: code})) as nvml:
        assert nvml.call(CALL, handle_of(nvml)) == (None, status)


def test_a_call_that_works_and_how_long_it_took() -> None:
    with opened(FakeGpu(clocks_mhz={1: 1980})) as nvml:
        nvml.take_latencies()
        assert nvml.call("nvmlDeviceGetClockInfo", handle_of(nvml), 1) == (1980, "ok")
        latencies = nvml.take_latencies()
        assert set(latencies) == {"nvmlDeviceGetHandleByIndex", "nvmlDeviceGetClockInfo"}
        assert all(took_ns >= 0 for took_ns in latencies.values())
        assert nvml.take_latencies() == {}


def test_a_function_that_the_driver_does_not_have() -> None:
    with opened(FakeGpu(), missing=(CALL,)) as nvml:
        assert nvml.call(CALL, handle_of(nvml)) == (None, "unsupported")


def test_a_function_that_the_binding_does_not_have() -> None:
    with opened(FakeGpu()) as nvml:
        assert nvml.call("nvmlDeviceGetSomethingOfTheFuture", handle_of(nvml)) == (None, "unsupported")


def test_the_mismatch_error_is_no_nvml_error_and_is_caught() -> None:
    assert not issubclass(pynvml.NVMLLibraryMismatchError, pynvml.NVMLError)
    name = "nvmlDeviceGetComputeRunningProcesses"
    with opened(FakeGpu(), missing=(name + "_v3",)) as nvml:
        with pytest.raises(pynvml.NVMLLibraryMismatchError):
            pynvml.nvmlDeviceGetComputeRunningProcesses(handle_of(nvml))
        assert nvml.call(name, handle_of(nvml)) == (None, "unsupported")


def test_samples_that_are_not_there_yet_are_stale_and_no_failure() -> None:
    with opened(FakeGpu()) as nvml:
        handle = handle_of(nvml)
        assert nvml.call("nvmlDeviceGetSamples", handle, 1, 0) == (None, "stale")
        with pytest.raises(pynvml.NVMLError) as caught:  # the binding makes an error of a success
            pynvml.nvmlDeviceGetProcessUtilization(handle, 0)
        assert caught.value.value == 0
        assert nvml.call("nvmlDeviceGetProcessUtilization", handle, 0) == (None, "stale")


def test_names_as_text_as_bytes_and_as_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(FakeGpu(name=b"NVIDIA \xff\xfe")) as nvml:
        handle = handle_of(nvml)
        with pytest.raises(UnicodeDecodeError):
            pynvml.nvmlDeviceGetName(handle)
        assert nvml.call("nvmlDeviceGetName", handle) == (None, "unsupported")
        assert nvml.text("nvmlDeviceGetName", handle) is None
        monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda _: b"NVIDIA \xff")  # releases before 11.515
        assert nvml.text("nvmlDeviceGetName", handle) == "NVIDIA �"


def test_memory_of_a_driver_without_the_second_form() -> None:
    with opened(FakeGpu(memory_used_bytes=5), missing=("nvmlDeviceGetMemoryInfo_v2",)) as nvml:
        memory, status = nvml.memory(handle_of(nvml))
        assert (memory.used, status) == (5, "ok")
    with opened(FakeGpu(codes={"nvmlDeviceGetMemoryInfo_v2": 4})) as nvml:
        assert nvml.memory(handle_of(nvml)) == (None, "no_permission")  # and not the first form's answer


def test_each_field_has_its_own_status_and_type() -> None:
    with opened(FakeGpu(power_mw=5000, codes={"field:74": 3, "field:269": 4})) as nvml:
        fields = nvml.fields(handle_of(nvml), (186, 74, 269, 270))
    assert [(field.value, field.status) for field in fields.values()] == [
        (5000.0, "ok"), (None, "unsupported"), (None, "no_permission"), (0.0, "ok"),
    ]  # fmt: skip


def test_a_field_is_read_by_its_own_type() -> None:
    # The counter is 64 bits wide, the power 32.
    with opened(FakeGpu(throttled_share=1e3, power_mw=7)) as nvml:
        fields = nvml.fields(handle_of(nvml), (186, 74))
    assert fields[186].value == 7
    assert (fields[74].value or 0) > 2**32


def test_fields_of_a_gpu_that_is_gone() -> None:
    with opened(FakeGpu(codes={"nvmlDeviceGetFieldValues": 15})) as nvml:
        assert {field.status for field in nvml.fields(handle_of(nvml), (186, 74)).values()} == {"lost"}


def test_processes_of_a_scrambled_list() -> None:
    def process(pid: int, used_bytes: int | None) -> Any:
        return types.SimpleNamespace(pid=pid, usedGpuMemory=used_bytes)

    # As drivers 535.43 to 535.98 gave them; then one whose size the driver keeps to itself (WDDM).
    scrambled = [process(1184, 10), process(0, 5), process(2**32 - 1, 5), process(2**32 - 1, None)]
    absurd = [process(7, 101), process(8, None), process(9, 2**64 - 1), process(10, 100)]
    assert valid_processes(scrambled, 100) == [(1184, 10)]
    assert valid_processes(absurd, 100) == [(8, None), (9, None), (10, 100)]
    assert valid_processes([process(7, 101)], None) == [(7, 101)]


def test_after_the_end_no_call_reaches_the_library() -> None:
    library = FakeLibrary(FakeGpu())
    with install(library):
        nvml = open_nvml()
        assert isinstance(nvml, Nvml)
        handle = handle_of(nvml)
        assert nvml.close()
        before = list(library.calls)
        assert nvml.call(CALL, handle) == (None, "lost")
        assert library.calls == before


def test_the_shutdown_waits_for_a_call_in_flight() -> None:
    entered, release = threading.Event(), threading.Event()

    class SlowLibrary(FakeLibrary):
        def _nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, energy: Any) -> int:
            entered.set()
            release.wait(10)
            energy._obj.value = 7
            return 0

    library = SlowLibrary(FakeGpu())
    with install(library):
        nvml = open_nvml()
        assert isinstance(nvml, Nvml)
        handle, found = handle_of(nvml), []
        caller = threading.Thread(target=lambda: found.append(nvml.call(CALL, handle)))
        caller.start()
        assert entered.wait(10)
        assert not nvml.close(within_s=0)  # it hangs: the library is left as it is
        assert "nvmlShutdown" not in library.calls
        release.set()
        caller.join()
        assert nvml.close()
    assert found == [Reading(7, "ok")]
    assert library.shutdown_while_in_flight is False


def trouble(library: FakeLibrary | None, binding: str = "pynvml") -> NvmlTrouble:
    with install(library):
        found = open_nvml(binding)
    assert isinstance(found, NvmlTrouble)
    assert found.advice
    return found


@pytest.mark.parametrize(
    ("library", "kind", "words"),
    [
        (None, "no_library", "libnvidia-ml.so.1"),
        (FakeLibrary(FakeGpu(), init_code=18), "mismatch", "different versions"),
        (FakeLibrary(FakeGpu(), init_code=9), "no_driver", "not loaded"),
        (FakeLibrary(FakeGpu(), init_code=4), "no_permission", "refuses"),
        (FakeLibrary(FakeGpu(), init_code=999), "failed", "Unknown Error"),
        (FakeLibrary(FakeGpu(), missing=("nvmlInitWithFlags",)), "mismatch", "nvidia-ml-py"),
        (FakeLibrary(), "no_device", "no GPU"),
    ],
)
def test_why_there_is_no_nvml(library: FakeLibrary | None, kind: str, words: str) -> None:
    found = trouble(library)
    assert found.kind == kind
    assert words in str(found)


@pytest.mark.parametrize("contents", [{}, {"nvmlInit": len}])
def test_another_package_under_the_same_name(
    contents: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("not_pynvml")
    vars(module).update(contents)
    monkeypatch.setitem(sys.modules, "not_pynvml", module)
    assert trouble(FakeLibrary(FakeGpu()), "not_pynvml").kind == "no_binding"


def test_no_binding_at_all() -> None:
    assert trouble(FakeLibrary(FakeGpu()), "no_such_module").kind == "no_binding"
