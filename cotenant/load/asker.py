"""Askers: LLM requests, so many always alive, or at a rate whatever comes."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cotenant.errors import ServiceError
from cotenant.load.desk import Desk, StreamRows
from cotenant.load.pacing import every_from_rate_ns, next_closed, schedule
from cotenant.load.prompts import dialect_of, prompt_ids, prompt_text, words_of
from cotenant.load.request import Outcome, Request
from cotenant.load.settings import CompletionsLoad
from cotenant.load.stage import Stage
from cotenant.load.transport import CONNECT_AHEAD_NS, sleep_until
from cotenant.units import NS_PER_S
from cotenant.wire.completions import Closing, CompletionDecoder, Tokens, Usage
from cotenant.wire.dialect import completion_request
from cotenant.wire.http1 import Body, Head

WARM_TOKENS: Final = 4
_PREPARE_AFTER_S: Final = 0.02
# What is waited for after an answer's reason, and after its usage: a `[DONE]` or the end of the response.
# Servers send both at once; those that send neither keep the connection, and the next request, waiting.
_REASON_GRACE_NS: Final = NS_PER_S
_USAGE_GRACE_NS: Final = NS_PER_S // 4
_NO_DONE: Final = "the answer ended without [DONE]"


def prepare(desk: Desk, load: CompletionsLoad, output: int) -> bytes:
    """The body of one request; milliseconds for a long prompt, so not when the request is due."""
    tenant = desk.settings.tenants[load.tenant]
    dialect = dialect_of(desk, tenant)
    # The run's id keeps the prompts new to a server that has seen an earlier run of the same seed.
    key = f"{desk.settings.run_id}/{desk.settings.seed}/{desk.settings.index}/{next(desk.prompts)}"
    return completion_request(
        model=tenant.model,
        prompt=prompt_ids(key, load.prompt) if dialect.ids else prompt_text(key, words_of(desk, load)),
        max_tokens=output,
        extra=tenant.extra,
        dialect=dialect,
    )


class _TokenConsumer:
    """Writes a row for each chunk that holds tokens."""

    def __init__(
        self,
        desk: Desk,
        stage: Stage,
        rows: StreamRows,
        outcome: Outcome,
        on_output: Callable[[], None],
        on_sent: Callable[[], None],
    ) -> None:
        self.outputs = 0
        self.prompt_tokens: int | None = None
        self._desk = desk
        self._stage = stage
        self._rows = rows
        self._outcome = outcome
        self._closing: Closing = "no"
        self._on_output = on_output
        self._on_sent = on_sent
        self._decoder: CompletionDecoder | None = None
        self._seq = 0

    def sent(self) -> None:
        self._rows.write()
        self._on_sent()

    def head(self, head: Head) -> None:
        self._decoder = CompletionDecoder(head)

    def body(self, body: Body, arrival_ns: int) -> bool:
        assert self._decoder is not None
        for event in self._decoder.feed(body):
            if isinstance(event, Tokens):
                self._tokens(event, arrival_ns)
            elif isinstance(event, Usage):
                self._usage(event)
            elif isinstance(event, Exception):
                raise event
            else:
                return True
        self._look_for_the_end(arrival_ns)
        return False

    def _look_for_the_end(self, arrival_ns: int) -> None:
        assert self._decoder is not None
        before, self._closing = self._closing, self._decoder.closing
        if self._closing == "no":
            self._outcome.over_ns = None
        elif self._closing != before:
            grace_ns = _REASON_GRACE_NS if self._closing == "reason" else _USAGE_GRACE_NS
            self._outcome.over_ns = arrival_ns + grace_ns

    def cut(self, arrival_ns: int) -> None:
        """An event that was cut is none."""

    def settle(self, outcome: Outcome) -> None:
        """Corrects the end by what the stream itself told of it: a server need not say `[DONE]`."""
        ended = self._decoder is not None and self._decoder.ended
        if outcome.end == "eos" and not ended:
            assert outcome.done_ns is not None
            error = ServiceError("truncated", "the stream ended without a finish_reason and without [DONE]")
            outcome.close("truncated", outcome.done_ns, error)
        elif outcome.error_kind == "truncated" and ended and self.outputs:
            outcome.end, outcome.error_kind, outcome.error = "eos", None, None
        if outcome.end == "eos" and self._decoder is not None and not self._decoder.said_done:
            outcome.error = _NO_DONE

    def _usage(self, event: Usage) -> None:
        # A running usage may leave the prompt's length for later.
        self.prompt_tokens = event.prompt_tokens or self.prompt_tokens
        self._rows.set(output_tokens=event.output_tokens)
        if self.prompt_tokens:
            self._rows.set(prompt_tokens=self.prompt_tokens)

    def _tokens(self, event: Tokens, arrival_ns: int) -> None:
        if not event.tokens:
            return
        self._desk.writer.append(
            "tokens",
            stream=self._rows.stream,
            seq=self._seq,
            arrival=arrival_ns,
            tokens=event.tokens,
            shared_read=event.shared_read,
        )
        if not self._seq:
            self._on_output()
        self._seq += 1
        self.outputs += event.tokens
        if self._stage.measured(arrival_ns):
            self._stage.counts.tokens += event.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How a request ended, and how long its prompt was if the server said so."""

    outcome: Outcome
    prompt_tokens: int | None


async def ask(
    desk: Desk,
    stage: Stage,
    load: CompletionsLoad,
    number: int,
    due_ns: int,
    body: bytes,
    on_sent: Callable[[], None] = lambda: None,
) -> Asked:
    """One request from its connection to its end.

    When cancelled it leaves a row that says why (see StreamRows.stopped).
    """
    tenant = desk.settings.tenants[load.tenant]
    dialect = dialect_of(desk, tenant)
    limits = desk.limits(stage, stall=False)
    outcome = Outcome(due_ns=due_ns, secrets=tenant.secrets)
    rows = StreamRows(
        desk,
        stage,
        outcome,
        tenant=load.tenant,
        load=load.name,
        kind="completions",
        listener=number,
        delayed=0,
        # A list of so many ids; a server that counts otherwise, or has got a text, says so in its usage.
        prompt_tokens=load.prompt if dialect.ids else None,
    )
    consumer = _TokenConsumer(desk, stage, rows, outcome, lambda: stage.output(load.name, number), on_sent)
    url = tenant.url(number, dialect.path)
    request = Request(url=url, headers=desk.headers(tenant, rows.stream), body=body)
    ticket = stage.plan(due_ns, followed=False)
    try:
        opened = await desk.transport.ahead(url, due_ns, limits)
        try:
            await sleep_until(due_ns)
        except asyncio.CancelledError:
            if not isinstance(opened, Exception):
                opened.close()
            raise
        await desk.transport.exchange(opened, request, outcome, limits, consumer)
        consumer.settle(outcome)
    except asyncio.CancelledError:
        rows.stopped()
        raise
    finally:
        stage.close(ticket)
    rows.ended()
    return Asked(outcome=outcome, prompt_tokens=consumer.prompt_tokens)


def start_askers(desk: Desk, stage: Stage, load: CompletionsLoad) -> None:
    """Sets a load's requests going."""
    if load.mode == "rate":
        stage.planned[load.name] = 1
        stage.spawn(_rate(desk, stage, load))
        return
    stage.planned[load.name] = load.streams
    for number in range(load.streams):
        stage.spawn(_alive(desk, stage, load, number))


async def _alive(desk: Desk, stage: Stage, load: CompletionsLoad, number: int) -> None:
    loop = asyncio.get_running_loop()
    bodies = [prepare(desk, load, load.output)]
    # The first is due once there is something to send.
    due_ns = max(stage.start_ns, time.monotonic_ns())

    def prepare_next() -> None:
        bodies.append(prepare(desk, load, load.output))

    def on_sent() -> None:
        # While the server works on this one; not in the way of its own sending.
        loop.call_later(_PREPARE_AFTER_S, prepare_next)

    while True:
        body = bodies.pop() if bodies else prepare(desk, load, load.output)
        outcome = (await ask(desk, stage, load, number, due_ns, body, on_sent)).outcome
        assert outcome.done_ns is not None
        due_ns = next_closed(outcome.done_ns, outcome.end != "eos")


async def _rate(desk: Desk, stage: Stage, load: CompletionsLoad) -> None:
    assert load.rate_per_s is not None
    key = f"{desk.settings.seed}/{load.name}"
    every_ns = every_from_rate_ns(load.rate_per_s)
    for number, due_ns in enumerate(schedule(key, stage.start_ns, every_ns)):
        await sleep_until(due_ns - CONNECT_AHEAD_NS)
        stage.spawn(_one(desk, stage, load, number, due_ns))


async def _one(desk: Desk, stage: Stage, load: CompletionsLoad, number: int, due_ns: int) -> None:
    await ask(desk, stage, load, number, due_ns, prepare(desk, load, load.output))
