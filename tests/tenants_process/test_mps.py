"""The private MPS daemon under a real reaper, with a program that behaves as NVIDIA's."""

import asyncio
import os
import signal
import socket
import stat
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cotenant.errors import CouldNotRun
from cotenant.tenants import mps
from cotenant.tenants.mps_other import find_other
from cotenant.tenants.reaper_client import Reaper
from tests.tenants_process.mps_rig import install
from tests.tenants_process.processes import MARK, marked, until, until_async

CLIENT = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
# Says on TERM whether the daemon is still there, and goes.
POLITE = [
    "/bin/sh", "-c",
    'trap "test -S $CUDA_MPS_PIPE_DIRECTORY/control && echo first; exit 0" TERM; '
    "echo up; while :; do sleep 0.02; done",
]  # fmt: skip


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The fake is on PATH, folders are made in a short one of this test, processes carry the mark."""
    monkeypatch.setenv("PATH", f"{install(tmp_path)}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv(mps.PIPES, raising=False)
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    return mark


async def start(reaper: Reaper, folder: Path, visible: str | None = "GPU-1", pin: bool = True) -> mps.Daemon:
    return await mps.start(reaper, log_dir=folder, visible=visible, pin=pin)


def text_of(folder: Path) -> str:
    return (folder / "mps.log").read_text(encoding="utf-8")


def folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("cotenant-mps-*"))


def test_clients_are_named_and_all_ends_in_order(tmp_path: Path, mark: str) -> None:
    async def main() -> None:
        async with await Reaper.start() as reaper:
            daemon = await start(reaper, tmp_path)
            assert stat.S_IMODE(daemon.folder.stat().st_mode) == 0o700
            assert len(os.fsencode(daemon.folder / "control_privileged")) <= 107
            assert daemon.env == {
                "CUDA_MPS_PIPE_DIRECTORY": str(daemon.folder),
                "CUDA_MPS_LOG_DIRECTORY": str(tmp_path / "mps"),
                "CUDA_VISIBLE_DEVICES": "GPU-1",
            }
            assert "CUDA_VISIBLE_DEVICES=GPU-1" in text_of(tmp_path)
            assert await mps.clients(daemon) == frozenset()
            pid = await reaper.spawn("tts", POLITE, log=tmp_path / "tts.log", env=daemon.env)
            await reaper.spawn("other", CLIENT, log=tmp_path / "other.log")
            log = tmp_path / "tts.log"
            await until_async(lambda: log.exists() and "up" in log.read_text(), 5, "no client")
            found = await mps.clients(daemon)
            assert found is not None
            assert pid in found
            assert reaper.pids()["other"] not in found
            await mps.stop(reaper, daemon, ["tts"])
            assert "first" in log.read_text()
            assert text_of(tmp_path).rstrip().endswith("Exit")
            assert str(reaper.exit_of(mps.IDENTIFIER)) == "code 0"
            assert not daemon.folder.exists()
            assert set(reaper.pids()) == {"other"}
        assert not marked(mark)

    asyncio.run(main())


def test_a_daemon_for_several_gpus_leaves_its_clients_their_numbers(tmp_path: Path, mark: str) -> None:
    async def main() -> None:
        async with await Reaper.start() as reaper:
            daemon = await start(reaper, tmp_path, "0,1", False)
            assert "CUDA_VISIBLE_DEVICES" not in daemon.env
            assert "CUDA_VISIBLE_DEVICES=0,1" in text_of(tmp_path)
            await mps.stop(reaper, daemon, [])

    asyncio.run(main())
    assert not marked(mark)


def test_one_that_refuses_to_start_says_why(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_MPS", "refuse")
    before = folders()

    async def main() -> None:
        async with await Reaper.start() as reaper:
            with pytest.raises(CouldNotRun, match=r"(?s)ended \(code 1\) before it answered.*the reason"):
                await start(reaper, tmp_path)

    asyncio.run(main())
    assert not marked(mark)
    assert folders() <= before


def test_one_that_never_answers_is_given_up_and_killed(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_MPS", "mute")
    monkeypatch.setattr(mps, "_START_LIMIT_S", 0.3)
    monkeypatch.setattr(mps, "_ASK_LIMIT_S", 0.2)
    before = folders()

    async def main() -> None:
        async with await Reaper.start() as reaper:
            with pytest.raises(CouldNotRun, match="did not answer within"):
                await start(reaper, tmp_path)

    asyncio.run(main())
    assert not marked(mark)
    assert folders() <= before


def test_a_client_that_does_not_end_is_killed_before_the_daemon(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mps, "_CLIENT_LIMIT_S", 0.2)
    deaf = ["/bin/sh", "-c", 'trap "" TERM; echo up; while :; do sleep 0.02; done']

    async def main() -> None:
        async with await Reaper.start() as reaper:
            daemon = await start(reaper, tmp_path)
            log = tmp_path / "llm.log"
            await reaper.spawn("llm", deaf, log=log, env=daemon.env)
            await until_async(lambda: log.exists() and "up" in log.read_text(), 5, "no client")
            await mps.stop(reaper, daemon, ["llm"])
            assert str(reaper.exit_of("llm")) == "SIGKILL"
            assert str(reaper.exit_of(mps.IDENTIFIER)) == "code 0"
        assert not marked(mark)

    asyncio.run(main())


def test_a_daemon_that_is_held_up_is_killed_with_its_server(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here by a client that this run does not know."""
    monkeypatch.setattr(mps, "_QUIT_LIMIT_S", 0.2)

    async def main() -> None:
        async with await Reaper.start() as reaper:
            daemon = await start(reaper, tmp_path)
            await reaper.spawn("stranger", CLIENT, log=tmp_path / "s.log", env=daemon.env)
            assert await mps.clients(daemon)
            await mps.stop(reaper, daemon, [])
            assert reaper.exit_of(mps.IDENTIFIER) is not None
            assert not daemon.folder.exists()
        assert not marked(mark)

    asyncio.run(main())


def test_a_conductor_that_is_killed_leaves_no_process_and_no_folder(tmp_path: Path, mark: str) -> None:
    """The reaper sees its stdin end, as when the conductor was killed."""

    async def main() -> Path:
        async with await Reaper.start() as reaper:
            daemon = await start(reaper, tmp_path)
            await reaper.spawn("tts", CLIENT, log=tmp_path / "tts.log", env=daemon.env)
            assert await mps.clients(daemon)
            assert len(marked(mark)) >= 5  # reaper, wrapper, daemon, its server, client
        return daemon.folder

    folder = asyncio.run(main())
    assert not marked(mark)
    assert not folder.exists()


def test_a_reaper_that_is_killed_takes_the_daemon_along(tmp_path: Path, mark: str) -> None:
    async def main() -> None:
        reaper = await Reaper.start()
        daemon = await start(reaper, tmp_path)
        os.kill(reaper.pid, signal.SIGKILL)
        assert str(await reaper.wait_exit(mps.IDENTIFIER)) == "lost with the reaper"
        await mps.stop(reaper, daemon, ["tts"])
        await reaper.close()

    asyncio.run(main())
    until(lambda: not marked(mark), 5, "the daemon has outlived the reaper")


def test_the_program_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CouldNotRun, match="nvidia-compute-utils"):
        mps.find_control()


@contextmanager
def listening(folder: Path, kind: socket.SocketKind) -> Iterator[None]:
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, kind) as listener:
        listener.bind(str(folder / "control"))
        listener.listen()
        (folder / "nvidia-cuda-mps-control.pid").write_text("451\n")
        yield


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
def test_a_daemon_that_runs_already_is_found_where_cuda_looks(
    tmp_path: Path, kind: socket.SocketKind
) -> None:
    folder, none = tmp_path / "theirs", tmp_path / "none"
    with listening(folder, kind):
        for found in (find_other({mps.PIPES: str(folder)}, none), find_other({}, folder)):
            assert found is not None
            assert f"pid 451, {folder}" in str(found)
            assert found.how_to_end == f"echo quit | {mps.PIPES}={folder} nvidia-cuda-mps-control"
        assert find_other({}, none) is None
        assert find_other({mps.PIPES: str(none)}, folder) is None
    assert (folder / "control").exists()
    assert find_other({}, folder) is None  # what an ended one leaves


def test_a_named_pipe_with_a_reader_is_one_too(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "control")
    assert find_other({}, tmp_path) is None
    reader = os.open(tmp_path / "control", os.O_RDONLY | os.O_NONBLOCK)
    found = find_other({}, tmp_path)
    os.close(reader)
    assert found is not None
    assert found.pid is None
