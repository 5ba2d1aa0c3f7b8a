"""How long causes take, over judging the same run without them.

    python -m tests.bench.bench_causes [ten-minutes | hour | rates]

The runs of `bench_judge` with what observers record beside them: a canary sample every 5 ms, a dozen GPU
metrics every 200 ms, host and engine rows. A tenth of the utterances of one stage stall. `rates`: of 200
runs whose truth is known, how many name something.
"""

import sys
import time
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cotenant.records import TABLES, Recording
from cotenant.verdict import summary
from cotenant.verdict.summary import JudgeOptions, judge
from tests.bench.bench_judge import recording
from tests.verdict import prefills
from tests.verdict.recordings import MS, S

METRICS = ("sm_percent", "dram_percent", "sm_clock_mhz", "power_w", *(f"other_{index}" for index in range(8)))


def observed(run: Recording, seconds: int) -> Recording:
    """The run with observers' rows."""
    rng = np.random.default_rng(1)
    canary_t = np.arange(0, seconds * S, 5 * MS)
    canary = pa.table(
        {
            "t": canary_t,
            "latency": rng.integers(MS, 8 * MS, len(canary_t)),
            "device": ["cuda:0"] * len(canary_t),
        },
        schema=TABLES["canary"],
    )
    ends = np.arange(200 * MS, seconds * S, 200 * MS)
    gpu = [
        pa.table(
            {
                "t0": ends - 200 * MS,
                "t1": ends,
                "gpu": ["GPU-1"] * len(ends),
                "metric": [metric] * len(ends),
                "value": rng.uniform(40, 60, len(ends)),
                "status": ["ok"] * len(ends),
            },
            schema=TABLES["gpu"],
        )
        for metric in METRICS
    ]
    ticks = np.arange(0, seconds * S, S)
    host = pa.table(
        {
            "t": ticks,
            "source": ["host"] * len(ticks),
            "metric": ["sleep_lag_ns"] * len(ticks),
            "value": np.full(len(ticks), 2e5),
        },
        schema=TABLES["host"],
    )
    engine = [
        pa.table(
            {
                "t": ticks,
                "tenant": ["llm"] * len(ticks),
                "metric": [metric] * len(ticks),
                "value": np.ones(len(ticks)),
            },
            schema=TABLES["engine"],
        )
        for metric in ("running", "waiting", "largest_step_tokens", "preemptions")
    ]
    tables = {
        **run.tables,
        "chunks": _stalled(run),
        "canary": canary,
        "gpu": pa.concat_tables(gpu),
        "host": pa.concat_tables([run.tables["host"], host]),
        "engine": pa.concat_tables(engine),
    }
    return replace(run, tables=tables)


def _stalled(run: Recording) -> pa.Table:
    """The chunks, the second half of every tenth utterance of the crowd 2 s late."""
    streams, chunks = run.tables["streams"], run.tables["chunks"]
    crowd = streams.filter(pc.equal(streams["stage"], "crowd"))["stream"].to_numpy()
    of, seq = chunks["stream"].to_numpy(), chunks["seq"].to_numpy()
    late = np.isin(of, crowd[crowd % 10 == 0]) & (seq >= seq.max() // 2)
    arrival = chunks["arrival"].to_numpy() + np.where(late, 2 * S, 0)
    return chunks.set_column(chunks.column_names.index("arrival"), "arrival", pa.array(arrival))


def _nothing(run: object, found: object) -> tuple[list[dict[str, Any]], str]:
    return [], ""


def rates(runs: int = 200) -> None:
    """How many runs name the prompts where stalls go with them, and name anything where they do not."""
    kinds: tuple[prefills.Kind, ...] = ("prefill", "chunks", "incidents", "utterances")
    for kind in kinds:
        named = 0
        for seed in range(runs):
            found = judge(prefills.run(kind, seed), prefills.POINT)
            named += any(cause["what"] != "unattributed" for cause in prefills.crowd_of(found)["causes"])
        print(f"{kind}: {named} of {runs} runs name a cause")


def main() -> None:
    if sys.argv[1:] == ["rates"]:
        rates()
        return
    hour = len(sys.argv) > 1 and sys.argv[1] == "hour"
    if hour:
        run = recording(minutes=60, voices=256, faces=64, llm=16, chunk_ms=100)
    else:
        run = recording(minutes=10, voices=16, faces=4, llm=64)
    run = observed(run, (60 if hour else 10) * 60 + 200)
    # Stages that differ, so that the baseline is one.
    run.manifest["scenario"]["stages"][0]["load"] = ["voices"]
    took, found = [], {}
    for spoken in (0, 1):
        with mock.patch.object(summary, "causes_of", summary.__dict__["causes_of"] if spoken else _nothing):
            begin = time.process_time()
            found = judge(run, JudgeOptions(decision="point"))
            took.append(time.process_time() - begin)
    stalls = sum(cause["stalls"] for stage in found["stages"] for cause in stage["causes"])
    print(
        f"{'an hour' if hour else 'ten minutes'}: judged in {took[0]:.2f} s of CPU, with causes "
        f"{took[1]:.2f} s: {took[1] - took[0]:.2f} s more for {stalls:,} stalls"
    )
    for stage in found["stages"]:
        for cause in stage["causes"]:
            print(f"  {stage['name']}: {cause['what']}: {cause['text']}")


if __name__ == "__main__":
    main()
