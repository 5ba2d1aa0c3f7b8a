"""The host observer: what it reads of processes, and a real one over a real child."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cotenant.observers import host
from cotenant.observers.host import (
    Process,
    busy_cpu_s,
    others_cpu_s,
    parse_stat,
    read_processes,
    trees,
)
from cotenant.run_dir import manifest, reader
from cotenant.run_dir.writer import RunWriter
from cotenant.units import NS_PER_S

STAT = (
    b"77 (a (b) c) S 5 77 70 0 -1 4194560 1 2 0 0 150 50 30 20 20 0 3 0 123456 1000 25 18446744073709551615 1"
)


def test_a_line_of_stat() -> None:
    ticks, page_bytes = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    expected = Process(pid=77, parent_pid=5, start_ticks=123456, cpu_s=250 / ticks, rss_bytes=25 * page_bytes)
    assert parse_stat(STAT) == expected


@pytest.mark.parametrize("stat", [b"", b"77 (x) S 5", b"77 x S"])
def test_what_is_not_a_line_of_stat(stat: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_stat(stat)


def process(pid: int, parent_pid: int) -> Process:
    return Process(pid=pid, parent_pid=parent_pid, start_ticks=0, cpu_s=0, rss_bytes=0)


def test_a_tree_is_a_root_with_all_descendants() -> None:
    seen = [process(1, 0), process(2, 1), process(4, 3), process(3, 2), process(5, 1)]
    found = trees({"two": 2, "five": 5, "gone": 9}, seen)
    assert {name: [p.pid for p in tree] for name, tree in found.items()} == {
        "two": [2, 3, 4],
        "five": [5],
        "gone": [],
    }


def test_what_others_used_is_what_the_run_did_not() -> None:
    stat = b"cpu  1000 200 300 9999 50 10 20 30 0 0\ncpu0 1 2 3\n"
    ticks = os.sysconf("SC_CLK_TCK")
    assert busy_cpu_s(stat) == 1560 / ticks
    # 10 conducts, 20 is the run's root, 30 its child, 40 somebody else's.
    each = 2.5
    pids = [process(10, 1), process(20, 10), process(30, 20), process(40, 1)]
    seen = [dataclasses.replace(one, cpu_s=each) for one in pids]
    assert others_cpu_s(stat, 20, seen) == pytest.approx(1560 / ticks - 3 * each)
    assert others_cpu_s(stat, 40, seen) == pytest.approx(1560 / ticks - each)
    with pytest.raises(ValueError, match="first line"):
        busy_cpu_s(b"intr 1 2 3")


def test_this_process_is_among_those_read() -> None:
    own = next(p for p in read_processes() if p.pid == os.getpid())
    assert own.parent_pid == os.getppid()
    assert own.rss_bytes > 1 << 20
    assert own.cpu_s > 0


class Clock:
    """Stands in for the module `time`: sleeping takes what was asked and a lag, and no time at all."""

    def __init__(self, lags: dict[int, int]) -> None:
        self.now_ns, self.lags = 0, lags  # lags: not before -> ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        due = next((start_ns for start_ns in self.lags if start_ns <= self.now_ns), None)
        self.now_ns += round(seconds * NS_PER_S) + (20 if due is None else self.lags.pop(due))


def test_the_worst_lag_of_each_second_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock({300_000_000: 100, 500_000_000: 7_000_000, 1_500_000_000: 3_400_000_000})
    monkeypatch.setattr(host, "time", clock)
    writer = RunWriter(tmp_path, "host")
    host.observe(writer, {"me": os.getpid()}, lambda: clock.now_ns > 6_500_000_000)
    writer.close()
    manifest.write(tmp_path, {"schema": 1, "tool": "cotenant"})
    # Seconds in which the observer did not run have no sample, and the last second was cut short.
    lags = [(ns // NS_PER_S, value) for ns, value in rows(tmp_path, "host", "sleep_lag_ns")]
    assert lags == [(1, 7_000_000), (4, 3_400_000_000), (5, 20), (6, 20), (6, 20)]
    assert [ns // NS_PER_S for ns, _ in rows(tmp_path, "me", "cpu_s")] == [0, 1, 4, 5, 6]


def test_a_real_observer_records_a_child_until_it_is_told_to_end(tmp_path: Path) -> None:
    manifest.write(tmp_path, {"schema": 1, "tool": "cotenant"})
    busy = "import subprocess, sys\nsubprocess.run([sys.executable, '-S', '-c', 'while True: pass'])"
    with (
        subprocess.Popen([sys.executable, "-S", "-c", busy], process_group=0) as child,
        observing(tmp_path, f"busy={child.pid},gone=999999999") as observer,
    ):
        end_s = time.monotonic() + 30
        while len([v for v in values(tmp_path, "busy", "cpu_s") if v > 0]) < 2:
            assert time.monotonic() < end_s, "no samples came"
            assert observer.poll() is None
            time.sleep(0.1)
        observer.send_signal(signal.SIGTERM)
        assert observer.wait(timeout=10) == 0
        os.killpg(child.pid, signal.SIGKILL)
    cpu_s = values(tmp_path, "busy", "cpu_s")
    assert cpu_s == sorted(cpu_s)
    assert cpu_s[-1] > cpu_s[0]
    assert min(values(tmp_path, "busy", "rss_bytes")) > 1 << 20
    assert values(tmp_path, "host", "sleep_lag_ns")
    assert not values(tmp_path, "gone", "cpu_s")
    whole = (tmp_path / "tables/host/host.arrows").read_bytes()
    assert whole.endswith(b"\xff\xff\xff\xff\0\0\0\0")


def observing(run_dir: Path, pids: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "cotenant.observers.host", "--run-dir", str(run_dir), "--pids", pids]
    )


def rows(run_dir: Path, source: str, metric: str) -> list[tuple[int, float]]:
    table = reader.read(run_dir).tables["host"].to_pylist()
    return [(row["t"], row["value"]) for row in table if (row["source"], row["metric"]) == (source, metric)]


def values(run_dir: Path, source: str, metric: str) -> list[float]:
    return [value for _, value in rows(run_dir, source, metric)]


def test_replicas_count_for_their_tenant_and_one_that_ended_leaves_it_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock({})
    monkeypatch.setattr(host, "time", clock)
    seen = {pid: process(pid, 1) for pid in (2, 3, 4)}
    monkeypatch.setattr(host, "read_processes", lambda: list(seen.values()))
    monkeypatch.setattr(host, "_read", lambda pid: seen.get(pid) if pid != 4 or clock.now_ns < 2e9 else None)
    for pid, cpu_s in ((2, 1.0), (3, 2.0), (4, 4.0)):
        seen[pid] = dataclasses.replace(seen[pid], cpu_s=cpu_s)
    writer = RunWriter(tmp_path, "host")
    roots = {"tts@0": 2, "tts@1": 3, "head@0": 3, "head@1": 4}
    host.observe(writer, roots, lambda: clock.now_ns > 3_500_000_000)
    writer.close()
    manifest.write(tmp_path, {"schema": 1, "tool": "cotenant"})
    assert {value for _, value in rows(tmp_path, "tts", "cpu_s")} == {3.0}
    assert [value for _, value in rows(tmp_path, "head", "cpu_s")] == [6.0, 6.0]
