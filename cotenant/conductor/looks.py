"""A look at a run that goes on: whether what is recorded so far decides every gate of a stage."""

import asyncio
from pathlib import Path

from cotenant.run_dir.reader import read
from cotenant.verdict.summary import JudgeOptions, is_decided, judge

# Load processes write once a second.
WRITTEN_AFTER_S = 1.2


async def decided(run_dir: Path, stage: str) -> bool:
    """Judges the run directory beside the measuring; the load processes are not disturbed."""
    await asyncio.sleep(WRITTEN_AFTER_S)
    return await asyncio.to_thread(_decided, run_dir, stage)


def _decided(run_dir: Path, stage: str) -> bool:
    return is_decided(judge(read(run_dir), JudgeOptions()), stage)
