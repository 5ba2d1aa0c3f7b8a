"""How fast the shapes of released models are on a GPU: `python -m tests.bench.bench_gpu_shapes`.

Prints one line of JSON a job; each job is a process of its own, so that one which fails (its traceback is in
its line) leaves the others alone. `--small` rehearses every job in small sizes of the same classes on a CPU.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, Final

from cotenant.tenants.builtin.runtime import Mode, Runtime, before_torch

before_torch()

import numpy as np  # noqa: E402
import torch  # noqa: E402

from tests.bench import gpu_checks  # noqa: E402
from tests.bench.gpu_head import head, motions  # noqa: E402
from tests.bench.gpu_place import Place, Row, mean_ms, wait  # noqa: E402

TOTAL_S: Final = 225  # unless --total says less
JOB_S: Final = 45


def voice(place: Place, row: Row, shape: str, mode: Mode, overhead_ns: int | None = 0) -> None:
    """A frame's step and a whole packet, for one voice and for eight; None has the fitted overhead."""
    from cotenant.tenants.builtin import tts
    from cotenant.tenants.builtin.packets import PacketPolicy
    from cotenant.tenants.builtin.shapes import published, registry

    sizes = registry.SPEECH["tiny" if place.small else shape]
    if place.small:
        sizes = dataclasses.replace(sizes, context_frames=None, frames=512, slots=2)
    began = time.perf_counter()
    if place.small:  # any number: it is to be seen in a frame
        sizes = dataclasses.replace(sizes, step_overhead_ns=3_000_000)
    runtime = Runtime(device=place.device, mode=mode, step_overhead_ns=overhead_ns)
    engine = tts.build(sizes, runtime, PacketPolicy())
    row["step_overhead_ns"] = engine.step_overhead_ns
    row["published_frame_ms"] = published.published_frame_ms(shape, mode)
    row["build_s"] = round(time.perf_counter() - began, 1)
    for voices in (1, sizes.slots):
        frames = 4 if place.small else 48
        row[f"frame_ms_{voices}"] = round(tts.measure_frame_ms(engine, utterances=voices, frames=frames), 3)
        row[f"packet_of_4_ms_{voices}"], row[f"first_packet_ms_{voices}"] = packets(
            engine, place, voices, 2 if place.small else 16
        )
    row["optimistic"] = published.is_optimistic(row["frame_ms_1"], row["published_frame_ms"])
    if row["published_frame_ms"] and not engine.step_overhead_ns:
        row["fitted_overhead_ns"] = published.fitted_overhead_ns(row["frame_ms_1"], row["published_frame_ms"])


def packets(engine: Any, place: Place, voices: int, count: int) -> tuple[float, float]:
    """ms between packets of 4 frames, and to the first one of 1 frame, with so many voices."""
    from cotenant.tenants.builtin.packets import PacketPolicy
    from cotenant.tenants.builtin.tts import Utterance

    sent: list[float] = []
    samples = np.zeros(engine.samples_per_frame * (1 + 4 * count), np.int16)
    began = time.perf_counter()
    for number in range(voices):
        send = (lambda packet: sent.append(time.perf_counter())) if number == 0 else (lambda packet: None)
        text = "a sentence of ordinary length, said by all"
        engine.add(Utterance(text=text, samples=samples, packets=PacketPolicy(), send=send))
    while engine.step():
        pass
    wait(place)
    return round((sent[count] - sent[0]) / count * 1e3, 3), round((sent[0] - began) * 1e3, 3)


def language(place: Place, row: Row, shape: str, mode: Mode) -> None:
    """Prefill of 8,192 and 32,768 tokens, and decode of one and eight streams."""
    from cotenant.tenants.builtin import llm
    from cotenant.tenants.builtin.shapes import registry

    sizes = registry.COMPLETIONS["tiny" if place.small else shape]
    if place.small:
        sizes = dataclasses.replace(sizes, kv_tokens=8192, slots=4)
    began = time.perf_counter()
    engine = llm.build(sizes, Runtime(device=place.device, mode=mode))

    row["build_s"] = round(time.perf_counter() - began, 1)

    def ask(prompt: int, output: int) -> None:
        token = 1 + len(engine._running)
        engine.add(
            llm.Sequence(prompt=[token] * prompt, max_tokens=output, ignore_eos=True, send=lambda got: None)
        )

    def drain() -> None:
        while engine.step():
            pass

    for prompt in (600, 1200) if place.small else (8192, 8192, 32_768):
        ask(prompt, 1)
        took_ms = mean_ms(place, drain, 1)
        row[f"prefill_{prompt}_tokens_per_s"] = round(prompt / took_ms * 1e3)
    for streams in (1, 2 if place.small else 8):
        for _ in range(streams):
            ask(128, 8 if place.small else 80)
        for _ in range(4):
            engine.step()
        row[f"decode_{streams}_ms"] = mean_ms(place, engine.step, 3 if place.small else 64)
        drain()


JOBS: Final[dict[str, Callable[[Place, Row], None]]] = {
    "checks": lambda place, row: row.update(gpu_checks.run(place.device)),
    "qwen3-tts-0.6b graphs": lambda place, row: voice(place, row, "qwen3-tts-0.6b", "graphs"),
    "qwen3-tts-0.6b fitted": lambda place, row: voice(place, row, "qwen3-tts-0.6b", "graphs", None),
    "qwen3-tts-1.7b fitted": lambda place, row: voice(place, row, "qwen3-tts-1.7b", "graphs", None),
    "ditto motions": motions,
    "ditto float16": lambda place, row: head(place, row, "graphs", "float16"),
    "qwen3-tts-0.6b eager": lambda place, row: voice(place, row, "qwen3-tts-0.6b", "eager"),
    "ditto graphs": lambda place, row: head(place, row, "graphs"),
    "llm-8b graphs": lambda place, row: language(place, row, "llm-8b", "graphs"),
    "qwen3-tts-1.7b graphs": lambda place, row: voice(place, row, "qwen3-tts-1.7b", "graphs"),
    "llm-30b-a3b graphs": lambda place, row: language(place, row, "llm-30b-a3b", "graphs"),
    "ditto graphs channels-first": lambda place, row: head(place, row, "graphs", channels_last=()),
    "ditto graphs channels-last-volumes": lambda place, row: head(place, row, "graphs", channels_last=(4, 5)),
    "qwen3-tts-1.7b eager": lambda place, row: voice(place, row, "qwen3-tts-1.7b", "eager"),
    "ditto eager": lambda place, row: head(place, row, "eager"),
    "llm-30b-a3b eager": lambda place, row: language(place, row, "llm-30b-a3b", "eager"),
}


def one(name: str, place: Place) -> Row:
    """A job in this process; what it raised is in its row, beside what it had measured until then."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    row: Row = {"job": name}
    try:
        JOBS[name](place, row)
    except Exception:  # noqa: BLE001 - one run is to tell all that fails
        row["failed"] = traceback.format_exc()
    row["job_s"] = round(time.perf_counter() - began, 1)
    if place.gpu and "failed" not in row:  # a broken context answers nothing
        free, total = torch.cuda.mem_get_info()
        row["reserved_gib"] = round(torch.cuda.max_memory_reserved() / 2**30, 2)
        row["card_used_gib"] = round((total - free) / 2**30, 2)
    return row


def main() -> None:
    """Runs the jobs that are asked for, each in a process, as long as there is time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--jobs", help="names, comma between; else all", default=",".join(JOBS))
    parser.add_argument("--total", type=float, default=TOTAL_S, help="seconds for all jobs at most")
    parser.add_argument("--here", help="one job, in this process")
    options = parser.parse_args()
    device = "cpu" if options.small else options.device
    if options.here:
        print(json.dumps(one(options.here, Place(device=device, small=options.small))), flush=True)
        return
    end_s = time.monotonic() + options.total
    for name in options.jobs.split(","):
        if (left_s := end_s - time.monotonic()) < 5:
            print(json.dumps({"job": name, "failed": "no time was left"}), flush=True)
            continue
        command = [sys.executable, "-m", "tests.bench.bench_gpu_shapes", "--here", name, "--device", device]
        try:
            subprocess.run([*command, *["--small"] * options.small], timeout=min(JOB_S, left_s), check=True)
        except subprocess.SubprocessError as error:
            print(json.dumps({"job": name, "failed": str(error)}), flush=True)


if __name__ == "__main__":
    main()
