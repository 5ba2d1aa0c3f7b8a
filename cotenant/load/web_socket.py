"""Opening and closing a WebSocket, with what can go wrong as a ServiceError."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

import aiohttp

from cotenant.errors import ServiceError
from cotenant.wire.http1 import status_kind

# The codes by which one side says that the other does not keep to the protocol (RFC 6455, 7.4.1).
_BROKEN_CODES: Final = (
    aiohttp.WSCloseCode.PROTOCOL_ERROR,
    aiohttp.WSCloseCode.UNSUPPORTED_DATA,
    aiohttp.WSCloseCode.INVALID_TEXT,
    aiohttp.WSCloseCode.MESSAGE_TOO_BIG,
    aiohttp.WSCloseCode.MANDATORY_EXTENSION,
)
_TOLD_CHARACTERS: Final = 200


async def connect(
    web: aiohttp.ClientSession,
    url: str,
    headers: Mapping[str, str],
    limit_s: float,
    *,
    trusted: ssl.SSLContext | None = None,
    limit_bytes: int = 0,
) -> aiohttp.ClientWebSocketResponse:
    """Messages over `limit_bytes` end it; 0: none do. Raises ServiceError."""
    try:
        async with asyncio.timeout(limit_s):
            return await web.ws_connect(url, headers=headers, max_msg_size=limit_bytes, ssl=trusted or True)
    except TimeoutError:
        raise ServiceError("timeout", f"no WebSocket within {limit_s:.1f} s") from None
    except aiohttp.WSServerHandshakeError as error:
        kind = status_kind(error.status) or "protocol"
        raise ServiceError(kind, f"HTTP {error.status}: {error.message}", status=error.status) from None
    except aiohttp.ClientConnectorDNSError as error:
        raise ServiceError("dns", str(error)) from None
    except (aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError) as error:
        raise ServiceError("tls", str(error)) from None
    except (aiohttp.ClientConnectorError, ConnectionRefusedError) as error:
        raise ServiceError("refused", str(error)) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ServiceError("protocol", f"no WebSocket: {error}") from None


def end_error(message: aiohttp.WSMessage) -> ServiceError:
    """What a message that is neither text nor bytes says of the end, where more was to come: `protocol` for a
    breach of the WebSocket protocol, whoever found it, else `truncated`."""
    if message.type is aiohttp.WSMsgType.ERROR and isinstance(message.data, aiohttp.WebSocketError):
        large = message.data.code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
        what = "a message that is too large to take" if large else "it does not speak WebSocket as it should"
        text = f"{what}: {message.data}"
        return ServiceError("protocol", text[:_TOLD_CHARACTERS])
    if message.type is not aiohttp.WSMsgType.CLOSE:
        return ServiceError("truncated", f"closed before it was done ({message.data})"[:_TOLD_CHARACTERS])
    reason = f"{message.data}: {message.extra}" if message.extra else f"{message.data}"
    kind = "protocol" if message.data in _BROKEN_CODES else "truncated"
    return ServiceError(kind, f"closed before it was done ({reason})"[:_TOLD_CHARACTERS])


async def close(socket: aiohttp.ClientWebSocketResponse) -> None:
    """A server that does not answer the closing handshake is not waited for."""
    try:
        async with asyncio.timeout(0.5):
            await socket.close()
    except (TimeoutError, OSError, aiohttp.ClientError):
        return
