"""The last moment of a connection whose stream has said that it is complete before its response was."""

import time
from typing import Final

from cotenant.errors import ServiceError
from cotenant.load.sockets import Connection
from cotenant.units import NS_PER_S
from cotenant.wire.http1 import End, Http1Client

_LINGER_NS: Final = NS_PER_S // 4


async def let_end(connection: Connection, http: Http1Client) -> None:
    """Reads what still comes, for a moment, so that the server's last bytes meet no reset; then closes it."""
    until_ns = time.monotonic_ns() + _LINGER_NS
    try:
        while time.monotonic_ns() < until_ns and (read := await connection.read(until_ns)) is not None:
            if not read.data or any(isinstance(event, End | ServiceError) for event in http.feed(read.data)):
                return
    except OSError:
        return
    finally:
        connection.close()
