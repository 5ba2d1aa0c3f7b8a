"""Listeners: who speaks when. Voices in turns, closed or open, and the faces that follow them."""

from collections import defaultdict
from collections.abc import Iterator

from cotenant.load.desk import Desk
from cotenant.load.face import show
from cotenant.load.face_audio import FaceFeed
from cotenant.load.pacing import next_closed, next_turn, schedule, shows, text_line
from cotenant.load.settings import FacesLoad, VoicesLoad
from cotenant.load.stage import Stage, Ticket
from cotenant.load.transport import CONNECT_AHEAD_NS, sleep_until
from cotenant.load.voice import Heard, Turn, speak


class _Lines:
    """What a load's listeners say: other texts while settling, the same measured ones in every stage."""

    def __init__(self, load: VoicesLoad, stage: Stage) -> None:
        self._load = load
        self._stage = stage
        self._settling: dict[int, int] = defaultdict(int)
        self._measured: dict[int, int] = defaultdict(int)

    def next(self, listener: int, due_ns: int) -> tuple[int, str]:
        """Utterance (-1 before the window) and text of what is due then."""
        if not self._stage.begins(due_ns):
            lines, number = self._load.settling, self._settling[listener]
            self._settling[listener] += 1
            return -1, lines[text_line(listener, number, len(lines))]
        lines, number = self._load.measured, self._measured[listener]
        self._measured[listener] += 1
        return number, lines[text_line(listener, number, len(lines))]


def start_voices(desk: Desk, stage: Stage, load: VoicesLoad, faces: list[FacesLoad]) -> None:
    """Sets a load's listeners going, each with the faces that follow it."""
    stage.planned[load.name] = load.listeners
    for face in faces:
        stage.planned[face.name] = min(face.listeners, load.listeners)
    lines = _Lines(load, stage)
    for listener in range(load.listeners):
        following = [face for face in faces if listener < face.listeners]
        one = _Listener(desk, stage, load, listener, lines, following)
        stage.spawn({"turns": one.turns, "closed": one.closed, "open": one.open}[load.mode]())


class _Listener:
    """One listener of a voices load."""

    def __init__(
        self,
        desk: Desk,
        stage: Stage,
        load: VoicesLoad,
        listener: int,
        lines: _Lines,
        faces: list[FacesLoad],
    ) -> None:
        self._desk = desk
        self._stage = stage
        self._load = load
        self._listener = listener
        self._lines = lines
        self._faces = faces

    def _schedule(self) -> Iterator[int]:
        load, key = self._load, f"{self._desk.settings.seed}/{self._load.name}"
        return schedule(key, self._stage.start_ns, load.every_ns, index=self._listener, count=load.listeners)

    async def turns(self) -> None:
        """Utterance k at its time, but not before k-1 was heard and the pause is over."""
        ticket: Ticket | None = None
        heard: Heard | None = None
        for scheduled_ns in self._schedule():
            end_ns = None if heard is None else heard.end_ns
            due_ns, delayed_ns = next_turn(scheduled_ns, end_ns, self._load.pause_ns)
            ticket = self._next_ticket(due_ns, ticket)
            heard = await self._speak(due_ns, delayed_ns, self._faces)

    async def closed(self) -> None:
        """The next request at the last byte of this one; its faces show what `shows` lets them."""
        due_ns = shown_until_ns = next(self._schedule())
        length_ns = 0
        ticket: Ticket | None = None
        while True:
            ticket = self._next_ticket(due_ns, ticket)
            shown = shows(due_ns, shown_until_ns, length_ns)
            heard = await self._speak(due_ns, 0, self._faces if shown else [])
            length_ns = heard.length_ns
            if shown:
                shown_until_ns = max(shown_until_ns, due_ns) + length_ns
            due_ns = next_closed(heard.done_ns, heard.failed)

    async def open(self) -> None:
        """Every utterance at its time, whatever became of the ones before."""
        for due_ns in self._schedule():
            await sleep_until(due_ns - CONNECT_AHEAD_NS)
            self._stage.spawn(self._one(due_ns, self._next_ticket(due_ns, None)))

    async def _one(self, due_ns: int, ticket: Ticket) -> None:
        await self._speak(due_ns, 0, self._faces)
        self._stage.close(ticket)

    def _next_ticket(self, due_ns: int, last: Ticket | None) -> Ticket:
        ticket = self._stage.plan(due_ns, followed=True)
        if last is not None:
            self._stage.close(last)
        return ticket

    async def _speak(self, due_ns: int, delayed_ns: int, faces: list[FacesLoad]) -> Heard:
        said: list[tuple[int, str]] = []

        def line() -> tuple[int, str]:
            """Chosen once, by whoever asks first: the voice or a face of it."""
            if not said:
                said.append(self._lines.next(self._listener, due_ns))
            return said[0]

        feeds = [FaceFeed(load, lambda: line()[0]) for load in faces]
        for feed in feeds:
            ticket = self._stage.plan(due_ns, followed=True)
            self._stage.spawn(show(self._desk, self._stage, feed, self._listener, due_ns, ticket))
        turn = Turn(
            listener=self._listener,
            due_ns=due_ns,
            delayed_ns=delayed_ns,
            line=line,
            tap=_Feeds(feeds) if feeds else None,
        )
        return await speak(self._desk, self._stage, self._load, turn)


class _Feeds:
    """All faces of one utterance as one tap."""

    def __init__(self, feeds: list[FaceFeed]) -> None:
        self._feeds = feeds

    def feed(self, data: bytes, rate_hz: int, sample_format: str) -> None:
        for feed in self._feeds:
            feed.feed(data, rate_hz, sample_format)

    def end(self) -> None:
        for feed in self._feeds:
            feed.end()
