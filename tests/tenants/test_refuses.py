"""When nothing listens at a service's address, and when that is not known."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from cotenant.tenants.attach import refuses

NO_FAMILY = 999


@pytest.fixture
def listening() -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


@pytest.fixture
def closed() -> tuple[str, int]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address: tuple[str, int] = bound.getsockname()
    return address


def refused(monkeypatch: pytest.MonkeyPatch, *found: tuple[int, tuple[str, int]]) -> bool:
    """Whether a host with these families and addresses refuses."""

    def find(*_: Any, **__: Any) -> list[tuple[Any, ...]]:
        return [(family, socket.SOCK_STREAM, 6, "", address) for family, address in found]

    monkeypatch.setattr(socket, "getaddrinfo", find)
    return asyncio.run(refuses("http://tts.example:8091"))


def test_all_of_its_addresses_refuse(
    monkeypatch: pytest.MonkeyPatch, listening: tuple[str, int], closed: tuple[str, int]
) -> None:
    shut, open_ = (socket.AF_INET, closed), (socket.AF_INET, listening)
    assert refused(monkeypatch, shut)
    assert refused(monkeypatch, shut, shut)
    assert not refused(monkeypatch, open_)
    assert not refused(monkeypatch, shut, open_)


def test_addresses_that_this_machine_has_no_way_to_do_not_count(
    monkeypatch: pytest.MonkeyPatch, listening: tuple[str, int], closed: tuple[str, int]
) -> None:
    nowhere = (NO_FAMILY, closed)
    assert refused(monkeypatch, nowhere, (socket.AF_INET, closed))
    assert not refused(monkeypatch, nowhere)
    assert not refused(monkeypatch, nowhere, (socket.AF_INET, listening))
    assert not refused(monkeypatch)


def test_other_failures_say_nothing(monkeypatch: pytest.MonkeyPatch, closed: tuple[str, int]) -> None:
    # That family has no TCP.
    assert not refused(monkeypatch, (socket.AF_UNIX, closed), (socket.AF_INET, closed))
    assert not asyncio.run(refuses("http://" + "a" * 70 + ".example:8091"))
