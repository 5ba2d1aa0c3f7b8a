"""What the tests of the observers' processes share: one that runs, and the rows that it left."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.run_dir import manifest, reader

LIMIT_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """A running observer; `ready` is the line that it printed, where it prints one."""

    process: subprocess.Popen[str]
    run_dir: Path
    ready: dict[str, Any]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """What is on the disk by now."""
        found: list[dict[str, Any]] = reader.read(self.run_dir).tables[table].to_pylist()
        return found

    def until(self, true: Callable[[], bool]) -> None:
        """Waits for it while the process lives."""
        end_s = time.monotonic() + LIMIT_S
        while not true():
            assert self.process.poll() is None, f"it ended with {self.process.returncode}"
            assert time.monotonic() < end_s, "it did not come"
            time.sleep(0.05)

    def end(self) -> int:
        """SIGTERM, and what it then ended with."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=LIMIT_S)


@contextmanager
def observing(run_dir: Path, *command: str, says_ready: bool = True) -> Iterator[Observer]:
    """`python -m command --run-dir run_dir`."""
    if not (run_dir / "manifest.json").exists():
        manifest.write(run_dir, {"schema": 1, "tool": "cotenant"})
    whole = [sys.executable, "-m", *command, "--run-dir", str(run_dir)]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline()) if says_ready else {}
            yield Observer(process=process, run_dir=run_dir, ready=ready)
        finally:
            process.kill()
