"""How long the page of a run takes to write, and how big it is.

    python -m tests.bench.bench_page [ten-minutes | hour]

`ten-minutes`: 8 voices (800 utterances, 40,000 chunks), a face, 6 LLM streams, 12 GPU metrics at 5 Hz, the
canary at 200 Hz; it should be under 9 MB and 15 s. `hour`: six times as long. Where there is a Chromium it
also says how soon the page is ready (three loads; the first holds the browser's own start) and how long each
action takes of CPU time, the best of five, in ms.
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from cotenant.cli.page_file import write_page
from cotenant.records import TABLES, Recording
from cotenant.verdict.summary import JudgeOptions, judge
from tests.bench.bench_judge import recording
from tests.page.browser import browser, chromium
from tests.page.test_bad_input import ACTIONS, spent_ms
from tests.verdict.recordings import S

METRICS = (
    "sm_percent", "dram_percent", "sm_clock_mhz", "memory_clock_mhz", "power_w", "memory_used_bytes",
    "tensor_percent", "sm_occupancy_percent", "pcie_rx_mib_per_s", "pcie_tx_mib_per_s", "temperature_c",
    "throttle_power_cap_share",
)  # fmt: skip


def with_machine(run: Recording, minutes: int) -> Recording:
    """The recording with a GPU's metrics at 5 Hz and a canary at 200 Hz."""
    generator = np.random.default_rng(2)
    length = (minutes * 60 + 90) * S
    at = np.arange(S, length, S // 5, dtype=np.int64)
    times = np.tile(at, len(METRICS))
    gpu = pa.table(
        [
            pa.array(times - S // 5),
            pa.array(times),
            pa.repeat(pa.scalar("cuda:0"), len(times)),
            pa.array(np.repeat(METRICS, len(at))),
            pa.array(generator.normal(50, 10, len(times))),
            pa.repeat(pa.scalar("ok"), len(times)),
        ],
        schema=TABLES["gpu"],
    )
    ticks = np.arange(S, length, S // 200, dtype=np.int64)
    latency = generator.lognormal(15, 0.5, len(ticks)).astype(np.int64)
    canary = pa.table(
        [pa.array(ticks), pa.array(latency), pa.repeat(pa.scalar("cuda:0"), len(ticks))],
        schema=TABLES["canary"],
    )
    return Recording(manifest=run.manifest, tables={**run.tables, "gpu": gpu, "canary": canary})


def in_browser(page: Path) -> dict[str, Any]:
    """Ready after so many ms, load by load, and the ms of each action."""
    with browser() as tab:
        ready = []
        for _ in range(3):
            tab.open(page)
            ready.append(int(tab.evaluate("document.documentElement.dataset.ready")))
        tab.wait("window.Plotly")
        tab.evaluate(ACTIONS.replace("'crowd'", "RUN.utterances[0].stage"))
        spent = {name: min(spent_ms(tab, name, turn) for turn in range(5)) for name in tab.evaluate("ACTS")}
        return {"ready_ms": ready, "actions_ms": {name: round(ms, 1) for name, ms in spent.items()}}


def main() -> None:
    minutes = {"ten-minutes": 10, "hour": 60}[sys.argv[1] if len(sys.argv) > 1 else "ten-minutes"]
    run = with_machine(recording(minutes=minutes, voices=8, faces=1, llm=6, chunk_ms=100), minutes)
    print({name: table.num_rows for name, table in run.tables.items()})
    options = JudgeOptions()
    began = time.perf_counter()
    summary = judge(run, options)
    judged = time.perf_counter()
    with TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        write_page(Path(folder), run, summary, options, page, "--html")
        done = time.perf_counter()
        size = page.stat().st_size
        used = None if chromium() is None else in_browser(page)
    print(f"judged in {judged - began:.2f} s, page in {done - judged:.2f} s, {size / 1e6:.2f} MB")
    print("no Chromium" if used is None else used)


if __name__ == "__main__":
    main()
