"""The canary: what it writes of a probe, and a real process on the host's CPU."""

import json
import threading
from pathlib import Path

import pytest

from cotenant.observers import gpu_canary, grid
from cotenant.run_dir import manifest, reader
from cotenant.run_dir.writer import RunWriter
from tests.observers.processes import observing

PERIOD_NS = 5_000_000


class Clock:
    """Stands in for `time`: it goes on by what is waited for and by what a probe takes."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns


class Stop(threading.Event):
    def __init__(self, clock: Clock, end_ns: int) -> None:
        super().__init__()
        self.clock, self.end_ns = clock, end_ns

    def wait(self, timeout: float | None = None) -> bool:
        self.clock.now_ns += round((timeout or 0) * 1e9)
        return self.clock.now_ns >= self.end_ns


def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    took_ns: list[int | None],
    rest: float = 0,
    ticks: int = 9,
) -> list[tuple[int, int]]:
    clock, takes = Clock(), iter(took_ns)
    monkeypatch.setattr(gpu_canary, "time", clock)
    monkeypatch.setattr(grid, "time", clock)

    def probe() -> None:
        took = next(takes)
        if took is None:
            raise RuntimeError("CUDA error: unspecified launch failure")
        clock.now_ns += took

    manifest.write(tmp_path, {"schema": 1, "tool": "cotenant"})
    writer = RunWriter(tmp_path, "canary", audio_limit_bytes=None)
    try:
        gpu_canary.observe(writer, "cuda:0", probe, PERIOD_NS, Stop(clock, PERIOD_NS * ticks), rest=rest)
    finally:
        writer.close()
    rows = reader.read(tmp_path).tables["canary"].to_pylist()
    assert {row["device"] for row in rows} == {"cuda:0"}
    return [(row["t"], row["latency"]) for row in rows]


def test_one_kernel_a_tick_and_none_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(tmp_path, monkeypatch, [100, 12_000_000, 200, 200, 200, 200, 200])
    # 12 ms swallow the ticks at 15 and 20 ms.
    assert found == [
        (5_000_000, 100), (10_000_000, 12_000_000), (25_000_000, 200), (30_000_000, 200),
        (35_000_000, 200), (40_000_000, 200),
    ]  # fmt: skip


def test_it_stays_away_for_a_multiple_of_each_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(tmp_path, monkeypatch, [100, 4_000_000, 1_000_000, 8_000_000, 200], rest=3)
    # After 4 ms nothing for 12 ms, to 26 ms; after 1 ms nothing to 34 ms; after 8 ms nothing to the end.
    assert found == [
        (5_000_000, 100),
        (10_000_000, 4_000_000),
        (30_000_000, 1_000_000),
        (35_000_000, 8_000_000),
    ]


def test_after_a_long_wait_it_is_soon_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(tmp_path, monkeypatch, [2_000_000_000, 100, 100], rest=3, ticks=452)
    # Back 250 ms after the end of the wait, not after 6 s.
    assert found == [(5_000_000, 2_000_000_000), (2_255_000_000, 100)]


def test_a_lost_gpu_leaves_a_row_without_a_latency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="launch failure"):
        run(tmp_path, monkeypatch, [100, None])
    rows = reader.read(tmp_path).tables["canary"].to_pylist()
    assert [row["latency"] for row in rows] == [100, None]


def test_a_machine_without_cuda_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    device = f"cuda:{torch.cuda.device_count() + 7}"
    assert gpu_canary.main(["--run-dir", str(tmp_path), "--device", device]) == 5
    said = json.loads(capsys.readouterr().out)
    assert (said["ready"], said["kind"]) == (False, "no_device")
    assert said["message"]
    assert not (tmp_path / "tables").exists()


def test_a_real_canary_on_the_cpu(tmp_path: Path) -> None:
    with observing(tmp_path, "cotenant.observers.gpu_canary", "--device", "cpu") as observer:
        assert observer.ready["ready"] is True
        assert observer.ready["device"] == "cpu"
        observer.until(lambda: len(observer.rows("canary")) >= 50)
        assert observer.end() == 0
    rows = observer.rows("canary")
    assert {row["device"] for row in rows} == {"cpu"}
    assert all(row["latency"] > 0 for row in rows)
    times = [row["t"] for row in rows]
    assert times == sorted(times)
