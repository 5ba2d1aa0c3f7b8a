"""What a connection to a talking head is: audio goes in, frames come out."""

from dataclasses import dataclass
from typing import Protocol

import aiohttp

from cotenant.errors import ServiceError
from cotenant.wire.frames import FrameHeader
from cotenant.wire.head_codec import Done


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A frame and when it came, or (`header` None) a message that is none; `size_bytes` of the message."""

    header: FrameHeader | None
    at_ns: int
    size_bytes: int = 0


class Link(Protocol):
    """One clip's connection.

    `tells_end`: the head says when all frames were sent; `watched`: it gets no audio from us.
    `send` and `end` raise OSError or aiohttp.ClientError; the others ServiceError.
    """

    tells_end: bool
    watched: bool
    status: int | None

    async def open(self, limit_s: float) -> None:
        """Connects, as far as that can be done before the clip is due."""

    async def start(self) -> None:
        """The clip is due."""

    async def send(self, piece: bytes) -> None:
        """Hands over 16 kHz s16le."""

    async def end(self) -> None:
        """There is no more audio."""

    async def receive(self, limit_s: float) -> list[Received | Done | ServiceError]:
        """What comes next, a fault in it as the last. Raises TimeoutError; ServiceError for a broken link."""

    async def close(self) -> None:
        """Idempotent; a server that does not answer is not waited for."""


def web_session() -> aiohttp.ClientSession:
    """For all links of a process: a connection each; a redirect is not followed but a ServiceError, and
    nothing is sent twice."""
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse)
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    session = aiohttp.ClientSession(connector=connector, trace_configs=[trace])
    # It would send a GET whose connection is reset a second time, which hides what is measured. There is no
    # public switch; aiohttp's own test client sets this one.
    session._retry_connection = False
    return session


async def _refuse(_: aiohttp.ClientSession, __: object, told: aiohttp.TraceRequestRedirectParams) -> None:
    told.response.close()
    status, place = told.response.status, told.response.headers.get("Location", "another place")
    text = f"HTTP {status}: it redirects to {place}, and no redirect is followed"
    raise ServiceError("protocol", text, status=status)


def connect_error(error: Exception, what: str) -> ServiceError:
    """What kind of failure aiohttp told of."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return ServiceError("dns", str(error))
    if isinstance(error, aiohttp.ClientSSLError | aiohttp.ClientConnectorCertificateError):
        return ServiceError("tls", str(error))
    if isinstance(error, aiohttp.ClientConnectorError | ConnectionRefusedError):
        return ServiceError("refused", str(error))
    return ServiceError("protocol", f"{what}: {error}")
