"""A tenant that somebody else runs: the only thing to do is to see that it answers."""

import asyncio
import errno
import socket
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from cotenant.errors import CouldNotRun
from cotenant.tenants import vllm
from cotenant.tenants.http_probe import HEALTH, connector, get, http_url

_LIMIT_S = 5.0
_CONNECT_LIMIT_S = 2.0
_NO_WAY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENETUNREACH)


async def check(
    name: str, url: str, path: str | None = None, *, ca_file: str | None = None, insecure: bool = False
) -> str:
    """The tenant's `url`, if a server there answers HTTP on `path` (None: /health) or on `/`, with whatever
    status.

    A server may ask for a key or have no health path; only silence says that it is not there. Raises
    CouldNotRun, and UserError for a `ca_file` that is none.
    """
    path = HEALTH if path is None else path
    async with aiohttp.ClientSession(connector=connector(url, ca_file, insecure=insecure)) as session:
        answer = await get(session, http_url(url, path), _LIMIT_S, body_bytes=0)
        if answer.status is None and path != "/":
            first = answer
            answer = await get(session, http_url(url, "/"), _LIMIT_S, body_bytes=0)
            answer = first if answer.status is None else answer
    if answer.status is None:
        raise CouldNotRun(
            f"{name}: nothing answers at {url}: {answer}; start that service, or correct tenants.{name}.url"
        )
    return url


async def facts(url: str, *, ca_file: str | None = None, insecure: bool = False) -> dict[str, Any]:
    """What an attached LLM server tells of itself, where it is a vLLM; else nothing."""
    told = await vllm.describe(url, None, total_s=None, trusted=connector(url, ca_file, insecure=insecure))
    return told if told["version"] is not None and told["kv_cache"]["blocks"] is not None else {}


async def refuses(url: str) -> bool:
    """Whether each address of the url's host refuses a connection now: nothing listens there.

    Addresses of a family that this machine has no way to (`localhost` is often `::1` too) do not count.
    Silence, a name that does not resolve and any other failure say nothing.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme in ("https", "wss") else 80)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_CONNECT_LIMIT_S):
            found = await loop.getaddrinfo(parts.hostname or "", port, type=socket.SOCK_STREAM)
            refused = [
                await _refused(family, kind, protocol, address)
                for family, kind, protocol, _, address in found
            ]
    except (OSError, UnicodeError):  # TimeoutError among them
        return False
    return True in refused and False not in refused


async def _refused(family: int, kind: int, protocol: int, address: Any) -> bool | None:
    """Whether an address refuses a connection; None where there is no way to any such. Raises OSError."""
    try:
        with socket.socket(family, kind, protocol) as probe:
            probe.setblocking(False)
            await asyncio.get_running_loop().sock_connect(probe, address)
    except ConnectionRefusedError:
        return True
    except OSError as error:
        if error.errno in _NO_WAY:
            return None
        raise
    return False
