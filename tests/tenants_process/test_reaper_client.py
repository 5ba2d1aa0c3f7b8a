"""The asyncio client of the reaper, against a real one."""

import asyncio
import os
import signal
import sys
import uuid
from pathlib import Path

import pytest

from cotenant.errors import CouldNotRun
from cotenant.tenants.reaper_client import Exit, Reaper
from tests.tenants_process.processes import MARK, marked, until_async

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]


def test_children_start_end_and_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    ends: list[tuple[str, Exit]] = []

    async def main() -> None:
        async with await Reaper.start(lambda name, how: ends.append((name, how))) as reaper:
            argv = ["/bin/sh", "-c", 'echo "$EXTRA $PATH"; exit 3']
            pid = await reaper.spawn("a", argv, log=tmp_path / "a.log", env={"EXTRA": "more"})
            assert pid > 0
            assert await reaper.wait_exit("a") == Exit(code=3, signal=None)
            assert (tmp_path / "a.log").read_text() == f"more {os.environ['PATH']}\n"
            await reaper.spawn("a", SLEEP, log=tmp_path / "a.log")
            assert reaper.exit_of("a") is None
            with pytest.raises(ValueError, match="a is running already"):
                await reaper.spawn("a", SLEEP, log=tmp_path / "a.log")
            reaper.signal("a", signal.SIGTERM)
            assert str(await reaper.wait_exit("a")) == "SIGTERM"
            assert reaper.exit_of("a") == Exit(code=None, signal=15)
            with pytest.raises(
                CouldNotRun, match=r"b cannot be started: .*No such file.*program.*; give its path"
            ):
                await reaper.spawn("b", ["/no/such/program"], log=tmp_path / "b.log")
            with pytest.raises(KeyError):
                reaper.exit_of("b")
            for name in ("c", "d"):
                await reaper.spawn(name, SLEEP, log=tmp_path / "c.log")
            assert len(marked(mark)) == 3
        assert not marked(mark)

    asyncio.run(main())
    assert [name for name, _ in ends[:2]] == ["a", "a"]
    assert {name: how.signal for name, how in ends[2:]} == {"c": 15, "d": 15}


def test_a_lost_reaper_ends_every_wait(tmp_path: Path) -> None:
    async def main() -> None:
        reaper = await Reaper.start()
        await reaper.spawn("a", SLEEP, log=tmp_path / "a.log")
        os.kill(reaper.pid, signal.SIGKILL)
        assert str(await reaper.wait_exit("a")) == "lost with the reaper"
        with pytest.raises(CouldNotRun, match="process that starts all others"):
            await reaper.spawn("b", SLEEP, log=tmp_path / "b.log")
        await reaper.close()

    asyncio.run(main())


def test_every_end_is_reported_when_all_are_ended(tmp_path: Path) -> None:
    ends: list[str] = []

    async def main() -> None:
        async with await Reaper.start(lambda name, how: ends.append(f"{name} {how}")) as reaper:
            for n in range(30):
                await reaper.spawn(f"sleep {n}", ["/bin/sleep", "600"], log=tmp_path / "log")

    asyncio.run(main())
    assert sorted(ends) == sorted(f"sleep {n} SIGTERM" for n in range(30))


def test_closing_twice_and_with_nothing_started(tmp_path: Path) -> None:
    async def main() -> None:
        reaper = await Reaper.start()
        await reaper.close()
        await reaper.close()
        await until_async(lambda: not Path(f"/proc/{reaper.pid}").exists(), 3, "the reaper lives on")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (Exit(code=0, signal=None), "code 0"),
        (Exit(code=None, signal=9), "SIGKILL"),
        (Exit(code=None, signal=200), "signal 200"),
    ],
)
def test_an_end_in_words(how: Exit, text: str) -> None:
    assert str(how) == text
