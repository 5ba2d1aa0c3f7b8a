"""HTTP/1.1 as a client: request bytes out, response events in, with the boundaries of transfer chunks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import h11

from cotenant.errors import ServiceError

_CHUNK_FOOTER_BYTES: Final = 2
_HEAD_LIMIT_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Status line and headers; names in lower case, of a repeated name the last."""

    status: int
    headers: Mapping[str, str]
    chunked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A piece of the body after transfer decoding.

    `closes`: a message ends with it; a transfer chunk's end, or the end of the read where the body has
    no framing. `after_bytes`: bytes of the same read that came after it, the chunk's own footer not counted.
    """

    data: bytes
    closes: bool
    after_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The body is complete."""


Event = Head | Body | End | ServiceError


class Http1Client:
    """One request and its response."""

    def __init__(self) -> None:
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_LIMIT_BYTES)
        self._chunked = False
        self._head_seen = False
        self._ended = False
        self._received_bytes = 0

    def request(self, method: str, host: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """The whole request. Raises h11.LocalProtocolError for a header that is none: the caller's fault."""
        fields = [
            ("Host", host),
            ("Connection", "close"),
            ("Accept-Encoding", "identity"),
            *headers.items(),
            ("Content-Length", str(len(body))),
        ]
        send = self._connection.send
        parts = [send(h11.Request(method=method, target=target, headers=fields))]
        if body:
            parts.append(send(h11.Data(data=body)))
        parts.append(send(h11.EndOfMessage()))
        return b"".join(part for part in parts if part)

    def feed(self, data: bytes) -> list[Event]:
        """The events of one read; an empty one is the peer's close.

        The last event may be a ServiceError: `truncated` for a body cut by the close, `protocol` for no HTTP
        and for no answer at all, `offset` the first byte of the read in which it went wrong. Nothing comes
        after it or after End.
        """
        events: list[Event] = []
        if self._ended:
            return events
        try:
            self._connection.receive_data(data)
            while not self._ended:
                event = self._connection.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED:
                    break
                if isinstance(event, h11.ConnectionClosed):
                    raise h11.RemoteProtocolError("closed without an answer")
                events += self._translate(event)
        except h11.RemoteProtocolError as error:
            self._ended = True
            cut = self._head_seen and not data
            kind = "truncated" if cut else "protocol"
            events.append(ServiceError(kind, str(error), offset=self._received_bytes))
        self._received_bytes += len(data)
        return events

    def _translate(self, event: object) -> list[Event]:
        if isinstance(event, h11.Response):
            self._head_seen = True
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
            self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
            return [Head(status=event.status_code, headers=headers, chunked=self._chunked)]
        if isinstance(event, h11.Data):
            rest_bytes = len(self._connection.trailing_data[0])
            if not self._chunked:
                return [Body(data=bytes(event.data), closes=True, after_bytes=rest_bytes)]
            if event.chunk_end:
                rest_bytes -= min(_CHUNK_FOOTER_BYTES, rest_bytes)
            return [Body(data=bytes(event.data), closes=event.chunk_end, after_bytes=rest_bytes)]
        if isinstance(event, h11.EndOfMessage):
            self._ended = True
            return [End()]
        return []  # 1xx


def refuse_encoded(head: Head) -> None:
    """Raises ServiceError("protocol") for a compressed body: its bytes arrive when a compressor lets go."""
    encoding = head.headers.get("content-encoding", "").strip()
    if encoding.lower() not in ("", "identity"):
        raise ServiceError(
            "protocol",
            f"the answer has Content-Encoding {encoding[:40]}, though only identity was asked for; switch "
            "the server's compression off",
            offset=0,
        )


def status_kind(status: int) -> str | None:
    """The error kind of a response status, None for 2xx."""
    if 200 <= status < 300:
        return None
    known = {
        401: "unauthorized",
        403: "forbidden",
        404: "not_found",
        429: "rate_limited",
        503: "overloaded",
        529: "overloaded",
    }
    return known.get(status, "server_error" if status >= 500 else "protocol")
