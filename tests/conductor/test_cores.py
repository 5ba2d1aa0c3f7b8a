"""Which cores the run's own processes get, and that every child has those it was given."""

import asyncio
import os
from pathlib import Path

import pytest

from cotenant.conductor import cores
from cotenant.scenario.load import load
from cotenant.tenants.reaper_client import Reaper


@pytest.mark.parametrize(("count", "own"), [(8, 2), (11, 2), (12, 3), (16, 4), (32, 4), (192, 4)])
def test_the_last_ones_are_ours_and_no_core_is_in_both(count: int, own: int) -> None:
    numbers = [2 * number for number in range(count)]  # an affinity may have holes
    told = cores.facts(load("all-together", []), reversed(numbers))
    assert told == {"own": numbers[count - own :], "tenants": numbers[: count - own], "why": {}}


@pytest.mark.parametrize(
    ("overrides", "count", "why"),
    [
        (["cores=shared"], 64, "the scenario says cores: shared"),
        (
            ["tenants.tts.engine=attach", "tenants.tts.url=http://h:1"],
            64,
            "tts was not started by this run, so it may use any core",
        ),
        ([], 7, "only 7 cores; from 8 on our own processes get some of their own"),
    ],
)
def test_all_share_all_cores_and_the_manifest_says_why(overrides: list[str], count: int, why: str) -> None:
    told = cores.facts(load("all-together", overrides), range(count))
    assert told == {"own": None, "tenants": None, "why": {"own": why, "tenants": why}}


def test_a_child_runs_on_the_cores_it_was_given(tmp_path: Path) -> None:
    available = sorted(os.sched_getaffinity(0))
    last = available[-1:]
    argv = ["/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status"]

    async def seen(cpus: list[int] | None, own: list[int] | None) -> str:
        log = tmp_path / f"{cpus}{own}"
        async with await Reaper.start(cpus=cpus) as reaper:
            await reaper.spawn("a", argv, log=log, cpus=own)
            await reaper.wait_exit("a")
        return log.read_text().split()[-1]

    everything = asyncio.run(seen(None, None))
    assert asyncio.run(seen(last, None)) == str(last[0])
    assert asyncio.run(seen(last, available)) == everything
    assert asyncio.run(seen(None, last)) == str(last[0])
