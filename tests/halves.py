"""Cases that only reckon, on two cores: each is worked out in one of two processes, its test waits for it.

For nothing that measures time, and for enough work to pay for the start of a Python.
"""

import importlib
import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final

import pytest

Results = dict[str, Future[Any]]
HALVES: Final = 2
LIMIT_S: Final = 1200.0


@contextmanager
def halves(module: str, names: Sequence[str]) -> Iterator[Results]:
    """What `work(name)` of the module returns (as JSON has it) for each name; what fails there fails here."""
    results: Results = {name: Future() for name in names}
    processes, readers = [], []
    for share in (names[first::HALVES] for first in range(min(HALVES, len(names)))):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.halves", module, *share],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
        )
        processes.append(process)
        readers.append(threading.Thread(target=_read, args=(process, share, results)))
        readers[-1].start()
    try:
        yield results
    finally:
        for process in processes:
            process.kill()
        for reader in readers:
            reader.join()


def result(results: Results, name: str) -> Any:
    """Waits for one."""
    told = results[name].result(LIMIT_S)
    if told["failed"] is not None:
        pytest.fail(told["failed"], pytrace=False)
    return told["found"]


def asked_for(request: pytest.FixtureRequest, names: Sequence[str]) -> list[str]:
    """Those names that tests of this file have for a parameter `name` and that were not deselected."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = {
        item.callspec.params.get("name")
        for item in items
        if item.path == request.path and hasattr(item, "callspec")
    }
    return [name for name in names if name in wanted]


def _read(process: "subprocess.Popen[str]", share: Sequence[str], results: Results) -> None:
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            results[told["name"]].set_result(told)
    for name in share:
        if not results[name].done():
            results[name].set_result({"failed": f"its process ended with {process.returncode}"})


def _main(module: str, *names: str) -> None:
    work = importlib.import_module(module).work
    for name in names:
        found, failed = None, None
        try:
            found = work(name)
        except (Exception, pytest.fail.Exception):  # noqa: BLE001  whatever it is, the test says it
            failed = traceback.format_exc()
        print(json.dumps({"name": name, "found": found, "failed": failed}), flush=True)  # noqa: T201


if __name__ == "__main__":
    _main(*sys.argv[1:])
