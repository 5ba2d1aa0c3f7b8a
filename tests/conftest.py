"""What every test is held to: it leaves no child process behind, and is not skipped for what was promised.

What several share: a certificate.
"""

import contextlib
import inspect
import os
import re
import shutil
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

import psutil
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip for what COTENANT_CI_STRICT names is a failure: who set it has installed that, or failed to."""
    report = yield
    if call.excinfo is not None and call.excinfo.errisinstance(pytest.skip.Exception):
        reason = str(call.excinfo.value)
        promised = re.findall(r"[\w-]+", os.environ.get("COTENANT_CI_STRICT", "").lower())
        if any(re.search(rf"\b{name}\b", reason.lower()) for name in promised):
            report.outcome, report.longrepr = "failed", f"skipped, and COTENANT_CI_STRICT names it: {reason}"
    return report


@pytest.fixture(autouse=True)
def _no_child_left(request: pytest.FixtureRequest) -> Iterator[None]:
    if inspect.iscoroutinefunction(request.function):
        # Others are under way with children of theirs: whoever runs them looks when all have ended.
        yield
        return
    before = children()
    yield
    none_left(before)


def none_left(before: set[psutil.Process]) -> None:
    """Fails for every child that was not there before, and kills it."""
    left = [child for child in children() if child not in before]
    _, alive = psutil.wait_procs(left, timeout=0)
    if not alive:
        return
    described = [f"{child.pid} {' '.join(_command(child))[:120]}" for child in alive]
    for child in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            for one in (*child.children(recursive=True), child):
                one.kill()
    psutil.wait_procs(alive, timeout=5)
    pytest.fail(f"the test left processes running: {described}")


def children() -> set[psutil.Process]:
    """Direct ones, by the kernel's own list: to look through all processes takes milliseconds, each test."""
    try:
        lists = [(task / "children").read_text() for task in Path("/proc/self/task").iterdir()]
    except OSError:  # another system, or a thread that has just ended
        return set(psutil.Process().children())
    found = set()
    for pid in " ".join(lists).split():
        with contextlib.suppress(psutil.NoSuchProcess):
            found.add(psutil.Process(int(pid)))
    return found


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1, which is its own CA, and its key, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    both = folder / "both.pem"
    both.write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return both


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline() or [process.name()]
    except psutil.Error:
        return ["(gone)"]
