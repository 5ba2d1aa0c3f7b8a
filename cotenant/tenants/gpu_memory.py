"""A built-in server for which the GPU's memory did not do, told by its log, with what to lower. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_FULL_RE: Final = re.compile(
    r"CUDA out of memory|CUDA error: out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED|"
    r"CUDNN_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation"
)
_TRIED_RE: Final = re.compile(r"Tried to allocate ([\d.]+ [KMGT]?i?B)")
_FREE_RE: Final = re.compile(r"total capacity of ([\d.]+ [KMGT]?i?B) of which ([\d.]+ [KMGT]?i?B) is free")


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """What a log tells of memory that ran out, as PyTorch words the sizes; None: not told."""

    tried: str | None
    free: str | None
    total: str | None


def full(log: str) -> Full | None:
    """How the GPU's memory ran out by this log; None where it did not."""
    if _FULL_RE.search(log) is None:
        return None
    tried, free = _TRIED_RE.search(log), _FREE_RE.search(log)
    return Full(
        tried=tried[1] if tried else None, free=free[2] if free else None, total=free[1] if free else None
    )


def sentence(identifier: str, shape: str, found: Full, knobs: Sequence[str]) -> str:
    """Which server did not fit, what was free, and what to lower."""
    state = f": {found.free} of {found.total} were free" if found.free and found.total else ""
    state += f" when it asked for {found.tried} more" if state and found.tried else ""
    choices = [*knobs, "a lower gpu_memory_utilization of a vLLM that is there already"]
    return (
        f"{identifier} ({shape}) does not fit into the GPU's memory{state}; use {', '.join(choices[:-1])}, "
        f"or {choices[-1]} (nvidia-smi shows who holds what)"
    )
