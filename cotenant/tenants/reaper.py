"""The reaper: a small process that starts every child of a run and lets none outlive the conductor.

Run as `python -m cotenant.tenants.reaper [SOCKET]`. One JSON object a line: on stdin
`{"do": "start", "id", "argv", "log", "env"?, "nice"?, "cpus"?}` and `{"do": "signal", "id", "sig"}`
(to the child's group); on stdout `{"event": "started", "id", "pid"}`, `{"event": "failed", "id", "error"}`
and `{"event": "exited", "id", "code", "signal"}` (one of the two is null). When stdin ends, however its
writer died, all groups get TERM, what is left KILL, every descendant included, SOCKET and its folder go, and
the reaper ends: within 3 s in all.

Each child leads a process group in the conductor's session: niceness does not act across sessions
(autogroups), so there is no setsid. As a child subreaper the reaper inherits orphans, whatever their group or
session, so that the chain of parents leads from every descendant to it. Only the standard library is
imported: it must start at once.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_TERM_S: Final = 1.2
_KILL_S: Final = 2.7
_POLL_S: Final = 0.02

# linux/prctl.h
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36

_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Serve stdin until it ends, then end everything."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    ids: dict[int, str] = {}
    try:
        _serve(ids)
    finally:
        _end_all(ids)
        for path in sys.argv[1:]:
            _remove_socket(Path(path))


def _serve(ids: dict[int, str]) -> None:
    """Obey commands and report exits until stdin ends. `ids` maps the pid of each live child to its id."""
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    pending = b""
    while True:
        readable, _, _ = select.select([0, wake_read], [], [])
        if wake_read in readable:
            os.read(wake_read, 4096)
            _reap(ids)
        if 0 in readable:
            data = os.read(0, 1 << 16)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                _obey(json.loads(line), ids)


def _obey(command: dict[str, Any], ids: dict[int, str]) -> None:
    identifier = command["id"]
    pid = next((pid for pid, known in ids.items() if known == identifier), None)
    if command["do"] == "signal":
        if pid is not None:  # a child that has ended meanwhile is no fault; its exit was reported
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, command["sig"])
        return
    try:
        if pid is not None:
            raise ValueError(f"{identifier} is running already")
        pid = _start(command)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        _tell(event="failed", id=identifier, error=str(error))
        return
    ids[pid] = identifier
    _tell(event="started", id=identifier, pid=pid)


def _start(command: dict[str, Any]) -> int:
    """Start one child with its output appended to its log; its pid, which is its group too."""
    parent_pid = os.getpid()

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number in (*_IGNORED, signal.SIGQUIT, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_DFL)  # what is ignored would stay so in the new program
        # Should even the reaper be killed, its children go with it.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:
            os._exit(1)
        if command.get("nice"):
            os.nice(command["nice"])
        if command.get("cpus"):
            os.sched_setaffinity(0, command["cpus"])

    log = Path(command["log"])
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab", buffering=0) as output:
        process = subprocess.Popen(
            command["argv"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=command.get("env"),
            process_group=0,
            preexec_fn=prepare,
        )
    process.returncode = 0  # `_reap` waits for all children; this object must neither wait nor warn
    return process.pid


def _reap(ids: dict[int, str]) -> None:
    """Collect every child that has ended, inherited orphans too, and report those that were started here."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        identifier = ids.pop(pid, None)
        if identifier is not None:
            code = os.waitstatus_to_exitcode(status)
            by_signal = code < 0
            _tell(
                event="exited",
                id=identifier,
                code=None if by_signal else code,
                signal=-code if by_signal else None,
            )


def _tell(**event: Any) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody is left to be told; stdin has ended or is about to
        os.write(1, (json.dumps(event) + "\n").encode())


def _end_all(ids: dict[int, str]) -> None:
    """TERM to all groups, KILL to them and to every descendant left, until none is or the time is up."""
    started_s = time.monotonic()
    _signal_groups(ids, signal.SIGTERM)
    while _remaining(ids) and time.monotonic() < started_s + _TERM_S:
        time.sleep(_POLL_S)
    _signal_groups(ids, signal.SIGKILL)
    # Again and again: a descendant may have forked since it was seen.
    while (left := _remaining(ids)) and time.monotonic() < started_s + _KILL_S:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _remove_socket(path: Path) -> None:
    """What a conductor that was killed cannot remove itself; a folder that holds anything else stays."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()


def _signal_groups(ids: dict[int, str], number: int) -> None:
    for pid in ids:  # not yet waited for, so the number cannot have become another group's
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)


def _remaining(ids: dict[int, str]) -> set[int]:
    """The descendants that are left: the living, and zombies that are ours to collect and report.

    Zombies of others do not count: they become ours once their parents end.
    """
    _reap(ids)
    children: dict[int, list[tuple[int, str]]] = {}
    for pid, parent_pid, state in _processes():
        children.setdefault(parent_pid, []).append((pid, state))
    left: set[int] = set()
    own_pid = os.getpid()
    todo = [own_pid]
    while todo:
        parent_pid = todo.pop()
        for pid, state in children.get(parent_pid, ()):
            todo.append(pid)
            if state not in "ZX" or parent_pid == own_pid:
                left.add(pid)
    return left


def _processes() -> Iterator[tuple[int, int, str]]:
    """(pid, parent's pid, state) of every process, from /proc/<pid>/stat (proc(5))."""
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                stat = Path(entry.path, "stat").read_bytes()
            except OSError:
                continue
            # The command's name stands in parentheses and may hold spaces and parentheses itself.
            state, parent_pid = stat[stat.rindex(b")") + 2 :].split(maxsplit=2)[:2]
            yield int(entry.name), int(parent_pid), state.decode()


if __name__ == "__main__":
    main()
