"""For a process with this folder on its path: faster-qwen3-tts runs there on the CPU, see `cuda_graphs`."""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class _Finder:
    """Finds faster-qwen3-tts as ever, and changes it once it is loaded."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As an importer's."""
        spec = PathFinder.find_spec(name, path, target) if name == "faster_qwen3_tts" else None
        if spec is not None and spec.loader is not None:
            loader, load = spec.loader, spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                from tests.tenants.real_models import cuda_graphs

                cuda_graphs.install()

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Finder())
