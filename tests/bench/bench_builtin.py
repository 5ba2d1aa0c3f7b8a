"""How fast the built-in engines are: run by hand, `python -m tests.bench.bench_builtin`, on a quiet machine.

CPU time stands beside wall time: on a machine that does other work, only the first says what the engine
costs. Then the same with parts of the voice, the head and the LLM taken out.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from cotenant.tenants.builtin.runtime import Runtime, before_torch

before_torch()

import numpy as np  # noqa: E402

from cotenant.tenants.builtin import head_steps, llm, talking_head, tts, tts_steps  # noqa: E402
from cotenant.tenants.builtin.packets import PacketPolicy  # noqa: E402
from cotenant.tenants.builtin.shapes import tiny  # noqa: E402
from tests.tenants import test_builtin_work as stand_ins  # noqa: E402

AUDIO_S = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """Seconds of wall clock and of all this process's threads."""

    wall_s: float
    cpu_s: float


def timed(step: Callable[[], bool]) -> Took:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    while step():
        pass
    return Took(wall_s=time.perf_counter() - wall_s, cpu_s=time.process_time() - cpu_s)


def best(measure: Callable[[], Took], times: int = 5) -> Took:
    """The least CPU time of some runs, after one that is not counted."""
    measure()
    return min((measure() for _ in range(times)), key=lambda took: took.cpu_s)


def voice(listeners: int, change: Callable[[tts_steps.TtsModel], None] | None = None) -> Took:
    engine = tts.build(tiny.TTS, Runtime())
    if change:
        change(engine.model)

    def run() -> Took:
        for _ in range(listeners):
            samples = np.zeros(AUDIO_S * 24_000, np.int16)
            text = "a sentence of ordinary length"
            engine.add(
                tts.Utterance(text=text, samples=samples, packets=PacketPolicy(), send=lambda packet: None)
            )
        return timed(engine.step)

    return best(run)


def head(change: Callable[[head_steps.HeadModel], None] | None = None) -> Took:
    engine = talking_head.build(tiny.HEAD, Runtime())
    if change:
        change(engine.model)

    def run() -> Took:
        session = talking_head.Session(fps=25, send=lambda item: None)
        engine.add(session)
        engine.feed(session, np.zeros(AUDIO_S * 16_000, np.int16))
        engine.end(session)
        return timed(engine.step)

    return best(run)


def language(threads: int, streams: int, prompt: int, output: int) -> Took:
    engine = llm.build(tiny.LLM, Runtime(threads=threads))

    def run() -> Took:
        for number in range(streams):
            engine.add(
                llm.Sequence(
                    prompt=[number + 1] * prompt, max_tokens=output, ignore_eos=True, send=lambda token: None
                )
            )
        return timed(engine.step)

    return best(run, 3)


def show(name: str, took: Took, unit: str, per: float) -> None:
    print(f"{name:<44} {took.wall_s / per:8.3f} wall {took.cpu_s / per:8.3f} cpu   {unit}")


def without(name: str) -> Callable[[tts_steps.TtsModel], None]:
    stand_in = {
        "talker": stand_ins.NoTalker,
        "predictor": stand_ins.NoPredictor,
        "decoder": stand_ins.NoDecoder,
    }
    return stand_ins.taken_out(name, stand_in[name]())


def no_motion(model: head_steps.HeadModel) -> None:
    model.motion.piece = lambda run: None  # type: ignore[method-assign]


def main() -> None:
    """Prints one line a measurement."""
    for listeners in (1, 2, 4):
        show(f"voice, {listeners} together", voice(listeners), "of real time", AUDIO_S)
    for part in ("talker", "predictor", "decoder"):
        show(f"voice, 2 together, no {part}", voice(2, without(part)), "of real time", AUDIO_S)
    show("head, 25 fps", head(), "of one core", AUDIO_S)
    show("head, 25 fps, no motion model", head(no_motion), "of one core", AUDIO_S)
    for threads in (1, 2):
        show(f"LLM, prefill of 4,000, {threads} threads", language(threads, 1, 4000, 1), "s", 1)
        show(f"LLM, prefill of 1, {threads} threads", language(threads, 1, 1, 1), "s", 1)
        show(
            f"LLM, 4 streams, 128 + 200, {threads} threads", language(threads, 4, 128, 200), "s a token", 200
        )


if __name__ == "__main__":
    main()
