"""What the tests of NVML's readers share: one on a fake library, until the test ends."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from cotenant.observers.gpu_device import GpuDevice, Machine, find_device
from cotenant.observers.gpu_readings import Row, SlowReadings
from cotenant.observers.nvml import Nvml
from cotenant.observers.nvml_open import open_nvml
from cotenant.testing.fake_gpu import FakeGpu
from cotenant.testing.fake_nvml import install
from cotenant.testing.fake_nvml_library import FakeLibrary

BARE = Machine(wsl2=False, nested_pids=False)
CONTAINER = Machine(wsl2=False, nested_pids=True)
WSL2 = Machine(wsl2=True, nested_pids=False)


@contextmanager
def opened(
    *gpus: FakeGpu, missing: tuple[str, ...] = (), library: Callable[..., FakeLibrary] = FakeLibrary
) -> Iterator[Nvml]:
    """NVML over `gpus`, without the C functions in `missing`."""
    with install(library(*gpus, missing=missing)):
        nvml = open_nvml()
        assert isinstance(nvml, Nvml)
        yield nvml
        nvml.close()


@contextmanager
def device(
    gpu: FakeGpu,
    machine: Machine = BARE,
    wanted: str = "0",
    missing: tuple[str, ...] = (),
    library: Callable[..., FakeLibrary] = FakeLibrary,
) -> Iterator[tuple[Nvml, GpuDevice]]:
    """NVML over one GPU, and what was found of it."""
    with ExitStack() as stack:
        nvml = stack.enter_context(opened(gpu, missing=missing, library=library))
        found = find_device(nvml, wanted, {}, machine)
        assert isinstance(found, GpuDevice)
        yield nvml, found


def clock(step_ns: int, start_ns: int = 1000) -> Callable[[], int]:
    """A clock that goes on by `step_ns` each time that it is read."""
    times = iter(range(start_ns, 2**62, step_ns))
    return lambda: next(times)


def by_metric(rows: list[Row]) -> dict[str, tuple[float | None, str]]:
    assert all((row.value is None) == (row.status != "ok") for row in rows)
    assert len({row.metric for row in rows}) == len(rows)
    return {row.metric: (row.value, row.status) for row in rows}


def slow(
    gpu: FakeGpu,
    machine: Machine = BARE,
    gpm: bool = True,
    tenants: Mapping[int, str] | None = None,
    missing: tuple[str, ...] = (),
    wanted: str = "0",
) -> dict[str, tuple[float | None, str]]:
    with device(gpu, machine, wanted, missing) as (nvml, found):
        return by_metric(SlowReadings(nvml, found, lambda: gpm, lambda: tenants or {}).take())
