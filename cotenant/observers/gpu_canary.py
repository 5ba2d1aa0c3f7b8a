"""The GPU canary: one tiny kernel every few milliseconds, and how long each waited, into the table `canary`.

Run as `python -m cotenant.observers.gpu_canary --run-dir DIR --device cuda:0`; ends on SIGTERM or SIGINT. A
row's latency is from before the launch to when this process knows of the kernel's end. It waits asleep, for
the driver's interrupt (`--wait block`): with N busy processes a kernel waits up to N time slices, far too
long to spin. `--device cpu` runs the same on the host, for tests. Prints one line of JSON once it is ready,
or why not (and ends with 5). Kernels are not queued: one that waits past the next tick leaves that one out,
and after each wait it stays away for `--rest` times as long, 250 ms at most: a probe that comes back at once
would take a turn in every round of time slices, and slow down what it watches.
"""

import argparse
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from cotenant.observers.grid import ticks
from cotenant.observers.stopping import stop_on_signals
from cotenant.run_dir.writer import RunWriter
from cotenant.units import NS_PER_MS, NS_PER_S

_COULD_NOT_RUN: Final = 5
# Loading the kernel and the first launches take milliseconds.
_WARM_UP: Final = 50
_POLL_S: Final = 50e-6
REST: Final = 3.0
# After a wait of seconds it has to be seen soon whether the GPU is free again.
_LONGEST_REST_NS: Final = 250 * NS_PER_MS
WAITS: Final = ("block", "poll", "spin")


def probe(device: str, wait: str = "block") -> Callable[[], None]:
    """A function that runs one tiny kernel on `device` and returns at its end. `wait`: block, poll or spin.

    Raises RuntimeError where the device cannot be had.
    """
    # Threads for a number that one adds to another would only cost.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    if device == "cpu":
        value = torch.zeros(1)
        return lambda: _ignore(value.add_(1))
    if device.startswith(("GPU-", "MIG-")):
        # Before CUDA starts; it then shows this one only.
        os.environ["CUDA_VISIBLE_DEVICES"], device = device, "cuda:0"
    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device")
    torch.cuda.set_device(device)
    value = torch.zeros(1, device=device)
    cuda: Any = torch.cuda  # not typed in all releases
    event = cuda.Event(blocking=wait == "block")

    def run() -> None:
        value.add_(1)
        event.record()
        if wait == "block":
            event.synchronize()
        else:
            while not event.query():
                if wait == "poll":
                    time.sleep(_POLL_S)

    return run


def observe(
    writer: RunWriter,
    device: str,
    run: Callable[[], None],
    period_ns: int,
    stop: threading.Event,
    *,
    rest: float = REST,
) -> None:
    """Probe until `stop` is set; after each probe, rest for `rest` times its wait.

    The caller closes the writer. Raises what the probe raises (a lost GPU), after a row without a latency;
    OSError when the disk refuses.
    """
    rested_ns = time.monotonic_ns()
    flush_ns = rested_ns + NS_PER_S
    for _ in ticks(period_ns, stop.wait):
        sent_ns = time.monotonic_ns()
        if sent_ns < rested_ns:
            continue
        try:
            run()
        except RuntimeError:
            writer.append("canary", t=sent_ns, latency=None, device=device)
            raise
        done_ns = time.monotonic_ns()
        writer.append("canary", t=sent_ns, latency=done_ns - sent_ns, device=device)
        rested_ns = done_ns + min(round(rest * (done_ns - sent_ns)), _LONGEST_REST_NS)
        if done_ns >= flush_ns:
            writer.flush()
            flush_ns = done_ns + NS_PER_S


def _period_ns(text: str) -> int:
    period_ns = round(float(text) * NS_PER_MS)
    if period_ns < NS_PER_MS:
        raise argparse.ArgumentTypeError("at least 1 ms")
    return period_ns


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """The process's entry."""
    parser = argparse.ArgumentParser(prog="cotenant.observers.gpu_canary", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0", help="cuda:N, a UUID or cpu")
    parser.add_argument("--period-ms", type=_period_ns, default=5 * NS_PER_MS, dest="period_ns")
    parser.add_argument("--rest", type=float, default=REST)
    parser.add_argument("--wait", choices=WAITS, default="block")
    options = parser.parse_args(arguments)
    stop = stop_on_signals()
    try:
        run = probe(options.device, options.wait)
        for _ in range(_WARM_UP):
            run()
    except (RuntimeError, ImportError) as error:
        advice = "start it with --device cpu, or without the canary"
        _say({"ready": False, "kind": "no_device", "message": _first_line(error), "advice": advice})
        return _COULD_NOT_RUN
    writer = RunWriter(
        options.run_dir,
        f"canary-{options.device.replace(':', '-').replace('/', '-')}",
        audio_limit_bytes=None,
    )
    # A collection would look like a busy GPU.
    gc.collect()
    gc.freeze()
    gc.disable()
    _say({"ready": True, "device": options.device, "wait": options.wait, "pid": os.getpid()})
    try:
        try:
            observe(writer, options.device, run, options.period_ns, stop, rest=options.rest)
        finally:
            writer.close()
    except OSError as error:
        sys.stderr.write(f"the GPU canary cannot write to {options.run_dir}: {error}\n")
        return _COULD_NOT_RUN
    except RuntimeError as error:
        sys.stderr.write(f"the GPU canary lost {options.device}: {_first_line(error)}\n")
        return _COULD_NOT_RUN
    return 0


def _ignore(_: Any) -> None:
    pass


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


if __name__ == "__main__":
    sys.exit(main())
