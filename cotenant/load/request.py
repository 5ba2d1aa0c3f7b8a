"""One request and what it came to, and the interface of whoever reads its answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cotenant.errors import ServiceError
from cotenant.load.stored_text import storable
from cotenant.wire.http1 import Body, Head


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to send where. `url` is whole; `headers` do not name host or length."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`stall_ns`: without a byte; `total_ns`: since the request was due. None: no such limit."""

    connect_ns: int
    stall_ns: int | None
    total_ns: int | None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What one request came to; columns of a `streams` row. Filled in while it goes on.

    `secrets` are what must not stand in `error`, whoever said it. `over_ns` is the consumer's: from when on
    nothing more is waited for, since all of the answer came but what ends it. `error` without a kind is a
    note on an answer that ended well.
    """

    due_ns: int
    secrets: Sequence[str] = ()
    connected_ns: int | None = None
    sent_ns: int | None = None
    first_byte_ns: int | None = None
    done_ns: int | None = None
    status: int | None = None
    body_bytes: int = 0
    end: str | None = None
    error_kind: str | None = None
    error: str | None = None
    user_reads: int = 0
    kernel_reads: int = 0
    over_ns: int | None = None

    @property
    def stamp(self) -> str | None:
        """`kernel` only if every read had the kernel's stamp; None before the first read."""
        if not self.kernel_reads and not self.user_reads:
            return None
        return "user" if self.user_reads else "kernel"

    def close(self, end: str, done_ns: int, error: ServiceError | None = None) -> None:
        self.end, self.done_ns = end, done_ns
        if error is not None:
            self.error_kind, self.error = error.kind, storable(str(error), self.secrets)


class Consumer(Protocol):
    """What reads an answer's body. The methods are called outside read callbacks, in order of arrival."""

    outputs: int  # samples or tokens so far

    def sent(self) -> None:
        """The request is on its way; the outcome has `connected_ns` and `sent_ns`."""

    def head(self, head: Head) -> None:
        """The answer is a 2xx. Raises ServiceError where it cannot be used."""

    def body(self, body: Body, arrival_ns: int) -> bool:
        """One piece; True once the stream says that it is complete. Raises ServiceError for a fault in it."""

    def cut(self, arrival_ns: int) -> None:
        """The connection ended; a message that was cut arrived as far as it did at `arrival_ns`."""
