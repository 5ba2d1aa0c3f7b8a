"""Waiting for tenants: a free port before they start, readiness after, idleness between the stages."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from cotenant.errors import CouldNotRun, ServiceError
from cotenant.tenants.http_probe import HEALTH, Answer, get, http_url
from cotenant.tenants.log_tail import log_tail
from cotenant.tenants.reaper_client import Reaper
from cotenant.units import NS_PER_S, duration_text
from cotenant.wire.json_values import count, json_object, json_value

Tell = Callable[[str], None]

_POLL_S: Final = 0.05
_HEALTH_POLL_S: Final = 0.25
_HEALTH_LIMIT_S: Final = 5.0
_CONNECT_LIMIT_S: Final = 2.0
# Whoever has waited for so long without a word wants one: for a program of the user's; for our own server,
# which takes a while; and from then on each time that the wait has doubled.
_QUIET_S: Final = 2.0
_QUIET_BUILTIN_S: Final = 30.0
_AGAIN_S: Final = 30.0
_WELL: Final = (200, 204)
# With these a server says that it serves and has no such path, or that it asks for a key there; Python's own
# http.server says 501 where it has no GET. What is left says that it is not ready.
_NOT_YET: Final = (408, 425, 429)
_NO_GET: Final = 501
_READY_READ_BYTES: Final = 1 << 20
_METRICS_BYTES: Final = 4 << 20
_REQUESTS_RE: Final = re.compile(
    r"^vllm:num_requests_(?:running|waiting)\{[^}]*\} (\d{1,9}(?:\.\d{1,9})?)$", re.MULTILINE
)


def silent(_text: str) -> None:
    """Nobody is told."""


async def wait_ready_line(
    reaper: Reaper,
    identifier: str,
    log: Path,
    *,
    limit_ns: int,
    offset_bytes: int = 0,
    tell: Tell = silent,
) -> Mapping[str, Any]:
    """The ready line that a built-in server prints, from its log behind `offset_bytes`.

    Raises CouldNotRun when the server ends or the limit passes before it is there.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + limit_ns / NS_PER_S
    still = _Still(identifier, limit_ns, tell, quiet_s=_QUIET_BUILTIN_S)
    while True:
        ended = reaper.exit_of(identifier)
        ready = _ready_line(log, offset_bytes)
        if ended is not None:
            raise CouldNotRun(
                f"{identifier} ended ({ended}) before it was ready{log_tail(log.parent, identifier)}"
            )
        if ready is not None:
            return ready
        if loop.time() >= end_s:
            raise _never_ready(identifier, f"was not ready within {duration_text(limit_ns)}", log.parent)
        still.waiting("its ready line")
        await asyncio.sleep(_POLL_S)


async def check_port_free(name: str, url: str) -> None:
    """Raises CouldNotRun if something listens where a tenant is about to be started."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme in ("https", "wss") else 80)
    try:
        async with asyncio.timeout(_CONNECT_LIMIT_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        pass  # a listener whose queue is full
    except OSError:
        return
    else:
        writer.transport.abort()
    raise CouldNotRun(
        f"{name}: port {port} of {host} is in use; end what listens there (`ss -ltnp 'sport = :{port}'` "
        f"shows it), or give {name} another port in tenants.{name}.url and in its command"
    )


async def wait_healthy(
    reaper: Reaper,
    identifier: str,
    url: str,
    path: str | None,
    *,
    limit_ns: int,
    log_dir: Path,
    trusted: aiohttp.TCPConnector | None = None,
    tell: Tell = silent,
) -> int:
    """Wait until GET `path` answers 200 (or 204), and return its status.

    With None it is /health, and a status that says that there is no such path is one of a server that serves:
    its warm-up shows whether it does. `tell` is told what is waited for. Raises CouldNotRun when the child
    ends or the limit passes first.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + limit_ns / NS_PER_S
    address = http_url(url, HEALTH if path is None else path)
    still = _Still(identifier, limit_ns, tell, quiet_s=_QUIET_S)
    async with aiohttp.ClientSession(connector=trusted) as session:
        while True:
            ended = reaper.exit_of(identifier)
            if ended is not None:
                raise _never_ready(identifier, f"ended ({ended}) before it was ready", log_dir)
            answer = await get(session, address, _HEALTH_LIMIT_S, body_bytes=0)
            if answer.status in _WELL:
                return answer.status
            if answer.status is not None and path is None and _serves(answer.status):
                tell(_taken_for_ready(identifier, address, answer))
                return answer.status
            if loop.time() >= end_s:
                why = f"was not ready within {duration_text(limit_ns)}: {address}: {answer}"
                raise _never_ready(identifier, f"{why}; {_way_out(identifier, answer)}", log_dir)
            still.waiting(f"{address} ({answer})")
            await asyncio.sleep(_HEALTH_POLL_S)


def _serves(status: int) -> bool:
    """Whether a status of the path that nobody has named is one of a server that serves."""
    return status == _NO_GET or (300 <= status < 500 and status not in _NOT_YET)


def _taken_for_ready(name: str, address: str, answer: Answer) -> str:
    return (
        f"{name}: {address}: {answer}, so it counts as started and its warm-up shows whether it is "
        f"(tenants.{name}.ready.path names a path that answers 200 once it is)"
    )


def _way_out(name: str, answer: Answer) -> str:
    longer = f"tenants.{name}.ready.within gives it longer"
    if answer.status is None:
        return f"correct tenants.{name}.url if it serves somewhere else; {longer}"
    path = f"tenants.{name}.ready.path names a path that answers 200 once it is"
    return f"{path}, and without one its first answer counts; {longer}"


class _Still:
    """Says now and then that a tenant is still waited for."""

    def __init__(self, identifier: str, limit_ns: int, tell: Tell, *, quiet_s: float) -> None:
        self._identifier, self._limit_ns, self._tell = identifier, limit_ns, tell
        self._begun_s = asyncio.get_running_loop().time()
        self._next_s = quiet_s

    def waiting(self, what: str) -> None:
        waited_s = asyncio.get_running_loop().time() - self._begun_s
        if waited_s >= self._next_s:
            self._next_s = max(_AGAIN_S, 2 * waited_s)
            tenant = self._identifier.partition("@")[0]
            self._tell(
                f"{self._identifier}: not ready after {waited_s:.0f} s, waiting for {what}, "
                f"{duration_text(self._limit_ns)} at most (tenants.{tenant}.ready.within)"
            )


async def wait_idle(urls: Sequence[str], *, limit_ns: int) -> bool:
    """Whether all servers had no request left within the limit.

    By the `active` of a built-in server's health, or what a vLLM's /metrics says to be running and waiting.

    A server that does not answer has nothing left to do either: that it died is seen elsewhere. Nor has one
    that tells no count.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + limit_ns / NS_PER_S
    async with aiohttp.ClientSession() as session:
        for url in urls:
            while await _active(session, url):
                if loop.time() >= end_s:
                    return False
                await asyncio.sleep(_POLL_S)
    return True


async def _active(session: aiohttp.ClientSession, url: str) -> int:
    answer = await get(session, http_url(url, "/health"), _HEALTH_LIMIT_S)
    if answer.failure.startswith("no answer within"):
        return 1
    if answer.status == 200 and not answer.body:  # as a vLLM says that it is well
        page = await get(session, http_url(url, "/metrics"), _HEALTH_LIMIT_S, body_bytes=_METRICS_BYTES)
        return sum(round(float(value)) for value in _REQUESTS_RE.findall(page.body.decode(errors="replace")))
    try:
        return count(json_object(answer.body, "health").get("active"), "active")
    except ServiceError:
        return 0


def _never_ready(identifier: str, why: str, log_dir: Path) -> CouldNotRun:
    return CouldNotRun(f"{identifier} {why}{log_tail(log_dir, identifier)}")


def _ready_line(log: Path, offset_bytes: int) -> Mapping[str, Any] | None:
    """Only whole lines count, and a ready line may stand behind a log line that was not ended."""
    try:
        with log.open("rb") as file:
            file.seek(offset_bytes)
            lines = file.read(_READY_READ_BYTES).split(b"\n")[:-1]
    except FileNotFoundError:
        return None
    for line in lines:
        at = line.find(b'{"ready": true')
        if at >= 0:
            try:
                ready = json_value(line[at:])
            except ValueError:
                continue
            if isinstance(ready, dict) and isinstance(ready.get("url"), str):
                return ready
    return None
