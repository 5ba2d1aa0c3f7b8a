"""Launch structure: a fixed chain of kernels recorded once as a CUDA graph and replayed, or launched anew.

The rules of capture (https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs) that callers keep:
inputs and outputs stay where they are, nothing waits for the device, nothing is copied from or to the host,
and all lazy making of plans, rooms and handles has happened in an earlier call.
"""

from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")

_WARM_CALLS = 3


class Recorder:
    """Records calls for one device; all share one pool of memory and one stream's workspaces.

    Sharing is safe in any order of replay because what one call hands to another is held by its caller:
    only what a call uses up inside itself is given to the next. Calls that may run at one time are of
    different recorders. Off CUDA a replay is the call itself, which is how the fixed-shape paths are
    rehearsed there.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def record(self, call: Callable[[], T]) -> Callable[[], T]:
        """A function that does what `call` does, into the same outputs at every replay."""
        call()
        if self._pool is None or self._stream is None:
            return call
        side = self._stream
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):
            for _ in range(_WARM_CALLS):
                call()
        torch.cuda.current_stream(self._device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Other threads of this process may allocate meanwhile without spoiling the capture.
        with torch.cuda.graph(graph, pool=self._pool, stream=side, capture_error_mode="thread_local"):
            out = call()

        def replay() -> T:
            graph.replay()
            return out

        return replay


def buckets(limit: int, first: int = 1) -> list[int]:
    """`first`, doubled while it is below `limit`, and `limit`: the sizes for which calls are recorded."""
    sizes = []
    while first < limit:
        sizes.append(first)
        first *= 2
    return [*sizes, limit]


def bucket(sizes: list[int], needed: int) -> int:
    """The smallest size that holds `needed`. Raises ValueError beyond the last."""
    for size in sizes:
        if size >= needed:
            return size
    raise ValueError(f"{needed} does not fit: calls are recorded up to {sizes[-1]}")
