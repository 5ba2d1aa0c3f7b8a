"""What every test is held to: it leaves no child process behind."""

from collections.abc import Iterator

import psutil
import pytest


@pytest.fixture(autouse=True)
def _no_child_left() -> Iterator[None]:
    before = set(psutil.Process().children(recursive=True))
    yield
    left = [child for child in psutil.Process().children(recursive=True) if child not in before]
    _, alive = psutil.wait_procs(left, timeout=0)
    if not alive:
        return
    described = [f"{child.pid} {' '.join(_command(child))[:120]}" for child in alive]
    for child in alive:
        child.kill()
    psutil.wait_procs(alive, timeout=5)
    pytest.fail(f"the test left processes running: {described}")


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline() or [process.name()]
    except psutil.Error:
        return ["(gone)"]
