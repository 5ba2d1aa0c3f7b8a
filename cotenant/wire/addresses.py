"""Where a path of a protocol is, below the address that a user gave."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

_HTTP: Final[Mapping[str, str]] = {"ws": "http", "wss": "https"}


def service_url(base: str, path: str) -> str:
    """`path` at `base`; a base with a path of its own is left alone, its query stays.

    One that ends in `/v1` is where an API begins, a gateway's `/api/v1` too.
    """
    parts = urlsplit(base)
    own = parts.path.rstrip("/")
    if own.endswith("/v1"):
        own += path.removeprefix("/v1")
    return parts._replace(path=own or path).geturl()


def over_http(url: str) -> str:
    """The address of a WebSocket as that of the HTTP request which opens it."""
    parts = urlsplit(url)
    return parts._replace(scheme=_HTTP.get(parts.scheme, parts.scheme)).geturl()


def at_root(base: str, path: str) -> str:
    """`path` on the server of `base`, whatever path that has."""
    return urlsplit(base)._replace(path=path, query="", fragment="").geturl()
