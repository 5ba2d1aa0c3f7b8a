"""A fake libnvidia-ml under the real binding: GPUs as data, and every way in which real ones misbehave.

The functions take ctypes arguments as the C library does, so that pynvml's own structures and errors are
exercised. `install(library)` puts one under pynvml until the context ends. `python -m
cotenant.testing.fake_nvml JSON MODULE [arguments]` runs a module over one in this process; JSON holds fields
of `FakeGpu`, and `{}` is a healthy GPU.
"""

import contextlib
import json
import runpy
import sys
from collections.abc import Iterator

import pynvml

from cotenant.testing.fake_gpu import FakeGpu
from cotenant.testing.fake_nvml_library import FakeLibrary


@contextlib.contextmanager
def install(library: FakeLibrary | None) -> Iterator[FakeLibrary | None]:
    """Puts `library` under pynvml; None is a machine without libnvidia-ml."""
    kept = pynvml.nvmlLib, dict(pynvml._nvmlGetFunctionPointer_cache), pynvml.CDLL
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    if library is None:
        pynvml.CDLL = _no_library
    try:
        yield library
    finally:
        pynvml.nvmlLib, cache, pynvml.CDLL = kept
        pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml._nvmlGetFunctionPointer_cache.update(cache)


def _no_library(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file")


def main() -> None:
    """Runs a module over a fake GPU."""
    given, module, *arguments = sys.argv[1:]
    fields = json.loads(given)
    missing, init_code = tuple(fields.pop("missing", ())), fields.pop("init_code", 0)
    for name in ("gpm_values", "clocks_mhz"):
        if name in fields:
            fields[name] = {int(key): value for key, value in fields[name].items()}
    if "name" in fields:
        fields["name"] = fields["name"].encode()
    sys.argv = [module, *arguments]
    with install(FakeLibrary(FakeGpu(**fields), missing=missing, init_code=init_code)):
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
