"""A private MPS daemon for one run: started under the reaper, asked who its clients are, ended after them.

NVIDIA's manual, https://docs.nvidia.com/deploy/mps/: clients find a daemon by CUDA_MPS_PIPE_DIRECTORY, and
one that finds none runs on without MPS, in time slices, and does not say so. Hence `clients`.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant.errors import CouldNotRun
from cotenant.tenants.log_tail import clean_line, log_tail
from cotenant.tenants.reaper_client import Reaper

CONTROL: Final = "nvidia-cuda-mps-control"
# A tenant's name has no colon.
IDENTIFIER: Final = "sharing:mps"
PIPES: Final = "CUDA_MPS_PIPE_DIRECTORY"
LOGS: Final = "CUDA_MPS_LOG_DIRECTORY"
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
# Of its log, without `.log`.
LOG_NAME: Final = "mps"

_START_LIMIT_S: Final = 10.0
_ASK_LIMIT_S: Final = 3.0
# It answers `quit` once its last client is gone: 0.1 s without any, never with one.
_QUIT_LIMIT_S: Final = 3.0
_CLIENT_LIMIT_S: Final = 2.0
_POLL_S: Final = 0.05
# Of the 107 bytes of a socket's path; in the folder it is called `control_privileged`.
_FOLDER_BYTES: Final = 60
_PING: Final = "get_default_active_thread_percentage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A daemon that answers. `env` is what its clients need, `folder` holds its sockets."""

    pid: int
    folder: Path
    env: Mapping[str, str]


def find_control() -> str:
    """The path of NVIDIA's control program. Raises CouldNotRun where it is not installed."""
    found = shutil.which(CONTROL)
    if found is None:
        raise CouldNotRun(
            f"sharing: mps needs {CONTROL}, and it is not on PATH; install it with the NVIDIA driver's "
            "compute tools (Ubuntu: nvidia-compute-utils-<driver's number>, Debian: nvidia-cuda-mps, RPM: "
            "nvidia-driver-cuda; a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility), or set "
            "sharing: time-slice"
        )
    return found


async def start(reaper: Reaper, *, log_dir: Path, visible: str | None, pin: bool) -> Daemon:
    """Start the daemon and wait until it answers; what it says goes to `mps.log` in `log_dir`.

    `visible` is its CUDA_VISIBLE_DEVICES: UUIDs, or indices of all GPUs. The numbers of its clients count
    from the first of these. `pin`: the clients get the same value. Raises CouldNotRun.
    """
    control = find_control()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-mps-", dir=_short_folder()))
    logs = (log_dir / LOG_NAME).absolute()
    logs.mkdir(exist_ok=True)
    env = {PIPES: str(folder), LOGS: str(logs)}
    devices = {} if visible is None else {VISIBLE: visible}
    wrapper = [sys.executable, "-m", "cotenant.tenants.mps_daemon", str(folder), control, "-f"]
    try:
        pid = await reaper.spawn(IDENTIFIER, wrapper, log=log_dir / f"{LOG_NAME}.log", env={**env, **devices})
        await _wait_answer(reaper, env, log_dir)
    except BaseException:
        with contextlib.suppress(KeyError):
            reaper.signal(IDENTIFIER, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Daemon(pid=pid, folder=folder, env={**env, **(devices if pin else {})})


async def clients(daemon: Daemon) -> frozenset[int] | None:
    """The pids of all processes that work on the GPU through the daemon; None where it does not say."""
    servers = await ask(daemon.env, "get_server_list")
    if servers is None:
        return None
    found: set[int] = set()
    for server in _pids(servers):
        listed = await ask(daemon.env, f"get_client_list {server}")
        if listed is None:
            return None
        found |= _pids(listed)
    return frozenset(found)


async def stop(reaper: Reaper, daemon: Daemon, users: Sequence[str]) -> None:
    """End the clients with the ids `users`, then the daemon. What does not end in time is killed.

    In this order: a client whose daemon ends before it fails with a CUDA error.
    """
    await _end(reaper, users, signal.SIGTERM)
    await _end(reaper, users, signal.SIGKILL)
    if reaper.exit_of(IDENTIFIER) is None:
        if await ask(daemon.env, "quit", limit_s=_QUIT_LIMIT_S) is not None:
            await _wait_ends(reaper, [IDENTIFIER])
        await _end(reaper, [IDENTIFIER], signal.SIGTERM)
        await _end(reaper, [IDENTIFIER], signal.SIGKILL)
    shutil.rmtree(daemon.folder, ignore_errors=True)


async def ask(env: Mapping[str, str], command: str, *, limit_s: float = _ASK_LIMIT_S) -> str | None:
    """What the daemon of `env` answers to a command; None where none answers in time."""
    try:
        process = await asyncio.create_subprocess_exec(
            CONTROL,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, **env},
        )
    except OSError:
        return None
    try:
        out, _ = await asyncio.wait_for(process.communicate(f"{command}\n".encode()), limit_s)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out.decode(errors="replace") if process.returncode == 0 else None


async def _wait_answer(reaper: Reaper, env: Mapping[str, str], log_dir: Path) -> None:
    loop = asyncio.get_running_loop()
    end_s = loop.time() + _START_LIMIT_S
    while True:
        answer = await ask(env, _PING)
        ended = reaper.exit_of(IDENTIFIER)
        if ended is not None:
            why = f"ended ({ended}) before it answered"
        elif answer is not None and answer.strip():
            return
        elif loop.time() >= end_s:
            said = "" if answer is None else f" (it said {clean_line(answer.strip())!r})"
            why = f"did not answer within {_START_LIMIT_S:.0f} s{said}"
        else:
            await asyncio.sleep(_POLL_S)
            continue
        raise CouldNotRun(
            f"the MPS daemon of this run {why}; see that `{CONTROL} -f` starts by hand, or set "
            f"sharing: time-slice{log_tail(log_dir, LOG_NAME)}"
        )


async def _end(reaper: Reaper, identifiers: Sequence[str], number: signal.Signals) -> None:
    alive = [name for name in identifiers if name in reaper.pids()]
    for name in alive:
        reaper.signal(name, number)
    await _wait_ends(reaper, alive)


async def _wait_ends(reaper: Reaper, identifiers: Sequence[str]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLIENT_LIMIT_S):
            await asyncio.gather(*map(reaper.wait_exit, identifiers))


def _pids(text: str) -> set[int]:
    return {int(line) for line in text.split() if line.isdecimal()}


def _short_folder() -> str | None:
    return None if len(os.fsencode(tempfile.gettempdir())) <= _FOLDER_BYTES else "/tmp"
