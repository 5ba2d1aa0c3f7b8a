"""Tests that are coroutines: a module's run two at once, for most of a run is waiting.

Only for tests that ask what a run says and leaves, and not how long anything took. All run in one loop in the
order of the file, each in a `folder` of its own; a test waits for itself alone, and fails by itself alone.
"""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import children, none_left

AT_ONCE: Final = 2
LIMIT_S: Final = 120.0


class Abreast:
    """The coroutine tests of a module that were asked for, under way."""

    def __init__(self, items: list[pytest.Function], factory: pytest.TempPathFactory) -> None:
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._turn = asyncio.Semaphore(AT_ONCE)
        self.folders = {item.nodeid: factory.mktemp("abreast") for item in items}
        self._tasks = {item.nodeid: self._loop.create_task(self._one(item)) for item in items}

    async def _one(self, item: pytest.Function) -> None:
        arguments: dict[str, Any] = {"folder": self.folders[item.nodeid]}
        if hasattr(item, "callspec"):
            arguments |= item.callspec.params
        async with self._turn, asyncio.timeout(LIMIT_S):
            await item.obj(**arguments)

    def result(self, item: pytest.Function) -> None:
        """Waits for one, the others going on meanwhile. Raises what it raised."""
        self._loop.run_until_complete(self._tasks[item.nodeid])

    def close(self) -> None:
        """Ends those that nobody waited for."""
        self._runner.close()


@pytest.fixture(scope="module")
def abreast(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Abreast]:
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    mine = [item for item in items if item.path == request.path and inspect.iscoroutinefunction(item.obj)]
    before = children()
    running = Abreast(mine, tmp_path_factory)
    try:
        yield running
    finally:
        running.close()
        none_left(before)


@pytest.fixture
def folder(abreast: Abreast, request: pytest.FixtureRequest) -> Path:
    """A coroutine test's own."""
    return abreast.folders[request.node.nodeid]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """A coroutine test has begun already: this waits for its end."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    running = pyfuncitem.funcargs["abreast"]
    assert isinstance(running, Abreast)
    running.result(pyfuncitem)
    return True
