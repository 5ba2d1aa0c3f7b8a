"""One utterance: the request, its audio as it arrives, and when a listener has heard it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cotenant.errors import ServiceError
from cotenant.load import speakers, voice_socket
from cotenant.load.desk import Desk, StreamRows
from cotenant.load.request import Outcome, Request
from cotenant.load.settings import Tenant, VoicesLoad
from cotenant.load.sockets import Connection
from cotenant.load.stage import Stage
from cotenant.load.transport import sleep_until
from cotenant.load.under_way import LiveVoice
from cotenant.load.voice_consumer import Tap, VoiceConsumer
from cotenant.playback.player import play
from cotenant.wire.speech_servers import SERVERS, call


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One utterance to be: `line` tells number and text, asked when it is due; `tap` hears it too."""

    listener: int
    due_ns: int
    delayed_ns: int
    line: Callable[[], tuple[int, str]]
    tap: Tap | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """When an utterance was over for its listener, and how long heard; its last byte; whether it failed."""

    end_ns: int
    length_ns: int
    done_ns: int
    failed: bool


async def speak(desk: Desk, stage: Stage, load: VoicesLoad, turn: Turn) -> Heard:
    """One utterance from its connection to its end. When cancelled it leaves a row that says so."""
    tenant = desk.settings.tenants[load.tenant]
    outcome = Outcome(due_ns=turn.due_ns, secrets=tenant.secrets)
    rows = StreamRows(
        desk, stage, outcome, tenant=load.tenant, load=load.name, kind="voices", listener=turn.listener,
        delayed=turn.delayed_ns,
    )  # fmt: skip
    consumer = VoiceConsumer(desk, load, rows, turn.tap, lambda: stage.output(load.name, turn.listener))
    live = stage.voices.begin(
        LiveVoice(
            listener_key=(load.name, turn.listener),
            due_ns=turn.due_ns,
            pause_ns=load.pause_ns,
            arrival_ns=consumer.arrival_ns,
            media_ns=consumer.media_ns,
        ),
        time.monotonic_ns(),
        stage.window_start_ns,
    )
    over_socket = SERVERS[tenant.protocol].body == "socket"
    try:
        if over_socket:
            await voice_socket.speak(
                desk, stage, tenant, rows, consumer, outcome, listener=turn.listener, line=turn.line
            )
        else:
            await _speak_http(desk, stage, tenant, turn, outcome, rows, consumer)
    except asyncio.CancelledError:
        rows.stopped()
        raise
    finally:
        if turn.tap is not None:
            turn.tap.end()
    heard = _conclude(desk, stage, outcome, rows, consumer)
    live.end(done_ns=heard.done_ns, over_ns=heard.end_ns, whole=not heard.failed)
    return heard


async def _speak_http(
    desk: Desk,
    stage: Stage,
    tenant: Tenant,
    turn: Turn,
    outcome: Outcome,
    rows: StreamRows,
    consumer: VoiceConsumer,
) -> None:
    limits = desk.limits(stage, stall=True)
    server = SERVERS[tenant.protocol]
    url = tenant.url(turn.listener, server.path)
    speaker: dict[str, Any] = {}
    opened: Connection | ServiceError
    try:
        speaker = await speakers.fields_of(desk, tenant, limits.connect_ns)
        opened = await desk.transport.ahead(url, turn.due_ns, limits)
    except ServiceError as error:
        opened = error
    try:
        await sleep_until(turn.due_ns)
    except asyncio.CancelledError:
        if not isinstance(opened, Exception):
            opened.close()
        raise
    utterance, text = turn.line()
    rows.set(utterance=utterance)
    asked = call(server, text, model=tenant.model, voice=tenant.voice, extra={**speaker, **tenant.extra})
    headers = {**desk.headers(tenant, rows.stream), "Content-Type": asked.content_type}
    request = Request(url=url, headers=headers, body=asked.body)
    await desk.transport.exchange(opened, request, outcome, limits, consumer)


def _conclude(desk: Desk, stage: Stage, outcome: Outcome, rows: StreamRows, consumer: VoiceConsumer) -> Heard:
    rows.set(leading_silence=consumer.leading_silence_ns())
    rows.ended()
    done_ns, whole = outcome.done_ns, outcome.end == "eos"
    assert done_ns is not None
    end_ns, length_ns = done_ns, 0
    if consumer.media_ns:
        playback = play(
            consumer.arrival_ns,
            consumer.media_ns,
            desk.settings.player,
            done_ns=done_ns if whole else None,
            give_up_ns=None if whole else done_ns,
        )
        # A turn is over when it was heard and when nothing of it can come any more.
        end_ns = max(done_ns, playback.end_ns or done_ns)
        length_ns = end_ns - (end_ns if playback.start_ns is None else playback.start_ns)
        stage.count(outcome.due_ns, underruns=playback.underruns or 0)
        if not whole or playback.stall_total_ns:
            consumer.keep_stalled()
        if whole:
            desk.pace = _pace(consumer.arrival_ns, consumer.media_ns)
    return Heard(end_ns=end_ns, length_ns=length_ns, done_ns=done_ns, failed=not whole)


def _pace(arrival_ns: list[int], durations_ns: list[int]) -> list[tuple[int, int]]:
    return [(at - arrival_ns[0], media) for at, media in zip(arrival_ns, durations_ns, strict=True)]
