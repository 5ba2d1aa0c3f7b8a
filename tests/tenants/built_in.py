"""Starts a built-in server's real process for a test and ends it, whatever the test does."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LIMIT_S = 60
# Generators that a test serves with `--from generators:NAME`.
GENERATORS = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that said it is ready."""

    url: str
    ready: dict[str, Any]
    process: "subprocess.Popen[str]"

    def stop(self) -> int:
        """SIGTERM, then its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_LIMIT_S)


@contextmanager
def running(kind: str, *arguments: str) -> Iterator[Running]:
    """The server of this kind in its tiny shape, with one thread, on a free port."""
    command = [sys.executable, "-m", "cotenant.tenants.builtin.server", kind, "--threads", "1", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        yield Running(url=ready["url"], ready=ready, process=process)
    finally:
        process.kill()
        process.wait(_LIMIT_S)
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def serving(kind: str, source: str, log: Path, *arguments: str) -> Iterator[Running]:
    """The server of a generator in `generators`, whose standard error goes to `log`."""
    command = [sys.executable, "-m", "cotenant.tenants.builtin.server", kind, "--from", source, *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with log.open("wb") as err:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=err, text=True, cwd=GENERATORS, env=environment
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, log.read_text()
        ready = json.loads(line)
        yield Running(url=ready["url"], ready=ready, process=process)
    finally:
        process.kill()
        process.wait(_LIMIT_S)
        if process.stdout is not None:
            process.stdout.close()
