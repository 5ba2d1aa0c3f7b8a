"""What is found of a GPU before anything starts, over a fake NVML; a driver that fails has a sentence."""

from collections.abc import Callable
from typing import Any

import pytest

from cotenant.conductor import preflight
from cotenant.conductor.preflight import check_keys, find_device
from cotenant.conductor.prepare import prepare
from cotenant.errors import CouldNotRun, UserError
from cotenant.observers.gpu_device import Machine
from cotenant.scenario.load import load
from cotenant.testing.fake_gpu import FakeGpu
from cotenant.testing.fake_nvml import install
from cotenant.testing.fake_nvml_library import FakeLibrary


class Moded(FakeLibrary):
    """A library that tells the compute mode too."""

    def _nvmlDeviceGetComputeMode(self, _: Any, mode: Any) -> int:
        mode._obj.value = preflight.COMPUTE_EXCLUSIVE
        return 0


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch with CUDA, on bare Linux."""
    monkeypatch.setattr(preflight, "_torch_has_cuda", lambda: True)
    monkeypatch.setattr(preflight, "read_machine", lambda: Machine(wsl2=False, nested_pids=False))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with install(Moded(FakeGpu())):
        device = find_device("auto")
    assert (device.kind, device.name, device.gpu) == ("gpu", "NVIDIA H200", FakeGpu().uuid)
    assert (device.gpu_count, device.compute_mode) == (1, preflight.COMPUTE_EXCLUSIVE)
    assert (device.mig, device.wsl2, device.notes) == (False, False, ())
    assert device.gpu_total_bytes == 150_000_000_000
    assert device.gpu_free_bytes == 60_000_000_000
    monkeypatch.setattr(preflight, "read_machine", lambda: Machine(wsl2=True, nested_pids=False))
    with install(FakeLibrary(FakeGpu())):
        device = find_device("cuda:0")
    assert device.wsl2
    assert device.compute_mode is None  # not told is not the default mode


def test_the_gpu_that_is_named_is_the_one_that_is_looked_at() -> None:
    other = FakeGpu(uuid="GPU-2", name=b"NVIDIA L4")
    with install(FakeLibrary(FakeGpu(), other)):
        assert find_device("GPU-2").name == "NVIDIA L4"
        assert find_device("cuda:1").gpu == "GPU-2"
        assert find_device("cuda:0").gpu_count == 2


def test_a_card_cut_into_slices_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with install(FakeLibrary(FakeGpu(mig_slices=["MIG-1", "MIG-2"]))):
        whole = find_device("cuda:0")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-2")
        part = find_device("cuda:0")
    assert whole.mig
    assert [note.kind for note in whole.notes] == ["mig-on"]
    assert (part.mig, part.gpu) == (True, "MIG-2")
    assert "mig-board" in [note.kind for note in part.notes]


NO_LIBRARY: Callable[[], None] = lambda: None  # noqa: E731


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (NO_LIBRARY, "libnvidia-ml.so.1 was not found; install the NVIDIA driver"),
        (lambda: FakeLibrary(FakeGpu(), init_code=18), "are of different versions; restart the machine"),
        (lambda: FakeLibrary(FakeGpu(), init_code=9), "the NVIDIA driver is not loaded; load it"),
        (lambda: FakeLibrary(FakeGpu(), init_code=15), "nvidia-smi"),
    ],
)
def test_a_driver_that_does_not_work(library: Callable[[], FakeLibrary | None], words: str) -> None:
    with install(library()), pytest.raises(CouldNotRun, match=r"device 'cuda:0'.*--set device=cpu") as error:
        find_device("cuda:0")
    assert words in str(error.value)


def test_without_a_gpu_auto_is_the_cpu_and_a_broken_driver_is_not_passed_over() -> None:
    with install(None):
        assert find_device("auto").note is None
    with install(FakeLibrary(FakeGpu(), init_code=18)):
        device = find_device("auto")
    assert device.kind == "cpu"
    assert device.note is not None
    assert "different versions" in device.note


def test_a_gpu_that_is_not_there_is_the_scenarios_fault() -> None:
    with install(FakeLibrary(FakeGpu())), pytest.raises(UserError, match="GPUs here: GPU-1111"):
        find_device("cuda:3")


KEYS = [f"tenants.{name}.api_key_env={name.upper()}_KEY" for name in ("tts", "head", "llm")]


def test_a_key_that_is_not_set_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TTS_KEY", "HEAD_KEY", "LLM_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError) as error:
        prepare("all-together", ["device=cpu", *KEYS], quick=False)
    assert str(error.value).splitlines() == [
        f"{name.upper()}_KEY is not set; export it with the key for {name} "
        f"(tenants.{name}.api_key_env names it)"
        for name in ("tts", "head", "llm")
    ]
    with pytest.raises(UserError, match=r"^TTS_KEY is empty; export it with the key for tts \("):
        check_keys(load("tts-alone", KEYS[:1]), {"TTS_KEY": " "})


def test_keys_that_are_set_or_are_not_needed_are_no_fault() -> None:
    check_keys(load("all-together", KEYS), {"TTS_KEY": "a", "HEAD_KEY": "b", "LLM_KEY": "c"})
    check_keys(load("tts-alone", ["tenants.spare={kind: speech, api_key_env: SPARE_KEY}"]), {})
