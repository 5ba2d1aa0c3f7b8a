"""The reaper as a process: nothing that it started outlives its parent, however the parent ends."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tenants_process.processes import MARK, marked, until

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
STUBBORN = [
    sys.executable, "-S", "-c",
    "import signal, time\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\nprint('deaf', flush=True)\n"
    "while True: time.sleep(600)",
]  # fmt: skip
# A leader that ends on TERM, with two deaf grandchildren, one of them in a session of its own and an orphan.
FAMILY = [
    "/bin/sh", "-c",
    "trap '' TERM; sleep 600 & (setsid sleep 601 &) ; trap 'exit 0' TERM; echo up\n"
    "while :; do sleep 602 & wait; done",
]  # fmt: skip
STOPPED = [sys.executable, "-S", "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"]

HOLDER = """
import asyncio, json, sys
from pathlib import Path
from cotenant.tenants.reaper_client import Reaper

async def main():
    reaper = await Reaper.start()
    for n, argv in enumerate(json.loads(sys.argv[2])):
        await reaper.spawn(f"child-{n}", argv, log=Path(sys.argv[1]) / f"{n}.log")
    print(reaper.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARK, value)
    yield value
    left = marked(value)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def hold(tmp_path: Path, *children: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path), json.dumps(children)],
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )


@pytest.mark.parametrize("whole_group", [False, True], ids=["parent", "its group"])
def test_killing_the_parent_leaves_no_process(tmp_path: Path, mark: str, whole_group: bool) -> None:
    with hold(tmp_path, SLEEP, STUBBORN, FAMILY, STOPPED) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) in marked(mark)
        # parent, reaper, sleeper, deaf one, shell with three sleeps, stopped one
        until(lambda: len(marked(mark)) == 9, 10, "the children did not all start")
        until(lambda: (tmp_path / "1.log").read_text() == "deaf\n", 10, "no deaf child")
        until(lambda: (tmp_path / "2.log").read_text() == "up\n", 10, "no family")
        if whole_group:
            os.killpg(parent.pid, signal.SIGKILL)
        else:
            parent.kill()
        until(lambda: not marked(mark), 3, "processes are left after 3 s")


def test_a_killed_reaper_takes_its_children_along(tmp_path: Path, mark: str) -> None:
    with hold(tmp_path, SLEEP, STUBBORN) as parent:
        assert parent.stdout is not None
        reaper_pid = int(parent.stdout.readline())
        until(lambda: len(marked(mark)) == 4, 10, "the children did not start")
        os.kill(reaper_pid, signal.SIGKILL)
        until(lambda: marked(mark) == {parent.pid}, 3, "children outlive the reaper")
        parent.kill()


@pytest.fixture
def reaper(mark: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "cotenant.tenants.reaper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=3) == 0


def tell(reaper: subprocess.Popen[str], **command: object) -> None:
    assert reaper.stdin is not None
    reaper.stdin.write(json.dumps(command) + "\n")


def hear(reaper: subprocess.Popen[str]) -> dict[str, object]:
    assert reaper.stdout is not None
    event = json.loads(reaper.stdout.readline())
    assert isinstance(event, dict)
    return event


def test_signals_that_end_others_are_ignored_and_not_handed_on(
    reaper: subprocess.Popen[str], tmp_path: Path
) -> None:
    # Every child prints the signals that it ignores, as a mask (proc(5)).
    show = ["/bin/sh", "-c", "grep SigIgn /proc/self/status; grep SigBlk /proc/self/status"]
    tell(reaper, do="start", id="a", argv=show, log=str(tmp_path / "log"))
    assert hear(reaper)["event"] == "started"
    assert hear(reaper) == {"event": "exited", "id": "a", "code": 0, "signal": None}
    masks = [int(line.split()[1], 16) for line in (tmp_path / "log").read_text().splitlines()]
    assert masks == [0, 0]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(reaper.pid, number)
    tell(reaper, do="start", id="a", argv=["/bin/true"], log=str(tmp_path / "log"))
    assert [hear(reaper)["event"] for _ in range(2)] == ["started", "exited"]


def test_commands_and_what_is_reported(reaper: subprocess.Popen[str], tmp_path: Path) -> None:
    log = str(tmp_path / "new" / "log")
    argv = ["/bin/sh", "-c", 'cat; echo "$0 $A"; nice; echo err >&2; exit 7', "name"]
    for _ in range(2):
        tell(reaper, do="start", id="x", argv=argv, log=log, env={"A": "b", "PATH": os.environ["PATH"]},
             nice=3)  # fmt: skip
        assert hear(reaper)["event"] == "started"
        assert hear(reaper) == {"event": "exited", "id": "x", "code": 7, "signal": None}
    nice = os.nice(0) + 3
    assert (tmp_path / "new/log").read_text() == f"name b\n{nice}\nerr\n" * 2

    tell(reaper, do="start", id="y", argv=SLEEP, log=log)
    pid = hear(reaper)["pid"]
    assert isinstance(pid, int)
    assert os.getpgid(pid) == pid
    assert os.getsid(pid) == os.getsid(0)
    tell(reaper, do="start", id="y", argv=SLEEP, log=log)
    assert hear(reaper) == {"event": "failed", "id": "y", "error": "y is running already"}
    tell(reaper, do="signal", id="y", sig=int(signal.SIGTERM))
    assert hear(reaper) == {"event": "exited", "id": "y", "code": None, "signal": 15}
    tell(reaper, do="signal", id="y", sig=int(signal.SIGTERM))
    tell(reaper, do="signal", id="never", sig=int(signal.SIGTERM))

    tell(reaper, do="start", id="z", argv=["/no/such/program"], log=log)
    failed = hear(reaper)
    assert failed["event"] == "failed"
    assert "No such file" in str(failed["error"])


def test_a_signal_reaches_the_whole_group(reaper: subprocess.Popen[str], tmp_path: Path, mark: str) -> None:
    argv = ["/bin/sh", "-c", "sleep 600 & sleep 601 & echo up; wait"]
    tell(reaper, do="start", id="g", argv=argv, log=str(tmp_path / "log"))
    assert hear(reaper)["event"] == "started"
    until(lambda: len(marked(mark)) == 4, 10, "the group did not start")
    tell(reaper, do="signal", id="g", sig=int(signal.SIGTERM))
    assert hear(reaper)["event"] == "exited"
    until(lambda: marked(mark) == {reaper.pid}, 10, "the group lives on")


def test_orphans_are_collected_while_it_serves(reaper: subprocess.Popen[str], tmp_path: Path) -> None:
    argv = ["/bin/sh", "-c", "for i in 1 2 3 4 5; do (setsid true &); done"]
    tell(reaper, do="start", id="o", argv=argv, log=str(tmp_path / "log"))
    assert [hear(reaper)["event"] for _ in range(2)] == ["started", "exited"]
    children = Path(f"/proc/{reaper.pid}/task/{reaper.pid}/children")
    until(lambda: children.read_text() == "", 10, "zombies are left")


def test_a_full_log_disk_does_not_end_it(reaper: subprocess.Popen[str], tmp_path: Path) -> None:
    argv = ["/bin/sh", "-c", "echo x; echo y >&2; exit 5"]
    tell(reaper, do="start", id="f", argv=argv, log="/dev/full")
    assert [hear(reaper)["event"] for _ in range(2)] == ["started", "exited"]
    (tmp_path / "file").touch()
    tell(reaper, do="start", id="f", argv=argv, log=str(tmp_path / "file" / "log"))
    assert hear(reaper)["event"] == "failed"
    tell(reaper, do="start", id="f", argv=argv, log=str(tmp_path / "log"))
    assert hear(reaper)["event"] == "started"
    assert hear(reaper)["code"] == 5
