"""Where a job of the GPU benches runs, and how it takes its times."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import torch

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a job runs: the device, and whether in small sizes."""

    device: str
    small: bool

    @property
    def gpu(self) -> bool:
        return self.device != "cpu"


def wait(place: Place) -> None:
    if place.gpu:
        torch.cuda.synchronize()


def mean_ms(place: Place, work: Callable[[], object], times: int) -> float:
    wait(place)
    began = time.perf_counter()
    for _ in range(times):
        work()
    wait(place)
    return round((time.perf_counter() - began) / times * 1e3, 3)
