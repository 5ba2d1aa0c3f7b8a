"""Warm-up: one request per planned stream of a load, before anything is measured."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant.load.asker import WARM_TOKENS, Asked, ask, prepare
from cotenant.load.desk import Desk
from cotenant.load.prompts import dialect_of, may_chat, measure_words
from cotenant.load.settings import CompletionsLoad, FacesLoad, Load, VoicesLoad
from cotenant.load.solo_face import one_clip, recordings
from cotenant.load.stage import Stage
from cotenant.load.voice import Turn, speak
from cotenant.records import WARM_STAGE
from cotenant.wire.dialect import relaxed


@dataclass(slots=True, kw_only=True)
class Warmth:
    """How a warm-up went: `failures` are (kind, message) of the streams that did not end well.

    `request`: in which form an LLM's requests are sent from here on.
    """

    ok: int
    failures: list[tuple[str | None, str | None]]
    request: Mapping[str, Any] | None = None

    def event(self, load: str) -> Mapping[str, Any]:
        """The answer to the conductor."""
        kind, error = self.failures[0] if self.failures else (None, None)
        return {
            "event": "warmed",
            "load": load,
            "ok": self.ok,
            "failed": len(self.failures),
            "error_kind": kind,
            "error": error,
            **({"request": self.request} if self.request is not None else {}),
        }


async def warm(desk: Desk, stage: Stage, name: str) -> Warmth:
    """Runs the warm-up requests of one load at once, to their ends."""
    assert stage.name == WARM_STAGE
    load = desk.settings.loads[name]
    now_ns, first = time.monotonic_ns(), 0
    if isinstance(load, VoicesLoad):
        work = [_voice(desk, stage, load, listener, now_ns) for listener in range(load.listeners)]
    elif isinstance(load, FacesLoad):
        work = [_face(desk, stage, load, listener, now_ns) for listener in range(load.listeners)]
    else:
        first = await _find_dialect(desk, stage, load)
        others = range(1, load.streams) if first else range(load.streams)
        work = [_completion(desk, stage, load, number, time.monotonic_ns()) for number in others]
    before = len(stage.endings) - first
    await asyncio.gather(*(stage.spawn(one) for one in work))
    return _warmth(desk, load, stage.endings[before:])


async def warm_one(desk: Desk, stage: Stage, name: str, *, tokens: int = WARM_TOKENS) -> Warmth:
    """The first of those requests alone, of `tokens` where it asks an LLM.

    What refuses the form of a request is asked in the next one, as in a warm-up; nothing else is sent again.
    """
    load = desk.settings.loads[name]
    now_ns = time.monotonic_ns()
    if isinstance(load, VoicesLoad):
        await stage.spawn(_voice(desk, stage, load, 0, now_ns))
    elif isinstance(load, FacesLoad):
        await stage.spawn(_face(desk, stage, load, 0, now_ns))
    else:
        await _find_dialect(desk, stage, load, tokens)
    return _warmth(desk, load, stage.endings[-1:])


def _warmth(desk: Desk, load: Load, endings: Sequence[tuple[str | None, str | None, str | None]]) -> Warmth:
    failures = [(kind, error) for end, kind, error in endings if end != "eos"]
    request = None
    if isinstance(load, CompletionsLoad):
        dialect = dialect_of(desk, desk.settings.tenants[load.tenant])
        request = dialect.fact()
        if dialect.chat:
            failures = [(kind, _of_a_chat(kind, error)) for kind, error in failures]
    return Warmth(ok=len(endings) - len(failures), failures=failures, request=request)


async def _voice(desk: Desk, stage: Stage, load: VoicesLoad, listener: int, due_ns: int) -> None:
    text = min(load.settling, key=len)
    turn = Turn(listener=listener, due_ns=due_ns, delayed_ns=0, line=lambda: (-1, text), tap=None)
    await speak(desk, stage, load, turn)


async def _face(desk: Desk, stage: Stage, load: FacesLoad, listener: int, due_ns: int) -> None:
    path = min(recordings(None), key=lambda path: path.stat().st_size)
    await one_clip(desk, stage, load, listener, lambda: (-1, path), due_ns)


async def _completion(desk: Desk, stage: Stage, load: CompletionsLoad, number: int, due_ns: int) -> None:
    body = prepare(desk, load, min(load.output, WARM_TOKENS))
    await ask(desk, stage, load, number, due_ns, body)


def _of_a_chat(kind: str | None, error: str | None) -> str | None:
    """A server without a tokenizer says little more than that it failed."""
    if error is None or not (kind == "server_error" or "tokenizer" in error.lower()):
        return error
    return (
        f"{error} (a chat needs a tokenizer; a server started without one, as with dummy weights, takes "
        "token ids: protocol: completions)"
    )


async def _find_dialect(desk: Desk, stage: Stage, load: CompletionsLoad, tokens: int = WARM_TOKENS) -> int:
    """Asks until the server takes the form of the request, or says no to all; 1 once it took one, else 0.

    Without a refusal nothing is found out: whatever failed then fails for all of them.
    """
    tenant = desk.settings.tenants[load.tenant]
    while True:
        dialect = dialect_of(desk, tenant)
        body = prepare(desk, load, min(load.output, tokens))
        asked = await _asked(desk, stage, load, body)
        outcome = asked.outcome
        if outcome.end == "eos":
            measure_words(desk, load, asked.prompt_tokens)
            return 1
        then = relaxed(dialect, outcome.status, outcome.error or "", may_chat=may_chat(tenant))
        if then is None:
            return 0
        desk.dialects[tenant.name] = then


async def _asked(desk: Desk, stage: Stage, load: CompletionsLoad, body: bytes) -> Asked:
    """One request as a task of the stage, which a drain ends."""
    found: list[Asked] = []

    async def one() -> None:
        found.append(await ask(desk, stage, load, 0, time.monotonic_ns(), body))

    await stage.spawn(one())
    return found[0]
