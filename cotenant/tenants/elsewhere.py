"""Whether a service is at an address of this machine: only then is what is read here of its CPU and GPU."""

import asyncio
import ipaddress
import socket
from urllib.parse import urlsplit

import psutil

_RESOLVE_LIMIT_S = 5.0


async def elsewhere(url: str) -> bool:
    """Whether every address of the url's host is another machine's, as far as addresses tell.

    A container on this machine may have an address of its own, and what is forwarded to one of ours looks
    as if it were here. False for a name that does not resolve.
    """
    try:
        async with asyncio.timeout(_RESOLVE_LIMIT_S):
            found = await asyncio.get_running_loop().getaddrinfo(
                urlsplit(url).hostname or "", None, type=socket.SOCK_STREAM
            )
    except (OSError, UnicodeError):  # TimeoutError among them
        return False
    ours = {_plain(one.address) for each in psutil.net_if_addrs().values() for one in each}
    theirs = [_plain(str(address[0])) for *_, address in found]
    return bool(theirs) and not any(_here(address, ours) for address in theirs)


def _plain(address: str) -> str:
    """Without the interface that is behind a `%`; an IPv4 address in IPv6's form as itself."""
    text = address.partition("%")[0]
    try:
        one = ipaddress.ip_address(text)
    except ValueError:  # a MAC address
        return text
    mapped = one.ipv4_mapped if isinstance(one, ipaddress.IPv6Address) else None
    return str(mapped or one)


def _here(address: str, ours: set[str]) -> bool:
    one = ipaddress.ip_address(address)
    return one.is_loopback or one.is_unspecified or address in ours
