"""What a server's ready line says of its speed: the measured one beside the published one."""

import argparse
from typing import Any

from cotenant.tenants.builtin.runtime import Runtime
from cotenant.tenants.builtin.shapes import published


def of_voice(options: argparse.Namespace, runtime: Runtime, engine: Any) -> dict[str, Any]:
    """A frame's time as measured when the engine was built, beside the published one."""
    if engine.frame_ms is None:
        return {}
    mode = "graphs" if runtime.recorded else "eager"
    published_ms = published.published_frame_ms(options.shape, mode)
    return {
        "mode": mode,
        "voices": engine.sizes.slots,
        "step_overhead_ns": engine.step_overhead_ns,
        "frame_ms": round(engine.frame_ms, 3),  # with the overhead, as its listeners get it
        "published_frame_ms": published_ms,
        "optimistic": published.is_optimistic(engine.frame_ms, published_ms),
    }


def of_head(options: argparse.Namespace, runtime: Runtime, engine: Any) -> dict[str, Any]:
    """A clip's motion as measured when the head was built, beside the published one."""
    if engine.clip_ms is None:
        return {}
    published_ms = published.CLIP_MS.get(options.shape)
    return {
        "mode": "graphs" if runtime.recorded else "eager",
        "step_overhead_ns": engine.step_overhead_ns,
        "clip_ms": round(engine.clip_ms, 3),
        "published_clip_ms": published_ms,
        "optimistic": published.is_optimistic(engine.clip_ms, published_ms),
    }
