"""Which addresses are this machine's."""

import asyncio
import socket
from typing import Any

import psutil
import pytest

from cotenant.tenants.elsewhere import elsewhere


def resolves_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def find(_host: object, _port: object, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0))
            for one in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", find)


@pytest.mark.parametrize(
    ("addresses", "there"),
    [
        (["127.0.0.1"], False),
        (["127.0.1.1"], False),
        (["::1"], False),
        (["0.0.0.0"], False),
        (["198.51.100.7"], True),
        (["2001:db8::7"], True),
        (["::ffff:127.0.0.1"], False),
        (["198.51.100.7", "127.0.0.1"], False),
        (["fe80::1234%eth9"], True),
        ([], False),
    ],
)
def test_of_a_name(addresses: list[str], there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    resolves_to(monkeypatch, *addresses)
    assert asyncio.run(elsewhere("https://tts.example:8091/v1")) is there


def test_every_address_of_this_machine_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [
        one.address
        for each in psutil.net_if_addrs().values()
        for one in each
        if one.family in (socket.AF_INET, socket.AF_INET6)
    ]
    assert own
    for address in own:
        resolves_to(monkeypatch, address)
        assert asyncio.run(elsewhere("http://me:1")) is False


def test_a_name_that_does_not_resolve_is_not_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert asyncio.run(elsewhere("http://nowhere.invalid:1")) is False


@pytest.mark.parametrize("url", ["http://127.0.0.1:8091", "ws://[::1]:1/x", "http://localhost:1"])
def test_what_is_written_as_here(url: str) -> None:
    assert asyncio.run(elsewhere(url)) is False
