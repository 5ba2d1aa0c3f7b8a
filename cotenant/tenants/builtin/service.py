"""What a server is made of: the threads of its engine, its routes, what its ready line says."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web


class Loop(Protocol):
    """The threads that an engine works in, as the server sees them."""

    failed: bool

    @property
    def active(self) -> int:
        """Requests that wait or are worked on."""

    @property
    def engine(self) -> Any:
        """The engine, once it stands."""

    def start(self) -> None:
        """Begins to build it."""

    def stop(self, timeout_s: float) -> bool:
        """Ends it; False if that takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One kind of server: its engine's threads and the routes that hand requests to it.

    `describe` gives what the ready line says of the engine besides.
    """

    loop: Callable[..., Loop]
    add_routes: Callable[[web.Application, Any], None]
    describe: Callable[[Any], dict[str, Any]] = lambda engine: {}
