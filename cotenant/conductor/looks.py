"""A look at a run that goes on: what is recorded so far is judged beside the measuring."""

import asyncio
from pathlib import Path

from cotenant.run_dir.reader import read
from cotenant.verdict.summary import JudgeOptions, is_decided, judge

# Load processes write once a second.
WRITTEN_AFTER_S = 1.2


async def decided(run_dir: Path, stage: str) -> bool:
    """Whether what is recorded so far decides every gate of a stage."""
    await asyncio.sleep(WRITTEN_AFTER_S)
    return await asyncio.to_thread(_decided, run_dir, stage)


def _decided(run_dir: Path, stage: str) -> bool:
    return is_decided(judge(read(run_dir), JudgeOptions()), stage)


async def failed(run_dir: Path, stage: str) -> bool:
    """Whether a stage that is over failed or is INVALID, whatever comes after it."""
    return await asyncio.to_thread(_failed, run_dir, stage)


def _failed(run_dir: Path, stage: str) -> bool:
    entries = judge(read(run_dir), JudgeOptions())["stages"]
    return any(
        one["name"] == stage and (one["verdict"] == "fail" or one["validity"] == "invalid") for one in entries
    )
