"""A Mosquitto of the test's own on a free port, and a subscriber that keeps its session."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
BROKER = shutil.which("mosquitto", path=_PATH)
SUBSCRIBER = shutil.which("mosquitto_sub", path=_PATH)
PASSWORDS = shutil.which("mosquitto_passwd", path=_PATH)
PUBLISHER = shutil.which("mosquitto_pub", path=_PATH)
DEADLINE_S = 30.0

needs_mosquitto = pytest.mark.skipif(
    not (BROKER and SUBSCRIBER and PASSWORDS and PUBLISHER),
    reason="needs Mosquitto: apt-get install mosquitto mosquitto-clients",
)


def until(true: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Waits for what another process does. Fails after the deadline."""
    end_s = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < end_s, f"not in time: {what}"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Mosquitto:
    """Persistent: what it holds is on disk after each change. `lines` go into its configuration."""

    def __init__(self, folder: Path, *lines: str) -> None:
        self.folder, self.port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        anonymous = "false" if any(line.startswith("password_file") for line in lines) else "true"
        self._config = folder / "mosquitto.conf"
        self._config.write_text(
            "\n".join(
                [
                    f"listener {self.port} 127.0.0.1", f"allow_anonymous {anonymous}", "user root",
                    "persistence true", f"persistence_location {folder}/",
                    "autosave_interval 1", "autosave_on_changes true", "max_queued_messages 100000", *lines,
                ]
            )
            + "\n"
        )  # fmt: skip

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}/lab"

    def start(self) -> None:
        with (self.folder / "mosquitto.log").open("ab") as log:
            self._process = subprocess.Popen([str(BROKER), "-c", str(self._config)], stdout=log, stderr=log)
        until(self._listens, (self.folder / "mosquitto.log").read_text())

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "mosquitto.log").read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def stop(self, *, kill: bool = False) -> None:
        if self._process is not None:
            self._process.kill() if kill else self._process.terminate()
            self._process.wait(DEADLINE_S)
            self._process = None


@contextlib.contextmanager
def mosquitto(folder: Path, *lines: str) -> Iterator[Mosquitto]:
    broker = Mosquitto(folder, *lines)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop(kill=True)


class Subscriber:
    """What `mosquitto_sub` has printed: (topic, retained, payload)."""

    def __init__(self, output: Path) -> None:
        self._output = output

    def lines(self) -> list[tuple[str, bool, str]]:
        whole, _, _ = self._output.read_text().rpartition("\n")
        parts = [line.split(" ", 2) for line in whole.splitlines()]
        return [(topic, retained == "1", payload) for topic, retained, payload in parts]


@contextlib.contextmanager
def subscribed(
    broker: Mosquitto, *flags: str, topic: str = "lab/#", name: str = "sub"
) -> Iterator[Subscriber]:
    """A subscriber that comes back after a break, under way once its subscription is confirmed."""
    line = ["-h", "127.0.0.1", "-p", str(broker.port)]
    ready = f"{topic.removesuffix('/#')}/ready"
    subprocess.run([str(PUBLISHER), *line, "-r", "-q", "1", "-t", ready, "-m", "-"], check=True)
    output = broker.folder / f"{name}.txt"
    with output.open("wb") as out:
        process = subprocess.Popen(
            [str(SUBSCRIBER), *line, *flags, "-t", topic, "-F", "%t %r %p"], stdout=out, stderr=out
        )
    try:
        subscriber = Subscriber(output)
        until(lambda: any(t == ready for t, _, _ in subscriber.lines()), "the subscription")
        yield subscriber
    finally:
        process.kill()
        process.wait(DEADLINE_S)
