"""What the tests of NVML's readers share: one on a fake library, until the test ends."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from cotenant.observers.gpu_device import GpuDevice, Machine, find_device
from cotenant.observers.nvml import Nvml
from cotenant.observers.nvml_open import open_nvml
from cotenant.testing.fake_nvml import install
from cotenant.testing.fake_nvml_library import FakeGpu, FakeLibrary

BARE = Machine(wsl2=False, nested_pids=False)
CONTAINER = Machine(wsl2=False, nested_pids=True)
WSL2 = Machine(wsl2=True, nested_pids=False)


@contextmanager
def opened(
    *gpus: FakeGpu, missing: tuple[str, ...] = (), library: type[FakeLibrary] = FakeLibrary
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
    library: type[FakeLibrary] = FakeLibrary,
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
