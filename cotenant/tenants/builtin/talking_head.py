"""A talking head made ready to serve: its engine with random weights, warmed and measured."""

import time
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import torch

from cotenant.tenants.builtin.answers import Frame
from cotenant.tenants.builtin.head_engine import HeadEngine
from cotenant.tenants.builtin.head_session import Session
from cotenant.tenants.builtin.head_steps import HeadModel
from cotenant.tenants.builtin.runtime import Runtime, prepare, weights
from cotenant.tenants.builtin.shapes.ditto import FEATURES_PER_CHUNK, HeadSizes

__all__ = ["Frame", "HeadEngine", "Session", "build", "measure_clip_ms", "show_once"]

MotionPrecision = Literal["float32", "tf32", "float16"]
# On a GPU. Ditto's engine of the motion is built for 32-bit floats, whose products TensorRT makes in TF32.
MOTION_PRECISION: Final[MotionPrecision] = "tf32"


def build(
    sizes: HeadSizes,
    runtime: Runtime,
    *,
    channels_last: Sequence[int] = (4,),
    motion_precision: MotionPrecision = MOTION_PRECISION,
) -> HeadEngine:
    """A head with random weights; to be called in the thread that steps it.

    On a GPU the audio's and the motion's parts are in 32-bit floats (the motion's as `motion_precision`
    says) and the picture's in half precision, as Ditto's engines are. Weights of the picture with as many
    axes as `channels_last` names (4 for planes, 5 for volumes) have their channels last. The engine is
    warmed there and its `clip_ms` measured.
    """
    device, dtype = prepare(runtime, sizes.cpu_threads, half="float16")
    torch.backends.cuda.matmul.allow_tf32 = motion_precision != "float32"
    halved = motion_precision == "float16" and device.type != "cpu"
    with weights(device, torch.float32):
        model = HeadModel(sizes, dtype, torch.float16 if halved else torch.float32)
        model.eval().requires_grad_(False)
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
        model.put_channels_last(channels_last)
    overhead_ns = runtime.step_overhead_ns
    if overhead_ns is None:
        overhead_ns = sizes.clip_overhead_ns if runtime.recorded else 0
    engine = HeadEngine(model, recorded=runtime.recorded, step_overhead_ns=overhead_ns)
    if device.type == "cuda":
        show_once(engine)
        engine.clip_ms = measure_clip_ms(engine) + overhead_ns / 1e6
    return engine


def show_once(engine: HeadEngine) -> None:
    """A session of two clips, so that nothing is cold when the first one comes."""
    session = Session(fps=25, send=lambda item: None)
    engine.add(session)
    engine.feed(session, np.zeros(2 * session.clip_samples, np.int16))
    engine.end(session)
    while engine.step():
        pass


def measure_clip_ms(engine: HeadEngine, clips: int = 3) -> float:
    """Mean wall time of a clip's motion alone, in ms, without any overhead; the engine serves nobody."""
    steps, new = engine.steps, engine.sizes.clip_chunks * FEATURES_PER_CHUNK
    with torch.inference_mode():
        features, shown = steps.blank()
        with steps.aside():
            shown = shown[new:]
        began_ns = time.perf_counter_ns()
        for _ in range(clips):
            motion = steps.begin_motion(features, shown)
            for _ in range(engine.sizes.motion.pieces):
                steps.advance(motion)
                steps.wait()
            steps.moved(motion)
        return (time.perf_counter_ns() - began_ns) / clips / 1e6
