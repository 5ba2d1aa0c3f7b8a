"""One GET to a server's health path: its answer in a form that sentences can be made of."""

import asyncio
import os
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp

from cotenant import tls

HEALTH = "/health"  # where nobody has named a path
_SCHEMES = {"ws": "http", "wss": "https"}
_BODY_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`status` and the first bytes of the body, or `failure`: why there is no answer."""

    status: int | None
    body: bytes = b""
    failure: str = ""

    def __str__(self) -> str:
        return self.failure if self.status is None else f"it answers {self.status}"


def http_url(url: str, path: str) -> str:
    """`path` below `url`; the address of a WebSocket server becomes that of its HTTP side."""
    parts = urlsplit(url)
    base = parts._replace(scheme=_SCHEMES.get(parts.scheme, parts.scheme), query="", fragment="").geturl()
    return base.rstrip("/") + path


def connector(url: str, ca_file: str | None = None, *, insecure: bool = False) -> aiohttp.TCPConnector:
    """Connections to the server of `url`, by its own rules of trust. Raises UserError."""
    if tls.origin(url) is None or not (ca_file is not None or insecure):
        return aiohttp.TCPConnector()
    return aiohttp.TCPConnector(ssl=tls.context(ca_file, insecure=insecure))


async def get(
    session: aiohttp.ClientSession, url: str, limit_s: float, *, body_bytes: int = _BODY_BYTES
) -> Answer:
    """GET, redirects not followed, `body_bytes` read at most. Never raises for what server or network do.

    With 0 its status is the answer, however long its body goes on.
    """
    try:
        async with asyncio.timeout(limit_s), session.get(url, allow_redirects=False) as response:
            body = b""
            while piece := await response.content.read(body_bytes - len(body)):
                body += piece
            return Answer(status=response.status, body=body)
    except TimeoutError:
        return Answer(status=None, failure=f"no answer within {limit_s:g} s")
    except aiohttp.ClientConnectorCertificateError:
        return Answer(
            status=None,
            failure="its TLS certificate is not trusted here (ca_file: FILE.pem names whom to trust besides)",
        )
    except aiohttp.ClientConnectorError as error:
        # asyncio's own text names the call, not the reason; a failed name look-up has no errno above 0.
        number = error.os_error.errno or 0
        return Answer(status=None, failure=os.strerror(number) if number > 0 else str(error.os_error))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Answer(status=None, failure=f"no HTTP answer ({type(error).__name__}: {error})")
