"""What a log says when the GPU, its driver or its memory fails a service, each with what to do. Pure."""

import math
import re
from collections.abc import Callable
from typing import Final

Sentence = str | Callable[[re.Match[str]], str]

_LESS: Final = (
    "give this service or its neighbours less (a lower gpu_memory_utilization, a smaller "
    "kv_cache_memory_bytes, fewer replicas, a smaller model)"
)
_SIZE: Final = r"[\d.]+ [KMGT]?i?B"


def _less_free(match: re.Match[str]) -> str:
    device, free, total, share, wanted = match.groups()
    fits = math.floor(float(free) / float(total) * 100) / 100 if float(total) else 0.0
    # The last digit is another process's.
    lower = f"from {share} to at most {fits:.2f}" if fits >= 0.01 else f"from {share}"
    return (
        f"{free} of {total} GiB are free on {device} and it asks for {wanted}; lower gpu_memory_utilization "
        f"{lower}, fix the cache with kv_cache_memory_bytes, or let the other services hold less"
    )


def _out_of_memory(match: re.Match[str]) -> str:
    tried, total, free = match.groups()
    state = f" ({free} of {total} free)" if free and total else ""
    more = f" when it asked for {tried} more" if tried else ""
    return f"the GPU's memory is full{state}{more}; {_LESS}"


# In front of the table of servers' own faults: the GPU's is the cause of those. A number is a group.
KNOWN: Final[tuple[tuple[str, Sentence], ...]] = (
    (
        r"(?:Free|Available) memory on (\S+ ?\S*) \(([\d.]+)/([\d.]+) GiB\) on startup is less than desired "
        r"\S+ memory utilization \(([\d.]+), ([\d.]+) GiB\)",
        _less_free,
    ),
    (
        r"Error in memory profiling\. Initial free memory ([\d.]+) GiB, current free memory ([\d.]+) GiB",
        "memory became free while it measured its own ({1} GiB before, {2} after): a neighbour released some "
        "meanwhile. Start vLLM when all others have settled and start or end nothing until it is ready (here "
        "every vLLM is started last: look for a process of somebody else's), then run again",
    ),
    (
        r"(?:CUDA out of memory|CUDA error: out of memory|OutOfMemoryError|"
        r"CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED|"
        rf"cudaErrorMemoryAllocation)(?:.*?Tried to allocate ({_SIZE}))?"
        rf"(?:.*?total capacity of ({_SIZE}) of which ({_SIZE}) is free)?",
        _out_of_memory,
    ),
    (
        r"the remote procedural call between the MPS server and the MPS client failed|cudaErrorMps\w+|"
        r"CUDA_ERROR_MPS_\w+|[Tt]he client was terminated by MPS",
        "the MPS daemon or its server has ended, and with it all of its clients: a fatal fault of one of "
        "them takes the others along. See which failed first in the logs, and what logs/own/mps.log says",
    ),
    (
        r"CUDA-capable device\(s\) is/are busy|all CUDA-capable devices are busy|cudaErrorDevicesUnavailable",
        "the GPU refuses one more process: it is in exclusive-process mode, or an MPS daemon of somebody "
        "else holds it; end that process (nvidia-smi names it), or set the mode back "
        "(sudo nvidia-smi -c DEFAULT)",
    ),
    (
        r"lib(?:cuda|nvidia-ml)\.so(?:\.1)?: cannot open shared object file|NVML Shared Library Not Found|"
        r"NVMLError_LibraryNotFound|Found no NVIDIA driver on your system",
        "it finds no NVIDIA driver library; install the driver, or start the container with its GPUs "
        "(docker run --gpus all)",
    ),
    (
        r"Driver/library version mismatch|NVMLError_LibRmVersionMismatch|unsupported display driver / "
        r"cuda driver combination|cudaErrorSystemDriverMismatch",
        "the NVIDIA driver in the kernel and its libraries are of different versions, as after an upgrade; "
        "restart the machine, or reload the driver",
    ),
    (
        r"CUDA driver version is insufficient|NVIDIA driver on your system is too old",
        "the NVIDIA driver is too old for the CUDA that this service was built with; install a newer driver, "
        "or a build for an older CUDA",
    ),
    (
        r"no kernel image is available for execution",
        "it was built for other GPUs than this one; install a build that names this GPU's compute capability",
    ),
    (
        r"GPU is lost|NVMLError_GpuIsLost|fallen off the bus|Xid \([^)]*\): (?:79|74|48|95)\b|"
        r"no CUDA-capable device is detected|CUDA error: unknown error|cudaErrorUnknown|CUDA_ERROR_UNKNOWN|"
        r"uncorrectable ECC error",
        "the GPU, or its driver, has failed it ({0}); see `dmesg | grep -i xid` and whether nvidia-smi still "
        "shows the GPU, then restart the machine or reset the GPU. What was recorded until then stays",
    ),
    (
        r"(?:CUDA error: )?(an illegal memory access was encountered|unspecified launch failure|"
        r"device-side assert triggered|misaligned address|an illegal instruction was encountered|"
        r"CU(?:BLAS|DNN)_STATUS_EXECUTION_FAILED)",
        "one of its kernels failed ({1}), and its CUDA context with it; under MPS that ends all clients of "
        "the daemon. It is a fault of the service, the GPU, or what shares a daemon with it: see "
        "`dmesg | grep -i xid`, then start it again",
    ),
    (
        r"No CUDA GPUs are available",
        "it sees no GPU; see that nvidia-smi answers and that CUDA_VISIBLE_DEVICES names a GPU",
    ),
)  # fmt: skip
