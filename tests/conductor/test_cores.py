"""Which cores the run's own processes get, and that every child has those it was given."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from cotenant.conductor import cores, run
from cotenant.conductor.context import Run
from cotenant.conductor.preflight import Device
from cotenant.live.progress import PlainProgress
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load
from cotenant.tenants.reaper_client import Reaper


@pytest.mark.parametrize(
    ("count", "own", "load_cores"),
    [(8, 2, 1), (11, 2, 1), (12, 3, 2), (16, 4, 2), (32, 4, 2), (192, 4, 2)],
)
def test_the_last_ones_are_ours_and_no_core_is_in_two_rooms(count: int, own: int, load_cores: int) -> None:
    numbers = [2 * number for number in range(count)]  # an affinity may have holes
    told = cores.facts(load("all-together", []), reversed(numbers))
    assert told == {
        "load": numbers[count - load_cores :],
        "watch": numbers[count - own : count - load_cores],
        "tenants": numbers[: count - own],
        "why": {},
    }


@pytest.mark.parametrize(
    ("overrides", "count", "why"),
    [
        (["cores=shared"], 64, "the scenario says cores: shared"),
        (
            ["tenants.tts.engine=attach", "tenants.tts.url=http://h:1"],
            64,
            "tts is not started by this run, and where it runs here it may use any core",
        ),
        ([], 7, "only 7 cores; from 8 on our own processes get some of their own"),
    ],
)
def test_all_share_all_cores_and_the_manifest_says_why(overrides: list[str], count: int, why: str) -> None:
    told = cores.facts(load("all-together", overrides), range(count))
    rooms = ("load", "watch", "tenants")
    assert told == {**dict.fromkeys(rooms), "why": dict.fromkeys(rooms, why)}


def test_the_conductor_keeps_to_its_cores_and_gets_its_own_back() -> None:
    before = os.sched_getaffinity(0)
    last = max(before)
    with cores.kept_to([last]):
        assert os.sched_getaffinity(0) == {last}
    assert os.sched_getaffinity(0) == before
    with cores.kept_to(None):
        assert os.sched_getaffinity(0) == before


def test_a_thread_that_follows_the_run_keeps_to_the_conductors_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = max(os.sched_getaffinity(0))
    seen: list[set[int]] = []

    def begin(_run: Run) -> None:
        thread = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
        thread.start()
        thread.join()

    monkeypatch.setattr(cores, "facts", lambda *_: {"watch": [last]})
    done = run.Recorded(run_dir=tmp_path, status="complete")
    monkeypatch.setattr(run, "_climb_until_signal", lambda _: done)
    device = Device(kind="cpu", name="test", cpu_count=2)
    scenario = resolve(load("tts-alone"), "cpu")
    run.record(
        scenario, device=device, out=tmp_path, make_progress=lambda: PlainProgress(print), on_begin=begin
    )
    assert seen == [{last}]


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
