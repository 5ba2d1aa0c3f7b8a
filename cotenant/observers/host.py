"""The host observer: CPU time and memory of the run's processes, and how late this host wakes a sleeper.

Run as `python -m cotenant.observers.host --run-dir DIR --pids name=pid,...`; ends on SIGTERM or SIGINT. Each
second it writes to the table `host`, for each tenant (`name@number` is one of its replicas) with all that
descends from it, `cpu_s` (cumulative, as long as the trees are there) and `rss_bytes` (shared pages count in
each process), and as source `host` the metric `sleep_lag_ns`: how much longer than asked the longest of its
sleeps in that second took. Every 5 s it writes `others_cpu_s` too, the CPU time of all that is not this run
since the machine started, the hypervisor's steal included.
"""

import argparse
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant.run_dir.writer import RunWriter
from cotenant.units import NS_PER_S

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# All processes are looked through every so often only: that is what costs time.
_SCAN_NS: Final = 5 * NS_PER_S
# A short sleep and a rest, both watched: 1 ms sleeps alone would cost over 1 % of a core.
_SLEEPS_NS: Final = (1_000_000, 9_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One line of /proc/<pid>/stat (proc(5)); CPU time is its own and that of children it has waited for."""

    pid: int
    parent_pid: int
    start_ticks: int
    cpu_s: float
    rss_bytes: int


def parse_stat(stat: bytes) -> Process:
    """Raises ValueError for what is not such a line."""
    # The name stands in parentheses and may hold spaces and parentheses itself; field 3 follows it.
    fields = stat[stat.rindex(b")") + 1 :].split()
    if len(fields) < 22:
        raise ValueError("not a line of /proc/<pid>/stat")
    return Process(
        pid=int(stat.split(maxsplit=1)[0]),
        parent_pid=int(fields[1]),
        start_ticks=int(fields[19]),
        cpu_s=sum(map(int, fields[11:15])) / _TICKS_PER_S,
        rss_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def trees(roots: Mapping[str, int], processes: Iterable[Process]) -> dict[str, list[Process]]:
    """Each root's process, where it is there, with all its descendants."""
    by_pid = {process.pid: process for process in processes}
    children: dict[int, list[int]] = {}
    for process in by_pid.values():
        children.setdefault(process.parent_pid, []).append(process.pid)
    found = {}
    for name, root in roots.items():
        members, todo = [], [root]
        while todo:
            pid = todo.pop()
            if pid in by_pid:
                members.append(by_pid[pid])
                todo += children.get(pid, ())
        found[name] = members
    return found


def tenant_of_root(name: str) -> str:
    """The tenant of a process's id: a replica's is `tenant@number`."""
    return name.partition("@")[0]


def busy_cpu_s(stat: bytes) -> float:
    """CPU seconds of the whole machine since it started, from the first line of /proc/stat (proc(5)): all but
    idle and the wait for a disk. Raises ValueError for what is not such a line."""
    name, *fields = stat.split(b"\n", 1)[0].split()
    if name != b"cpu" or len(fields) < 8:
        raise ValueError("not the first line of /proc/stat")
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_S


def others_cpu_s(stat: bytes, run_pid: int, processes: Iterable[Process]) -> float:
    """Of the machine's CPU seconds those that are not of `run_pid`, its parent (which conducts the run) and
    all that descends from them."""
    seen = list(processes)
    parents = {process.pid: process.parent_pid for process in seen}
    root = parents.get(run_pid, run_pid)
    ours = trees({"run": root if root > 1 else run_pid}, seen)["run"]
    return busy_cpu_s(stat) - sum(process.cpu_s for process in ours)


def observe(
    writer: RunWriter, roots: Mapping[str, int], stopped: Callable[[], bool], run_pid: int | None = None
) -> None:
    """Write a sample each second until `stopped`, on an absolute grid; the caller closes the writer."""
    tick_ns = scan_ns = time.monotonic_ns()
    members: dict[str, list[Process]] = {}
    known: dict[str, Process] = {}
    while not stopped():
        if tick_ns >= scan_ns:
            processes = read_processes()
            members = trees(roots, processes)
            scan_ns += _SCAN_NS
            if run_pid is not None:
                others_s = others_cpu_s(Path("/proc/stat").read_bytes(), run_pid, processes)
                writer.append(
                    "host", t=time.monotonic_ns(), source="host", metric="others_cpu_s", value=others_s
                )
        t_ns = time.monotonic_ns()
        for name, now in _by_tenant(members, known).items():
            writer.append("host", t=t_ns, source=name, metric="cpu_s", value=sum(p.cpu_s for p in now))
            rss_bytes = sum(process.rss_bytes for process in now)
            writer.append("host", t=t_ns, source=name, metric="rss_bytes", value=float(rss_bytes))
        writer.flush()
        tick_ns += NS_PER_S
        if (lag_ns := _worst_lag_ns(tick_ns, stopped)) is not None:
            writer.append(
                "host", t=time.monotonic_ns(), source="host", metric="sleep_lag_ns", value=float(lag_ns)
            )
        while tick_ns + NS_PER_S <= time.monotonic_ns():
            tick_ns += NS_PER_S  # seconds in which this process did not run at all stay without a sample


def _by_tenant(members: Mapping[str, list[Process]], known: dict[str, Process]) -> dict[str, list[Process]]:
    """Tenant -> what its trees are now. One with a replica that has ended is left out: its sum would fall."""
    found: dict[str, list[Process]] = {}
    broken = set()
    for name, tree in members.items():
        now = [process for old in tree if (process := _again(old)) is not None]
        # A pid may come back as another process once the first has ended.
        if now and now[0].start_ticks == known.setdefault(name, now[0]).start_ticks:
            found.setdefault(tenant_of_root(name), []).extend(now)
        else:
            broken.add(tenant_of_root(name))
    return {name: now for name, now in found.items() if name not in broken}


def read_processes() -> list[Process]:
    """Every process of this host that can be seen."""
    pids = (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdecimal())
    return [process for pid in pids if (process := _read(pid)) is not None]


def _worst_lag_ns(end_ns: int, stopped: Callable[[], bool]) -> int | None:
    """The most that a sleep until `end_ns` took beyond what was asked; None if there was none."""
    worst_ns: int | None = None
    before_ns = time.monotonic_ns()
    while before_ns < end_ns and not stopped():
        for sleep_ns in _SLEEPS_NS:
            time.sleep(sleep_ns / NS_PER_S)
            after_ns = time.monotonic_ns()
            worst_ns = max(worst_ns or 0, after_ns - before_ns - sleep_ns)
            before_ns = after_ns
    return worst_ns


def _again(old: Process) -> Process | None:
    process = _read(old.pid)
    return process if process is not None and process.start_ticks == old.start_ticks else None


def _read(pid: int) -> Process | None:
    try:
        return parse_stat(Path(f"/proc/{pid}/stat").read_bytes())
    except (OSError, ValueError):
        return None


def pids_by_name(text: str) -> dict[str, int]:
    """`name=pid,name=pid` as the observers' --pids has it. Raises ValueError where a pid is no number."""
    pairs = (item.rpartition("=") for item in text.split(",") if item)
    return {name: int(pid) for name, _, pid in pairs}


def main() -> None:
    """The process's entry."""
    parser = argparse.ArgumentParser(prog="cotenant.observers.host", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--pids", type=pids_by_name, default={}, help="name=pid,name=pid")
    parser.add_argument("--run-pid", type=int, help="the run is this process, its parent and their children")
    options = parser.parse_args()
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda seen, _: signals.append(seen))
    writer = RunWriter(options.run_dir, "host", audio_limit_bytes=None)
    try:
        observe(writer, options.pids, lambda: bool(signals), options.run_pid)
    finally:
        writer.close()


if __name__ == "__main__":
    main()
