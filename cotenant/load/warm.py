"""Warm-up: one request per planned stream of a load, before anything is measured."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.load.asker import WARM_TOKENS, ask, prepare
from cotenant.load.desk import Desk
from cotenant.load.settings import CompletionsLoad, FacesLoad, VoicesLoad
from cotenant.load.solo_face import one_clip, recordings
from cotenant.load.stage import Stage
from cotenant.load.voice import Turn, speak
from cotenant.records import WARM_STAGE


@dataclass(slots=True, kw_only=True)
class Warmth:
    """How a warm-up went: `failures` are (kind, message) of the streams that did not end well."""

    ok: int
    failures: list[tuple[str | None, str | None]]

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
        }


async def warm(desk: Desk, stage: Stage, name: str) -> Warmth:
    """Runs the warm-up requests of one load at once, to their ends."""
    assert stage.name == WARM_STAGE
    load = desk.settings.loads[name]
    now_ns = time.monotonic_ns()
    if isinstance(load, VoicesLoad):
        work = [_voice(desk, stage, load, listener, now_ns) for listener in range(load.listeners)]
    elif isinstance(load, FacesLoad):
        work = [_face(desk, stage, load, listener, now_ns) for listener in range(load.listeners)]
    else:
        work = [_completion(desk, stage, load, number, now_ns) for number in range(load.streams)]
    before = len(stage.endings)
    await asyncio.gather(*(stage.spawn(one) for one in work))
    endings = stage.endings[before:]
    failures = [(kind, error) for end, kind, error in endings if end != "eos"]
    return Warmth(ok=len(endings) - len(failures), failures=failures)


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
