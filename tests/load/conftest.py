"""Kernel stamps switched on for all tests of the load: the first packets after that have none."""

from collections.abc import Iterator

import pytest

from cotenant.load.sockets import keep_stamps_on


@pytest.fixture(scope="session", autouse=True)
def stamps() -> Iterator[None]:
    with keep_stamps_on():
        yield
