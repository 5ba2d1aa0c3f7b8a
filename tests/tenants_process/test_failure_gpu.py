"""What a service says when the GPU, its driver or its memory fails it: each has a sentence of its own."""

from pathlib import Path

import pytest

from cotenant.tenants.failure import advice
from cotenant.tenants.log_tail import log_tail

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "139.80 GiB of which 1.05 GiB is free. Process 451 has 84.00 GiB memory in use."
)
CASES = {
    "memory": (OOM, "is full (1.05 GiB of 139.80 GiB free) when it asked for 2.00 GiB more; give this"),
    "memory-of-the-driver": ("RuntimeError: CUDA error: out of memory", "the GPU's memory is full; give"),
    "cublas-memory": (
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling",
        "the GPU's memory is full; give",
    ),
    "too-little-free": (
        "ValueError: Free memory on device cuda:0 (53.1/139.8 GiB) on startup is less than desired GPU "
        "memory utilization (0.6, 83.88 GiB). Decrease GPU memory utilization",
        "53.1 of 139.8 GiB are free on device cuda:0 and it asks for 83.88; lower gpu_memory_utilization "
        "from 0.6 to at most 0.37",
    ),
    "nothing-free": (
        "ValueError: Free memory on device cuda:0 (0.3/139.8 GiB) on startup is less than desired GPU memory "
        "utilization (0.6, 83.88 GiB). Decrease",
        "lower gpu_memory_utilization from 0.6, fix the cache",
    ),
    "profiling": (
        "AssertionError: Error in memory profiling. Initial free memory 80.11 GiB, current free memory 84.5 "
        "GiB. This happens when other processes sharing the same container release GPU memory",
        "a neighbour released some meanwhile. Start vLLM when all others have settled",
    ),
    "mps-server": (
        "torch.AcceleratorError: CUDA error: the remote procedural call between the MPS server and the MPS "
        "client failed",
        "the MPS daemon or its server has ended",
    ),
    "exclusive": (
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "exclusive-process mode, or an MPS daemon of somebody else",
    ),
    "no-library": (
        "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
        "finds no NVIDIA driver library; install the driver",
    ),
    "no-nvml": (
        "pynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found",
        "no NVIDIA driver library",
    ),
    "mismatch": (
        "Failed to initialize NVML: Driver/library version mismatch",
        "of different versions, as after an upgrade; restart the machine",
    ),
    "old-driver": (
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).",
        "too old for the CUDA that this service was built with",
    ),
    "other-gpu": (
        "CUDA error: no kernel image is available for execution on the device",
        "built for other GPUs",
    ),
    "lost": (
        "pynvml.NVMLError_GpuIsLost: GPU is lost",
        "the GPU, or its driver, has failed it (NVMLError_GpuIsLost)",
    ),
    "xid": (
        "NVRM: Xid (PCI:0000:1b:00): 79, pid=4, GPU has fallen off the bus.",
        "the GPU, or its driver, has failed it",
    ),
    "unknown": ("RuntimeError: CUDA error: unknown error", "has failed it (CUDA error: unknown error); see"),
    "kernel": (
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "one of its kernels failed (an illegal memory access was encountered)",
    ),
    "cublas": (
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(`",
        "one of its kernels failed (CUBLAS_STATUS_EXECUTION_FAILED)",
    ),
    "none-visible": ("RuntimeError: No CUDA GPUs are available", "CUDA_VISIBLE_DEVICES names a GPU"),
}


@pytest.mark.parametrize(("said", "words"), CASES.values(), ids=CASES)
def test_a_fault_of_the_gpu_says_what_to_do(said: str, words: str, tmp_path: Path) -> None:
    log = f"loading\n(EngineCore pid=7) ERROR 11-30 07:00:00 [x.py:2] {said}\nEngineDeadError\nends\n"
    assert words in (advice(log) or "")
    (tmp_path / "llm.log").write_text(log, encoding="utf-8")
    assert log_tail(tmp_path, "llm").startswith(f"\nllm: {advice(log)}\n")


def test_every_fault_has_a_sentence_of_its_own() -> None:
    told = {name: advice(said) for name, (said, _) in CASES.items()}
    same = [{"memory-of-the-driver", "cublas-memory"}, {"no-library", "no-nvml"}]
    for name, sentence in told.items():
        twins = {other for other, text in told.items() if text == sentence}
        assert twins == {name} or twins in same
