"""One utterance over a WebSocket: its text goes in by pieces, its audio comes as messages.

Stamps are those of the moment a message is read: the kernel's belong to packets, not to messages.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final

import aiohttp

from cotenant.errors import ServiceError
from cotenant.load import web_socket
from cotenant.load.desk import Desk, StreamRows
from cotenant.load.request import Limits, Outcome
from cotenant.load.settings import Tenant
from cotenant.load.stage import Stage
from cotenant.load.tasks import end_task
from cotenant.load.transport import CONNECT_AHEAD_NS, sleep_until
from cotenant.load.voice_consumer import VoiceConsumer
from cotenant.units import NS_PER_S
from cotenant.wire.addresses import over_http
from cotenant.wire.speech import MESSAGE_LIMIT_BYTES
from cotenant.wire.speech_servers import SERVERS, fields
from cotenant.wire.speech_socket import session_messages

_MESSAGE_LIMIT_BYTES: Final = 2 * MESSAGE_LIMIT_BYTES  # as base64 in JSON


async def speak(
    desk: Desk,
    stage: Stage,
    tenant: Tenant,
    rows: StreamRows,
    consumer: VoiceConsumer,
    outcome: Outcome,
    *,
    listener: int,
    line: Callable[[], tuple[int, str]],
) -> None:
    """Speaks it and fills in `outcome`; its end stays None only where this is cancelled."""
    limits = desk.limits(stage, stall=True)
    due_ns = outcome.due_ns
    socket: aiohttp.ClientWebSocketResponse | None = None
    failure: ServiceError | None = None
    try:
        await sleep_until(due_ns - CONNECT_AHEAD_NS)
        try:
            socket = await _connect(desk, tenant, listener, rows.stream, limits)
            outcome.connected_ns, outcome.status = time.monotonic_ns(), 101
        except ServiceError as error:
            failure = error
        await sleep_until(due_ns)
        utterance, text = line()
        rows.set(utterance=utterance)
        if socket is None or failure is not None:
            outcome.status = failure.status if failure is not None else None
            outcome.close("error", time.monotonic_ns(), failure)
            return
        server = SERVERS[tenant.protocol]
        said = fields(server, model=tenant.model, voice=tenant.voice, extra=tenant.extra)
        await _converse(socket, session_messages(text, said), outcome, limits, consumer)
    finally:
        if socket is not None:
            await web_socket.close(socket)


async def _connect(
    desk: Desk, tenant: Tenant, listener: int, stream: int, limits: Limits
) -> aiohttp.ClientWebSocketResponse:
    url = over_http(tenant.url(listener, SERVERS[tenant.protocol].path))
    return await web_socket.connect(
        desk.web,
        url,
        desk.headers(tenant, stream),
        limits.connect_ns / NS_PER_S,
        trusted=desk.transport.trust.of(url),
        limit_bytes=_MESSAGE_LIMIT_BYTES,
    )


async def _converse(
    socket: aiohttp.ClientWebSocketResponse,
    messages: list[str],
    outcome: Outcome,
    limits: Limits,
    consumer: VoiceConsumer,
) -> None:
    outcome.sent_ns = last_ns = time.monotonic_ns()
    consumer.sent()
    sending = asyncio.ensure_future(_send(socket, messages))
    try:
        while outcome.end is None:
            now_ns = time.monotonic_ns()
            until_ns = None if limits.stall_ns is None else last_ns + limits.stall_ns
            if until_ns is not None and now_ns >= until_ns:
                _given_up(outcome, consumer, now_ns, last_ns)
                return
            left_s = None if until_ns is None else (until_ns - now_ns) / NS_PER_S
            try:
                message = await socket.receive(timeout=left_s)
            except TimeoutError:
                continue
            last_ns = time.monotonic_ns()
            _take(message, outcome, consumer, last_ns)
    finally:
        await end_task(sending, OSError, aiohttp.ClientError)


async def _send(socket: aiohttp.ClientWebSocketResponse, messages: list[str]) -> None:
    # Should it break here, the reader sees the same break and tells what kind it is.
    with contextlib.suppress(OSError, aiohttp.ClientError):
        for message in messages:
            await socket.send_str(message)


def _take(message: aiohttp.WSMessage, outcome: Outcome, consumer: VoiceConsumer, now_ns: int) -> None:
    if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
        ended = web_socket.end_error(message)
        outcome.close("truncated" if ended.kind == "truncated" else "error", now_ns, ended)
        return
    outcome.user_reads += 1
    outcome.body_bytes += len(message.data)
    if outcome.first_byte_ns is None:
        outcome.first_byte_ns = now_ns
    try:
        if not consumer.message(message.data, now_ns):
            return
    except ServiceError as error:
        outcome.close("error", now_ns, error)
        return
    if consumer.outputs:
        outcome.close("eos", now_ns)
    else:
        outcome.close("error", now_ns, ServiceError("empty", "the session ended without any audio"))


def _given_up(outcome: Outcome, consumer: VoiceConsumer, now_ns: int, last_ns: int) -> None:
    silent_ms = (now_ns - last_ns) // 1_000_000
    error = ServiceError("timeout", f"given up; the last message was {silent_ms} ms ago")
    outcome.close("truncated" if consumer.outputs else "error", now_ns, error)
