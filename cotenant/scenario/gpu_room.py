"""How much of a GPU's memory is left for an LLM beside its neighbours, and which built-in one fits. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

_GIB: Final = 2**30
# Seen on an H200 for each process: weights, caches, CUDA graphs and the CUDA context.
_PROCESS_BYTES: Final[Mapping[str, int]] = {"speech": 4 * _GIB, "face": 3 * _GIB}
# What must be free for each built-in LLM: weights, its whole KV cache and a few GB of workspace.
LLM_BYTES: Final[Mapping[str, int]] = {
    "llm-30b-a3b": 80_000_000_000,
    "llm-8b": 36_000_000_000,
    "tiny": _GIB,
}


def neighbours_bytes(tenants: Iterable[Mapping[str, Any]], device: str) -> int:
    """What the built-in voices and heads on this device take, by the plain form of the tenants."""
    return sum(
        _PROCESS_BYTES.get(tenant["kind"], 0) * int(tenant.get("replicas", 1))
        for tenant in tenants
        if tenant.get("device", device) == device and tenant["engine"] in ("builtin", "auto")
    )


def builtin_llm(room_bytes: int | None, *, servers: int = 1) -> str | None:
    """The largest built-in LLM of which `servers` fit into the room; None where the room is not known."""
    if room_bytes is None:
        return None
    return next((shape for shape, need in LLM_BYTES.items() if need * servers <= room_bytes), "tiny")
