"""What is published of the models behind the shapes, and how a measured shape compares with it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

OPTIMISTIC_BELOW: Final = 0.85  # of the published time


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """`frame_ms` by mode: one frame's dependent steps for one voice, without the codec, on its host."""

    parameters: float
    frame_ms: Mapping[str, float] = field(default_factory=dict)


# Times on an RTX 4090, from faster-qwen3-tts 0.5.4 (graphs of talker and predictor; its eager baseline).
# 0.6B: 15.0 to 15.2 ms a step, told; 0.82 of real time eager, hence 80 ms / 0.82.
# 1.7B: 4.22 of real time with the codec, 80 / 4.22 = 18.9 ms a frame; 0.6B's 4.78 is 16.7 ms, of which 15.0
# are the step, so the codec takes 1.7 ms and 17.2 ms are left. No eager figure.
SPEECH: Final[Mapping[str, Published]] = {
    "qwen3-tts-0.6b": Published(parameters=906e6, frame_ms={"graphs": 15.0, "eager": 97.6}),
    "qwen3-tts-1.7b": Published(parameters=1917e6, frame_ms={"graphs": 17.2}),
}


# A clip's motion of 50 steps with two forwards each, told by Ditto's maintainers: 62 ms for 80 frames with
# TensorRT, tested on an A100.
CLIP_MS: Final[Mapping[str, float]] = {"ditto": 62.0}


def published_frame_ms(shape: str, mode: str) -> float | None:
    """The published time of a frame of this voice; None where none is known."""
    return SPEECH[shape].frame_ms.get(mode) if shape in SPEECH else None


def is_optimistic(measured_ms: float | None, published_ms: float | None) -> bool | None:
    """Whether a stand-in is so much faster than the model that it would bear more than the model does.

    True under 85 % of the published time; None where one of the two is not known.
    """
    if measured_ms is None or published_ms is None:
        return None
    return measured_ms < OPTIMISTIC_BELOW * published_ms


def fitted_overhead_ns(measured_ms: float, published_ms: float) -> int:
    """Host time a step that brings a shape measured without any to its published time; never below 0."""
    return max(0, round((published_ms - measured_ms) * 1e6))
