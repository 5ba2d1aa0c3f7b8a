"""Clients that read slowly or not at all: little is made ahead of them, and at last they are dropped."""

import asyncio
from typing import Any

import numpy as np

from cotenant.tenants.builtin import face_ws, mailbox, talking_head
from cotenant.tenants.builtin.answers import Frame
from cotenant.tenants.builtin.mailbox import Mailbox, Unread
from cotenant.tenants.builtin.runtime import Runtime
from cotenant.tenants.builtin.shapes import tiny
from cotenant.testing.virtual_loop import VirtualLoop

PICTURE = b"\xff\xd8" + bytes(998)
LIMIT = 10_000
HOUR_S = 3600


def frame(number: int) -> Frame:
    return Frame(index=number, media_time_ns=number * 40_000_000, jpeg=PICTURE)


def small_mailbox(limit_bytes: int = LIMIT) -> Mailbox[Any]:
    return Mailbox(
        lambda item: len(getattr(item, "jpeg", getattr(item, "data", b""))), limit_bytes=limit_bytes
    )


class FakeSocket:
    """A client that takes a frame in `seconds`, or never."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds, self.got, self.last = seconds, 0, ""

    def __aiter__(self) -> "FakeSocket":
        return self

    async def __anext__(self) -> Any:
        await asyncio.get_running_loop().create_future()

    async def send_bytes(self, data: bytes) -> None:
        if self.seconds is None:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(self.seconds or 0)
        self.got += 1

    async def send_json(self, message: Any) -> None:
        self.last = message["type"]


class FakeClip:
    dropped = False

    def drop(self) -> None:
        self.dropped = True


def an_hour(
    seconds: float | None, hour_s: int = HOUR_S
) -> tuple[FakeSocket, FakeClip, int, float, BaseException | None]:
    """The front with such a client and a head of 25 frames a second, for an hour: the most that was unread,
    when it was over and by what."""
    client, clip, most = FakeSocket(seconds), FakeClip(), 0
    fault: BaseException | None = None

    async def make(out: Mailbox[Any]) -> None:
        nonlocal most
        for number in range(hour_s * 25):
            while out.full:  # noqa: ASYNC110 - as an engine asks before each clip
                await asyncio.sleep(0.04)
            out.put(frame(number))
            most = max(most, out.unread_bytes)
            await asyncio.sleep(0.04)
        out.put(hour_s * 25)

    async def work() -> float:
        nonlocal fault
        out = small_mailbox()
        making = asyncio.create_task(make(out))
        front: Any = face_ws._serve
        try:
            async with asyncio.timeout(hour_s):
                await front(client, clip, out)
        except (Unread, TimeoutError) as error:
            fault = error
        making.cancel()
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(0)) as runner:
        over_s = runner.run(work())
    return client, clip, most, over_s, fault


def test_a_client_that_reads_nothing_is_dropped_and_never_given_more_than_the_limit() -> None:
    client, clip, most, over_s, fault = an_hour(None)
    assert isinstance(fault, Unread)
    assert str(fault) == "it has read nothing for 30 s"
    assert mailbox.UNREAD_LIMIT_S <= over_s < mailbox.UNREAD_LIMIT_S + 1
    assert (client.got, clip.dropped, most) == (0, True, LIMIT)


def test_a_client_that_reads_slowly_for_an_hour_is_served_as_fast_as_it_reads() -> None:
    client, clip, most, over_s, fault = an_hour(20.0)
    assert isinstance(fault, TimeoutError)
    assert (clip.dropped, most) == (True, LIMIT)
    assert client.got in (HOUR_S // 20 - 1, HOUR_S // 20)
    assert HOUR_S <= over_s < HOUR_S + 1


def test_a_client_that_reads_as_fast_as_frames_come_never_waits() -> None:
    client, _, most, _, fault = an_hour(0.0, 300)
    assert fault is None or isinstance(fault, TimeoutError)
    assert client.got >= 300 * 25 - 30
    assert most <= 2 * len(PICTURE)


def test_the_drawn_head_begins_no_clip_for_a_client_that_is_behind() -> None:
    async def work() -> tuple[list[int], list[Any]]:
        out = small_mailbox()
        engine = talking_head.build(tiny.HEAD, Runtime(threads=1))
        woken: list[None] = []
        out.on_room = lambda: woken.append(None)
        session = talking_head.Session(fps=25, send=out.put, behind=lambda: out.full)
        other: list[Any] = []
        free = talking_head.Session(fps=25, send=other.append)
        for one, seconds in ((session, 6), (free, 2)):
            engine.add(one)
            engine.feed(one, np.zeros(seconds * 16_000, np.int16))
            engine.end(one)
        unread, got = [], []
        while True:
            while engine.step():
                pass
            await asyncio.sleep(0)
            unread.append(out.unread_bytes)
            if session.total_samples is not None and not engine.active:
                break
            woken.clear()
            while not woken:
                got.append(await out.get())
        while not got or isinstance(got[-1], Frame):
            got.append(await out.get())
        engine.close()
        assert other[-1] == 50
        return unread, got

    unread, got = asyncio.run(work())
    pictures = [item for item in got if isinstance(item, Frame)]
    assert [item.index for item in pictures] == list(range(150))
    assert got[-1] == 150
    # Two clips of pictures, and those in the writer, may still come.
    assert max(unread) <= LIMIT + 14 * max(len(item.jpeg) for item in pictures)
    assert len(unread) > 3
