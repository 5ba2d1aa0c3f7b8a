"""Publishing over links that break, on a clock that is a number: order, repeats, waits, the last message."""

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from cotenant.live.outbox import Message, Outbox
from cotenant.live.publisher import WINDOW, Publisher
from cotenant.testing.virtual_loop import VirtualLoop


@dataclass
class FakeLink:
    """Opens unless `refuses`, confirms after `takes_s`; breaks after `breaks_after` confirmations."""

    log: list[tuple[str, Any]]
    refuses: bool = False
    takes_s: float = 0.01
    breaks_after: int | None = None
    confirmed: int = 0
    broken: asyncio.Event = field(default_factory=asyncio.Event)

    async def open(self) -> None:
        await asyncio.sleep(0)
        self.log.append(("open", asyncio.get_running_loop().time()))
        if self.refuses:
            raise ConnectionError("Connection refused")

    async def publish(self, message: Message) -> None:
        if self.broken.is_set():
            raise ConnectionError("not connected")
        self.log.append((message.kind, json.loads(message.payload)))
        await asyncio.sleep(self.takes_s + message.seq * 1e-6)  # a broker confirms in order
        if self.breaks_after is not None and self.confirmed >= self.breaks_after:
            self.broken.set()
            raise ConnectionError("no answer")
        self.confirmed += 1

    async def lost(self) -> None:
        await self.broken.wait()

    async def close(self) -> None:
        self.log.append(("close", None))

    def hang_up(self) -> None:
        self.log.append(("hang up", None))


class Bench:
    """A publisher over scripted links, in a virtual loop."""

    def __init__(self, *links: Callable[[list[tuple[str, Any]]], FakeLink]) -> None:
        self.log: list[tuple[str, Any]] = []
        self.said: list[str] = []
        self.reconnects = 0
        self.box = Outbox(lambda: 0)
        script: Iterator[Callable[[list[tuple[str, Any]]], FakeLink]] = iter(links)
        self.publisher = Publisher(
            self.box,
            lambda: next(script)(self.log),
            name="broker:1883",
            tell=self.said.append,
            on_reconnect=self._again,
        )
        self.box.on_put = self.publisher.wake

    def _again(self) -> None:
        self.reconnects += 1
        self.box.put("status", {"status": "running"})

    def seqs(self, kind: str) -> list[int]:
        return [value["seq"] for name, value in self.log if name == kind]


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(work())
    finally:
        loop.close()


def in_order_once(seqs: list[int]) -> list[int]:
    """What a subscriber keeps that takes only higher numbers."""
    kept: list[int] = []
    for seq in seqs:
        if not kept or seq > kept[-1]:
            kept.append(seq)
    return kept


def last() -> dict[str, Any]:
    return {"status": "complete"}


def test_all_is_sent_in_order_and_the_last_status_is_last() -> None:
    async def work() -> None:
        bench = Bench(FakeLink)
        for _ in range(3 * WINDOW):
            bench.box.put("underrun", {})
        bench.publisher.finish(last)
        await bench.publisher.run()
        assert bench.seqs("underrun") == list(range(1, 3 * WINDOW + 1))
        names = [name for name, _ in bench.log]
        assert names[-3:] == ["status", "close", "hang up"]
        assert bench.box.empty
        assert bench.said == []

    run(work)


def test_no_more_are_under_way_than_the_window() -> None:
    async def work() -> None:
        bench = Bench(lambda log: FakeLink(log, takes_s=1e9))
        for _ in range(3 * WINDOW):
            bench.box.put("underrun", {})
        task = asyncio.create_task(bench.publisher.run())
        await asyncio.sleep(1)
        assert len(bench.seqs("underrun")) == WINDOW
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert bench.log[-1][0] == "hang up"

    run(work)


@pytest.mark.parametrize("breaks_after", [0, 1, 5, WINDOW])
def test_after_a_break_what_was_not_confirmed_comes_again_in_order(breaks_after: int) -> None:
    async def work() -> None:
        bench = Bench(lambda log: FakeLink(log, breaks_after=breaks_after), FakeLink)
        for _ in range(2 * WINDOW):
            bench.box.put("underrun", {})
        bench.publisher.finish(last)
        await bench.publisher.run()
        second = bench.log[[name for name, _ in bench.log].index("hang up") :]
        again = [value["seq"] for name, value in second if name == "underrun"]
        assert again == list(range(breaks_after + 1, 2 * WINDOW + 1))
        assert in_order_once(bench.seqs("underrun")) == list(range(1, 2 * WINDOW + 1))
        assert bench.reconnects == 1
        # The last will of the link that broke is corrected, and the last status still comes last.
        assert [value["status"] for name, value in bench.log if name == "status"] == ["running", "complete"]
        assert bench.box.counts().published == 2 * WINDOW + 2

    run(work)


def test_a_broker_that_is_not_there_is_tried_again_ever_more_rarely_and_told_once() -> None:
    async def work() -> None:
        bench = Bench(*[lambda log: FakeLink(log, refuses=True)] * 8, FakeLink)
        bench.publisher.finish(last)
        await bench.publisher.run()
        times = [value for name, value in bench.log if name == "open"]
        waits = [round(b - a, 1) for a, b in itertools.pairwise(times)]
        assert waits == [0.5, 1, 2, 4, 8, 10, 10, 10]
        assert bench.reconnects == 0
        assert bench.said == [
            "MQTT: broker:1883 cannot be reached (Connection refused); the run goes on, it is tried again",
            "MQTT: connected to broker:1883 after all",
        ]

    run(work)


def test_a_break_without_anything_to_send_is_noticed() -> None:
    async def work() -> None:
        links: list[FakeLink] = []

        def first(log: list[tuple[str, Any]]) -> FakeLink:
            links.append(FakeLink(log))
            return links[0]

        bench = Bench(first, FakeLink)
        task = asyncio.create_task(bench.publisher.run())
        await asyncio.sleep(5)
        links[0].broken.set()
        await asyncio.sleep(5)
        assert bench.reconnects == 1
        bench.publisher.finish(last)
        await task
        assert bench.said[0].startswith("MQTT: the connection to broker:1883 is lost (the broker hung up)")

    run(work)


def test_a_break_after_the_last_status_says_it_again() -> None:
    async def work() -> None:
        class Unsaid(FakeLink):
            async def close(self) -> None:
                raise ConnectionError("gone")

        bench = Bench(Unsaid, FakeLink)
        bench.publisher.finish(last)
        await bench.publisher.run()
        assert [value["status"] for name, value in bench.log if name == "status"] == ["complete", "complete"]
        assert bench.reconnects == 0

    run(work)


def test_what_is_put_while_it_runs_goes_out_at_once() -> None:
    async def work() -> None:
        bench = Bench(FakeLink)
        task = asyncio.create_task(bench.publisher.run())
        await asyncio.sleep(100)
        bench.box.put("stage", {})
        await asyncio.sleep(0.05)
        assert bench.seqs("stage") == [1]
        assert bench.box.empty
        bench.publisher.finish(last)
        await task

    run(work)
