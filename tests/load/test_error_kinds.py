"""Every kind of failure at every kind of service: recorded once, with a reason, and a hint for it there."""

import asyncio
import inspect
from collections import Counter
from typing import Any, Final

import pytest

from cotenant.errors import HINTS
from cotenant.records import ERROR_KINDS
from cotenant.testing.truth_server import Script
from tests.load.failing import (
    BUSY,
    LIMIT_NS,
    RESET,
    SERVICES,
    STATUS,
    answered,
    asked,
    failed,
    failing_stage,
    met_by,
)
from tests.load.rig import run


def check(row: dict[str, Any], kind: str, end: str = "error") -> None:
    assert (row["end"], row["error_kind"]) == (end, kind)
    assert row["error"]
    assert HINTS[kind]
    assert row["done"] >= row["due"]


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize(
    ("url", "kind"), [("http://no-such-host.invalid", "dns"), ("http://127.0.0.1:1", "refused")]
)
def test_no_connection(name: str, url: str, kind: str) -> None:
    check(run(asked(SERVICES[name], url)), kind)


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("kind", ["tls"])
def test_no_tls_behind_https(name: str, kind: str) -> None:
    async def work() -> dict[str, Any]:
        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Plain\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            return await asked(SERVICES[name], f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")

    check(run(work()), kind)


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize(("kind", "status"), [(kind, one) for kind in STATUS for one in STATUS[kind]])
def test_a_refusal_by_its_status(name: str, kind: str, status: int) -> None:
    script = Script(status=status, framing="length", pieces=[(0, b"told why")])
    row = run(answered(SERVICES[name], script))
    check(row, kind)
    assert row["status"] == status
    assert str(status) in row["error"]


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("kind", ["timeout"])
def test_silence(name: str, kind: str) -> None:
    check(run(answered(SERVICES[name], Script(head=False, ending="silent"), LIMIT_NS)), kind)


# Samples and pictures alone leave no room for words.
WORDLESS: Final = {(name, "in_stream") for name, service in SERVICES.items() if service.in_stream is None}
LATER: Final = [
    (name, kind)
    for kind in ("truncated", "empty", "protocol", "in_stream")
    for name in SERVICES
    if (name, kind) not in WORDLESS
]


@pytest.mark.parametrize(("name", "kind"), LATER)
def test_after_the_answer_began(name: str, kind: str) -> None:
    row = run(answered(SERVICES[name], getattr(SERVICES[name], kind)))
    check(row, kind, "truncated" if kind == "truncated" else "error")
    assert kind != "in_stream" or "out of memory" in row["error"]


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("script", [Script(head=False, ending="close"), RESET])
def test_no_answer_at_all(name: str, script: Script) -> None:
    check(run(answered(SERVICES[name], script)), "protocol")


@pytest.mark.parametrize("fault", ["503", "reset", "truncated"])
@pytest.mark.parametrize("name", SERVICES)
def test_nothing_is_sent_twice(name: str, fault: str) -> None:
    service = SERVICES[name]
    row, met = run(met_by(service, {"503": BUSY, "reset": RESET, "truncated": service.truncated}[fault]))
    assert row["end"] in ("error", "truncated")
    assert met.connections == 1
    assert met.ids == [f"run-1-{row['stream']}"]


def test_what_fails_in_a_stage_has_as_many_rows_as_its_servers_saw_requests() -> None:
    ids, rows = run(failing_stage())
    assert set(Counter(ids).values()) == {1}
    assert {f"run-1-{row['stream']}" for row in failed(rows)} <= set(ids)
    # What was under way when it ended may have been seen or not.
    assert set(ids) <= {f"run-1-{row['stream']}" for row in rows.rows["streams"]}


def parameters(test: Any) -> list[dict[str, Any]]:
    """All that pytest calls a test with."""
    found: list[dict[str, Any]] = [{}]
    for mark in test.pytestmark:
        names, values = mark.args
        keys = (names,) if isinstance(names, str) else names
        sets = [value if len(keys) > 1 else (value,) for value in values]
        found = [one | dict(zip(keys, each, strict=True)) for one in found for each in sets]
    return found


def test_no_kind_was_left_out() -> None:
    tests = [test for name, test in globals().items() if name.startswith("test_")]
    tests = [test for test in tests if "kind" in inspect.signature(test).parameters]
    tried = {(one["name"], one["kind"]) for test in tests for one in parameters(test)}
    assert {(name, kind) for name in SERVICES for kind in ERROR_KINDS} - tried == WORDLESS
    assert tried.isdisjoint(WORDLESS)
