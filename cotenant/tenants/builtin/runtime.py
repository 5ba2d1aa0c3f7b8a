"""How a built-in server's process uses torch: device, precision, threads, seed."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Where and how an engine computes; `threads` are torch's, None for the shape's own number."""

    device: str = "cpu"
    threads: int | None = None
    seed: int = 7


def before_torch() -> None:
    """Settings that must stand before torch is first imported.

    Idle threads of torch's pool sleep at once: a pool that spins would take the CPU from the co-tenants and
    from itself, which is no contention that a service under test would show.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")


def prepare(runtime: Runtime, cpu_threads: int) -> "tuple[torch.device, torch.dtype]":
    """Sets torch up in the calling thread. Returns the device and the precision for it.

    32-bit floats on a CPU: half precision is fast only where a CPU has matrix units for it.
    """
    import torch

    torch.set_num_threads(runtime.threads or cpu_threads)
    torch.manual_seed(runtime.seed)
    device = torch.device(runtime.device)
    return device, torch.float32 if device.type == "cpu" else torch.bfloat16
