"""Carries an outbox to a broker over links that break: in order, and from the first unconfirmed on again."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from cotenant.live.outbox import Message, Outbox

# How many messages may be under way; the broker keeps their order.
WINDOW: Final = 10
FIRST_WAIT_S: Final = 0.5
LAST_WAIT_S: Final = 10.0


class Link(Protocol):
    """One connection. Whatever goes wrong is an exception, and the link is then hung up."""

    async def open(self) -> None: ...

    async def publish(self, message: Message) -> None:
        """Returns when the broker has confirmed it."""

    async def lost(self) -> None:
        """Returns or raises when the connection is gone."""

    async def close(self) -> None:
        """Takes leave: the broker does not publish the last will."""

    def hang_up(self) -> None:
        """Leaves at once; the broker publishes the last will."""


class Publisher:
    """One run's publishing, in the loop of one thread; `wake` and `finish` belong to that loop too.

    `on_reconnect` is called when a link has opened that is not the first, before anything is sent on it;
    `tell` gets sentences for people, each once.
    """

    def __init__(
        self,
        outbox: Outbox,
        new_link: Callable[[], Link],
        *,
        name: str,
        tell: Callable[[str], None],
        on_reconnect: Callable[[], None],
    ) -> None:
        self._outbox, self._new_link, self._name = outbox, new_link, name
        self._tell, self._on_reconnect = tell, on_reconnect
        self._told: set[str] = set()
        self._wake = asyncio.Event()
        self._last: Callable[[], Mapping[str, Any]] | None = None
        self._last_is_put = False
        self.connections = 0

    def wake(self) -> None:
        """Something was put into the outbox."""
        self._wake.set()

    def finish(self, last: Callable[[], Mapping[str, Any]]) -> None:
        """After all that waits, publishes the status that `last` then gives, and takes leave."""
        self._last = last
        self._wake.set()

    async def run(self) -> None:
        """Until everything is confirmed after `finish`, or cancelled."""
        wait_s = FIRST_WAIT_S
        while True:
            link = self._new_link()
            try:
                await link.open()
                wait_s = FIRST_WAIT_S
                self._opened()
                await self._carry(link)
                await link.close()
                return
            except Exception as error:  # noqa: BLE001 - whatever a broker does, the run goes on
                self._broke(error)
            finally:
                link.hang_up()
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, LAST_WAIT_S)

    def _opened(self) -> None:
        self.connections += 1
        # The broker has told the last will of the link before: what it said has to be said once more.
        if self._last_is_put:
            self._last_is_put = False
        elif self.connections > 1:
            self._on_reconnect()
        if self._told:
            self._say(f"MQTT: connected to {self._name} after all")

    def _broke(self, error: Exception) -> None:
        why = str(error) or type(error).__name__
        if self.connections:
            self._say(f"MQTT: the connection to {self._name} is lost ({why}); the run goes on")
        else:
            self._say(f"MQTT: {self._name} cannot be reached ({why}); the run goes on, it is tried again")

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)

    async def _carry(self, link: Link) -> None:
        """Sends what waits, what the link before left unconfirmed first; until all is said after `finish`."""
        sent, flying = 0, dict[asyncio.Task[None], int]()
        lost = asyncio.create_task(link.lost())
        try:
            while True:
                self._wake.clear()
                for message in self._outbox.after(sent, WINDOW - len(flying)):
                    flying[asyncio.create_task(link.publish(message))] = sent = message.seq
                if not flying and self._all_said():
                    return
                await self._next(lost, flying)
        finally:
            for task in (lost, *flying):
                task.cancel()
            await asyncio.gather(lost, *flying, return_exceptions=True)

    def _all_said(self) -> bool:
        if self._last is None or not self._outbox.empty:
            return False
        if not self._last_is_put:
            self._last_is_put = True
            self._outbox.put("status", self._last())
            return False
        return True

    async def _next(self, lost: asyncio.Task[None], flying: dict[asyncio.Task[None], int]) -> None:
        """Until something is confirmed, put or lost. Raises what broke the link."""
        woken = asyncio.create_task(self._wake.wait())
        try:
            done, _ = await asyncio.wait({lost, woken, *flying}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
        broken = None
        for task in [task for task in flying if task in done]:
            error = task.exception()
            if error is None:
                self._outbox.confirm(flying.pop(task))
            broken = broken or error
        if broken is not None:
            raise broken
        if lost in done:
            lost.result()
            raise ConnectionError("the broker hung up")
