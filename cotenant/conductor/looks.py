"""A look at a run that goes on: whether what is recorded so far decides every gate of a stage."""

import asyncio
from pathlib import Path

from cotenant.run_dir.reader import read
from cotenant.verdict.summary import JudgeOptions, judge

# Load processes write once a second.
WRITTEN_AFTER_S = 1.2


async def decided(run_dir: Path, stage: str) -> bool:
    """Judges the run directory beside the measuring; the load processes are not disturbed."""
    await asyncio.sleep(WRITTEN_AFTER_S)
    return await asyncio.to_thread(_decided, run_dir, stage)


def _decided(run_dir: Path, stage: str) -> bool:
    summary = judge(read(run_dir), JudgeOptions())
    entry = next(entry for entry in summary["stages"] if entry["name"] == stage)
    return all(gate["verdict"] != "inconclusive" for gate in entry["gates"] if gate["level"] == "fail")
