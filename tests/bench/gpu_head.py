"""The talking head's jobs of the GPU bench: its parts, its sessions, its motion by precision."""

import dataclasses
import time
import traceback
from typing import Any

import numpy as np
import torch

from cotenant.tenants.builtin.runtime import Mode, Runtime
from cotenant.tenants.builtin.shapes.lmdm import LmdmSizes
from tests.bench.gpu_place import Place, Row, mean_ms


def head_sizes(place: Place) -> Any:
    from cotenant.tenants.builtin.shapes import registry

    if not place.small:
        return registry.FACE["ditto"]
    sizes = registry.FACE["tiny"]
    motion = LmdmSizes(**{**dataclasses.asdict(sizes.motion), "steps": 50, "extra": 35})
    return dataclasses.replace(sizes, clip_chunks=2, host_hops=True, motion=motion)


def head(
    place: Place,
    row: Row,
    mode: Mode,
    precision: str | None = None,
    channels_last: tuple[int, ...] = (4,),
) -> None:
    """Parts of the head, then sessions alone: all audio at once (its most), and as fast as it is heard."""
    from cotenant.tenants.builtin import talking_head

    sizes = head_sizes(place)
    began = time.perf_counter()
    runtime = Runtime(device=place.device, mode=mode, step_overhead_ns=0)
    engine = talking_head.build(
        sizes,
        runtime,
        channels_last=channels_last,
        motion_precision=precision or talking_head.MOTION_PRECISION,  # type: ignore[arg-type]
    )
    row["build_s"] = round(time.perf_counter() - began, 1)
    head_parts(place, row, engine)
    at_once(place, row, engine)
    as_heard(place, row, engine)
    engine.close()


def head_parts(place: Place, row: Row, engine: Any) -> None:
    """One part after the other, each waited for."""
    from cotenant.tenants.builtin import talking_head

    steps, times = engine.steps, 2 if place.small else 20
    row["clip_motion_ms"] = round(talking_head.measure_clip_ms(engine, max(2, times // 4)), 3)
    with torch.inference_mode():
        features, shown = steps.blank()
        window = torch.zeros(6480)
        row["encoder_ms"] = mean_ms(place, lambda: steps.encode(window), times)
        motion = steps.begin_motion(features, shown[engine.sizes.clip_chunks * 5 :])
        _, driving = steps.moved(motion)
        row["moved_ms"] = mean_ms(place, lambda: steps.moved(motion), times)
        row["picture_ms"] = mean_ms(place, lambda: steps.picture(driving[0]), times)
        row["picture_to_host_ms"] = mean_ms(place, lambda: steps.picture(driving[0]).cpu(), times)
    row["not_finite"] = int((~torch.isfinite(driving.float())).sum())


def at_once(place: Place, row: Row, engine: Any) -> None:
    """How many frames a second it makes at most: ten seconds of audio that are all there."""
    from cotenant.tenants.builtin import talking_head

    arrived: list[float] = []
    session = talking_head.Session(fps=25, send=lambda item: arrived.append(time.perf_counter()))
    engine.add(session)
    engine.feed(session, np.zeros(16_000 * (1 if place.small else 10), np.int16))
    engine.end(session)
    began = time.perf_counter()
    while engine.step():
        pass
    frames = len(arrived) - 1
    row["first_frame_ms"] = round((arrived[0] - began) * 1e3, 3)
    row["fps_at_most"] = round((frames - 1) / (arrived[-2] - arrived[0]), 1)
    row["gap_at_most_ms"] = round(float(np.diff(arrived[:-1]).max()) * 1e3, 1)


def as_heard(place: Place, row: Row, engine: Any) -> None:
    """The frames of audio that comes 200 ms at a time, in real time: how long a player has to wait."""
    from cotenant.tenants.builtin import talking_head

    arrived: list[float] = []
    session = talking_head.Session(fps=25, send=lambda item: arrived.append(time.perf_counter()))
    engine.add(session)
    began = time.perf_counter()
    for number in range(4 if place.small else 15):
        while time.perf_counter() < began + 0.2 * number:
            if not engine.step():
                time.sleep(0.001)
        engine.feed(session, np.zeros(3_200, np.int16))
    engine.end(session)
    while engine.step():
        pass
    late = [at - began - 0.04 * index for index, at in enumerate(arrived[:-1])]
    row["needs_ahead_ms"] = round(max(late) * 1e3, 1)


def motions(place: Place, row: Row) -> None:
    """A clip's motion by precision and launch structure; each variant's failure is its own."""
    from cotenant.tenants.builtin import head_steps
    from cotenant.tenants.builtin.runtime import prepare, weights

    sizes = head_sizes(place)
    device, _ = prepare(Runtime(device=place.device), 1)
    row["published_clip_ms"], row["pieces"] = 62.0, sizes.motion.pieces
    for precision in ("float32", "tf32", "float16", "bfloat16"):
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        half = precision in ("float16", "bfloat16")
        for mode in ("graphs", "eager"):
            try:
                with weights(device, torch.float32):
                    model = head_steps.motion_model(sizes.motion, sizes.audio.feature).eval()
                model.requires_grad_(False).to(getattr(torch, precision) if half else torch.float32)
                row[f"{precision}_{mode}_ms"] = clip_ms(place, model, sizes, mode == "graphs")
            except Exception:  # noqa: BLE001 - the others are to be told
                row[f"{precision}_{mode}_ms"] = traceback.format_exc()


def clip_ms(place: Place, model: Any, sizes: Any, recorded: bool) -> float:
    from cotenant.tenants.builtin.shapes.graphs import Recorder

    new = sizes.clip_chunks * 5
    with torch.inference_mode(), torch.device(place.device):
        features = torch.zeros(sizes.motion.window, sizes.audio.feature)
        shown = torch.zeros(sizes.motion.window - new, sizes.motion.motion)
        if recorded:
            model.record(Recorder(torch.device(place.device)), new)
        model(features, shown)
        return mean_ms(place, lambda: model(features, shown), 2 if place.small else 4)
