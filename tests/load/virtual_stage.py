"""A voices load in virtual time: a transport that answers as told, and a script that plays the conductor."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from typing import Any

from cotenant.load.desk import Desk
from cotenant.load.listener import start_voices
from cotenant.load.request import Consumer, Limits, Outcome, Request
from cotenant.load.settings import VoicesLoad
from cotenant.load.stage import Stage
from cotenant.load.transport import sleep_until
from cotenant.testing.virtual_loop import VirtualLoop
from cotenant.units import NS_PER_S
from cotenant.wire.http1 import Body, Head
from tests.load.rig import KeptRows, new_stage, settings, tenant

START = 1_000 * NS_PER_S
PIECE = bytes(4800)  # 100 ms


class FakeTransport:
    """`answer`(number of the request) -> when 100 ms of audio each arrive, and whether it ends well."""

    def __init__(self, answer: Callable[[int], tuple[list[int], bool]]) -> None:
        self._answer = answer
        self.asked: list[tuple[int, str]] = []

    async def ahead(self, url: str, due_ns: int, limits: Limits) -> "FakeTransport":
        await sleep_until(due_ns - NS_PER_S)
        return self

    def close(self) -> None:
        """It is its own connection."""

    async def exchange(
        self, opened: object, request: Request, outcome: Outcome, limits: Limits, consumer: Consumer
    ) -> None:
        outcome.sent_ns = outcome.connected_ns = time.monotonic_ns()
        number = len(self.asked)
        self.asked.append((outcome.sent_ns, json.loads(request.body)["input"]))
        consumer.sent()
        arrivals, whole = self._answer(number)
        consumer.head(Head(status=200, headers={"content-type": "audio/pcm;rate=24000"}, chunked=True))
        for offset_ns in arrivals:
            await sleep_until(outcome.sent_ns + offset_ns)
            consumer.body(Body(data=PIECE, closes=True, after_bytes=0), time.monotonic_ns())
        outcome.close("eos" if whole else "truncated", time.monotonic_ns())


def play_stage(
    loop: VirtualLoop,
    load: VoicesLoad,
    answer: Callable[[int], tuple[list[int], bool]],
    script: Callable[[Stage], Coroutine[Any, Any, None]],
) -> tuple[KeptRows, FakeTransport]:
    """Runs the load from START on while `script` plays the conductor; then drains."""
    rows, transport = KeptRows(), FakeTransport(answer)
    stage = new_stage(start_ns=START)

    async def work() -> None:
        fake: Any = transport
        desk = Desk(
            settings=settings([tenant("http://tts")], [load]),
            writer=rows,
            transport=fake,
            web=object(),  # type: ignore[arg-type]
        )
        stage.failure = loop.create_future()
        # First, so that a window it tells at once is there before anything is due.
        conductor = loop.create_task(script(stage))
        start_voices(desk, stage, load, [])
        await asyncio.wait((conductor, stage.failure), return_when=asyncio.FIRST_COMPLETED)
        await conductor
        await stage.drain("open")
        assert not stage.failure.done()
        stage.failure.cancel()

    loop.run_until_complete(work())
    return rows, transport


def ended(rows: KeptRows) -> list[dict[str, Any]]:
    return [row for row in rows.rows["streams"] if row["end"] not in (None, "open")]
