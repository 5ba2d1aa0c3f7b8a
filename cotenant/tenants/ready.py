"""Waiting for tenants: a free port before they start, readiness after, idleness between the stages."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from cotenant.errors import CouldNotRun, ServiceError
from cotenant.tenants.http_probe import get, http_url
from cotenant.tenants.log_tail import log_tail
from cotenant.tenants.reaper_client import Reaper
from cotenant.units import NS_PER_S, duration_text
from cotenant.wire.json_values import count, json_object, json_value

_POLL_S: Final = 0.05
_HEALTH_POLL_S: Final = 0.25
_HEALTH_LIMIT_S: Final = 5.0
_CONNECT_LIMIT_S: Final = 2.0
_READY_READ_BYTES: Final = 1 << 20
_METRICS_BYTES: Final = 4 << 20
_REQUESTS_RE: Final = re.compile(
    r"^vllm:num_requests_(?:running|waiting)\{[^}]*\} (\d{1,9}(?:\.\d{1,9})?)$", re.MULTILINE
)


async def wait_ready_line(
    reaper: Reaper, identifier: str, log: Path, *, limit_ns: int, offset_bytes: int = 0
) -> Mapping[str, Any]:
    """The ready line that a built-in server prints, from its log behind `offset_bytes`.

    Raises CouldNotRun when the server ends or the limit passes before it is there.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + limit_ns / NS_PER_S
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
    path: str,
    *,
    limit_ns: int,
    log_dir: Path,
    trusted: aiohttp.TCPConnector | None = None,
) -> None:
    """Wait until GET `path` answers 200. Raises CouldNotRun when the child ends or the limit passes first."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + limit_ns / NS_PER_S
    async with aiohttp.ClientSession(connector=trusted) as session:
        while True:
            ended = reaper.exit_of(identifier)
            if ended is not None:
                raise _never_ready(identifier, f"ended ({ended}) before it was ready", log_dir)
            answer = await get(session, http_url(url, path), _HEALTH_LIMIT_S, body_bytes=0)
            if answer.status == 200:
                return
            if loop.time() >= end_s:
                why = f"was not ready within {duration_text(limit_ns)}: {http_url(url, path)}: {answer}"
                raise _never_ready(identifier, why, log_dir)
            await asyncio.sleep(_HEALTH_POLL_S)


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
