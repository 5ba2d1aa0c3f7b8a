"""How a built-in server's process uses torch: device, precision, threads, seed, launch structure."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from cotenant.errors import CouldNotRun

if TYPE_CHECKING:
    import torch

Mode = Literal["graphs", "eager"]
_LATE_NS: Final = 100_000  # a sleep is late by about this on an idle core


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Where and how an engine computes; `threads` are torch's, None for the shape's own number.

    `mode` None records CUDA graphs on a GPU and launches each operation elsewhere. `step_overhead_ns` is
    host time that each engine step (of a head: each clip) spends besides its own, None for the shape's
    fitted number.
    """

    device: str = "cpu"
    threads: int | None = None
    seed: int = 7
    mode: Mode | None = None
    step_overhead_ns: int | None = None

    @property
    def recorded(self) -> bool:
        """Whether fixed-shape calls are recorded and replayed."""
        return (self.mode or ("eager" if self.device == "cpu" else "graphs")) == "graphs"


def before_torch() -> None:
    """Settings that must stand before torch is first imported.

    Idle threads of torch's pool sleep at once: a pool that spins would take the CPU from the co-tenants and
    from itself, which is no contention that a service under test would show.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")


def prepare(
    runtime: Runtime, cpu_threads: int, half: Literal["bfloat16", "float16"] = "bfloat16"
) -> "tuple[torch.device, torch.dtype]":
    """Sets torch up in the calling thread. Returns the device and the precision for it.

    32-bit floats on a CPU: half precision is fast only where a CPU has matrix units for it. Raises
    CouldNotRun where the device is not there.
    """
    import torch

    torch.set_num_threads(runtime.threads or cpu_threads)
    device = torch.device(runtime.device)
    if device.type == "cuda":
        if not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count():
            raise CouldNotRun(
                f"torch {torch.__version__} finds no {runtime.device}; see nvidia-smi, or take --device cpu"
            )
        torch.cuda.set_device(device)
        # Its plans are made anew for each length of a growing sequence, which no engine would accept.
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(runtime.seed)
    return device, torch.float32 if device.type == "cpu" else getattr(torch, half)


@contextmanager
def weights(device: "torch.device", dtype: "torch.dtype") -> Iterator[None]:
    """While it lasts, modules are made on the device and in the precision, with no copy from elsewhere."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            yield
    finally:
        torch.set_default_dtype(before)


def explained(error: BaseException) -> BaseException:
    """CouldNotRun in place of a CUDA allocation that failed, and anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(error, torch.cuda.OutOfMemoryError):
        return error
    return CouldNotRun(
        f"the GPU's memory is full ({str(error).splitlines()[0]}); leave more to this server, "
        "or give it fewer --voices or a smaller --shape"
    )


def spend_host_time(duration_ns: int) -> None:
    """Lets at least this much time pass in the calling thread; the others of the process and the GPU go on.

    It sleeps, which is late by about 0.1 ms, and goes through the last part with the interpreter given up
    again and again, so that no other thread waits for it.
    """
    if duration_ns <= 0:
        return
    end_ns = time.perf_counter_ns() + duration_ns
    if duration_ns > _LATE_NS:
        time.sleep((duration_ns - _LATE_NS) / 1e9)
    while time.perf_counter_ns() < end_ns:
        time.sleep(0)
