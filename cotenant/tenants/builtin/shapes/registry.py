"""The sizes by kind of server and name of shape."""

from collections.abc import Mapping
from typing import Final, TypeVar

from cotenant.errors import UserError
from cotenant.tenants.builtin.shapes import released, tiny
from cotenant.tenants.builtin.shapes.decoder_llm import LlmSizes
from cotenant.tenants.builtin.shapes.ditto import HeadSizes
from cotenant.tenants.builtin.shapes.qwen3_tts import TtsSizes

SPEECH: Final[Mapping[str, TtsSizes]] = {
    "tiny": tiny.TTS,
    "qwen3-tts-0.6b": released.QWEN3_TTS_0_6B,
    "qwen3-tts-1.7b": released.QWEN3_TTS_1_7B,
}
FACE: Final[Mapping[str, HeadSizes]] = {"tiny": tiny.HEAD, "ditto": released.DITTO}
COMPLETIONS: Final[Mapping[str, LlmSizes]] = {
    "tiny": tiny.LLM,
    "llm-8b": released.LLM_8B,
    "llm-30b-a3b": released.LLM_30B_A3B,
}

_Sizes = TypeVar("_Sizes")


def find(shapes: Mapping[str, _Sizes], name: str) -> _Sizes:
    """The sizes of that name; raises UserError that lists the names there are."""
    if name not in shapes:
        raise UserError(f"no built-in shape is called {name!r}; there is {', '.join(sorted(shapes))}")
    return shapes[name]
