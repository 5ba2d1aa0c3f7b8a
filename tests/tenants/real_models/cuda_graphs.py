"""Runs faster-qwen3-tts 0.5.4, which wants CUDA, on the CPU: its own code, its graphs replayed eagerly.

`torch.cuda` is another one in its modules alone, and `replay` calls what was captured once more, on the same
static buffers. Nothing else of it or of qwen-tts is changed.
"""

import importlib
import sys
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Final, Literal

import torch

MODULES: Final = ("model", "streaming", "generate", "predictor_graph", "talker_graph")


class _Cpu(str):
    """A device's name that it takes for a GPU's, and torch for the CPU's."""

    __slots__ = ()

    def startswith(self, *_prefix: Any) -> bool:
        """Its only question."""
        return True


class _Graph:
    """What was captured."""

    def __init__(self) -> None:
        self.step: Callable[[], Any] | None = None

    def replay(self) -> None:
        """Calls it again."""
        assert self.step is not None, "nothing was captured"
        self.step()


class _Capture:
    """`with torch.cuda.graph(graph):`, which stands in a method of the object whose step is captured."""

    def __init__(self, graph: _Graph) -> None:
        self._graph = graph

    def __enter__(self) -> None:
        owner = sys._getframe(1).f_locals["self"]
        self._graph.step = owner._full_loop if hasattr(owner, "_full_loop") else owner._decode_step

    def __exit__(self, *_error: object) -> Literal[False]:
        return False


class _Torch:
    """torch, with another `cuda`."""

    def __init__(self) -> None:
        stream = SimpleNamespace(wait_stream=lambda other: None)
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            current_device=lambda: 0,
            synchronize=lambda: None,
            Stream=lambda: stream,
            current_stream=lambda: stream,
            stream=lambda stream: nullcontext(),
            device=lambda index: nullcontext(),
            CUDAGraph=_Graph,
            graph=_Capture,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def install() -> None:
    """Once, before a model is made."""
    stand_in = _Torch()
    for name in MODULES:
        importlib.import_module(f"faster_qwen3_tts.{name}").__dict__["torch"] = stand_in
    make = importlib.import_module("faster_qwen3_tts").FasterQwen3TTS.from_pretrained.__func__
    assert make.__defaults__[0] == "cuda"
    make.__defaults__ = (_Cpu("cpu"), *make.__defaults__[1:])
    torch.set_num_threads(1)
