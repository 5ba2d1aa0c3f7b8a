"""What all streams of a load process share: settings, the run's writer, the transport, their rows."""

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from cotenant.load.request import Limits, Outcome
from cotenant.load.settings import Settings, Tenant
from cotenant.load.stage import Stage
from cotenant.load.transport import Transport
from cotenant.records import STREAMS_PER_PROCESS, WARM_STAGE
from cotenant.run_dir.writer import RunWriter
from cotenant.wire.dialect import Dialect

# A service's first request may load or compile what later ones use.
_WARM_PATIENCE: Final = 6


@dataclass(slots=True, kw_only=True)
class Desk:
    """`late_audio` is a second writer, for the audio of streams that stalled after the limit was reached.

    `pace` is the arrival pattern of the last voice that came whole: (ns since its first packet, media ns).
    `dialects`: what each LLM tenant was found to accept; `words`: how many make a load's prompt of text;
    `speakers`: by tenant, the voice that was looked up.
    """

    settings: Settings
    writer: RunWriter
    transport: Transport
    web: aiohttp.ClientSession
    late_audio: RunWriter | None = None
    pace: list[tuple[int, int]] = field(default_factory=list)
    next_number: int = 0
    prompts: Iterator[int] = field(default_factory=itertools.count)
    speakers: dict[str, dict[str, Any]] = field(default_factory=dict)
    dialects: dict[str, Dialect] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)

    def new_stream(self) -> int:
        """A stream id, unique in the run."""
        number = self.next_number
        self.next_number += 1
        return self.settings.index * STREAMS_PER_PROCESS + number

    def headers(self, tenant: Tenant, stream: int) -> dict[str, str]:
        return {
            "Content-Type": "application/json",
            "User-Agent": "cotenant",
            "X-Request-Id": f"{self.settings.run_id}-{stream}",
            **tenant.headers,
        }

    def limits(self, stage: Stage, *, stall: bool) -> Limits:
        """`stall`: given up after the stall limit without a byte; else after the request limit."""
        patience = _WARM_PATIENCE if stage.name == WARM_STAGE else 1
        stall_ns = self.settings.stall_limit_ns * patience
        return Limits(
            connect_ns=stall_ns,
            stall_ns=stall_ns if stall else None,
            total_ns=None if stall else self.settings.request_limit_ns,
        )


class StreamRows:
    """The `streams` rows of one stream: one when it is sent, one at its end, the last wins."""

    def __init__(self, desk: Desk, stage: Stage, outcome: Outcome, **columns: Any) -> None:
        self.stream = desk.new_stream()
        self._desk = desk
        self._stage = stage
        self._outcome = outcome
        self._columns = {
            "stream": self.stream,
            "stage": stage.name,
            "round": stage.round,
            "due": outcome.due_ns,
            **columns,
        }
        self._written = False

    def set(self, **columns: Any) -> None:
        """Columns that became known."""
        self._columns.update(columns)

    def write(self) -> None:
        """The row as it stands."""
        self._written = True
        self._desk.writer.append("streams", **self._columns, **_outcome_columns(self._outcome))

    def stopped(self) -> None:
        """We ended it: `open` or `aborted` as the stage says if it had been sent, and never was otherwise."""
        if self._outcome.end is None:
            self._outcome.close(self._stage.stopped_as, time.monotonic_ns())
        if self._written:
            self.write()

    def ended(self) -> None:
        """It ended by itself; counts it if it was due in the window."""
        self.write()
        outcome = self._outcome
        self._stage.endings.append((outcome.end, outcome.error_kind, outcome.error))
        self._stage.count(outcome.due_ns, streams=1, failed=outcome.end != "eos")


def _outcome_columns(outcome: Outcome) -> Mapping[str, Any]:
    return {
        "connected": outcome.connected_ns,
        "sent": outcome.sent_ns,
        "first_byte": outcome.first_byte_ns,
        "done": outcome.done_ns,
        "end": outcome.end,
        "error_kind": outcome.error_kind,
        "error": outcome.error,
        "status": outcome.status,
        "bytes": outcome.body_bytes,
        "stamp": outcome.stamp,
    }
