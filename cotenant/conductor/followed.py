"""A stage as its run's tables show it while they are written: its window, its streams, what counts in it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cotenant.conductor.heard import HeardVoice
from cotenant.playback.under_way import Listener, Span, silences_within, under_way

Key = tuple[str, int]  # stage and round


@dataclass(slots=True, kw_only=True)
class Stream:
    """One stream; an `Utterance` of `cotenant.playback.under_way` where it is a voice."""

    row: Mapping[str, Any]
    voice: HeardVoice
    pause_ns: int

    @property
    def listener_key(self) -> Listener:
        return self.row["load"], self.row["listener"]

    @property
    def due_ns(self) -> int:
        return int(self.row["due"])

    @property
    def began_ns(self) -> int | None:
        return self.voice.began_ns

    @property
    def over_ns(self) -> int | None:
        return self.voice.over_ns


@dataclass(slots=True, kw_only=True)
class Window:
    """One stage in one round, as far as it has been written; `end_ns` is None while it is measured, and later
    where it is extended."""

    start_ns: int | None = None
    end_ns: int | None = None
    streams: dict[int, Stream] = field(default_factory=dict)
    tokens: dict[str, list[tuple[Any, Any]]] = field(default_factory=lambda: defaultdict(list))

    def part(self, due_ns: int) -> str:
        """`settle`, `measure` or `after`."""
        if self.start_ns is None or due_ns < self.start_ns:
            return "settle"
        return "measure" if self.end_ns is None or due_ns < self.end_ns else "after"

    def part_of(self, row: Mapping[str, Any], silence: tuple[int, int], now_ns: int) -> str:
        """As `part`, or `under_way`: the silence counts in the window all the same."""
        part, span = self.part(row["due"]), self._span(now_ns)
        if part != "settle" or span is None or not silences_within([silence], span):
            return part
        mine = (stream.row["stream"] == row["stream"] for stream, _ in self.under_way(now_ns))
        return "under_way" if any(mine) else part

    def under_way(self, now_ns: int) -> list[tuple[Stream, int]]:
        """The voices that are judged although they were due before the window, each with its underruns in
        it that are over."""
        if (span := self._span(now_ns)) is None:
            return []
        voices = [one for one in self.streams.values() if one.row["kind"] == "voices"]
        served = {one.listener_key for one in voices if span.start_ns <= one.due_ns < span.until_ns}
        return [(one, silences_within(one.voice.silences, span)) for one in under_way(voices, served, span)]

    def _span(self, now_ns: int) -> Span | None:
        if self.start_ns is None or now_ns <= self.start_ns:
            return None
        until_ns = now_ns if self.end_ns is None else min(now_ns, self.end_ns)
        return Span(start_ns=self.start_ns, until_ns=until_ns)

    def tokens_of(self, load: str) -> int:
        """Those that arrived while it was measured."""
        if self.start_ns is None:
            return 0
        end_ns = np.iinfo(np.int64).max if self.end_ns is None else self.end_ns
        pieces = self.tokens[load]
        return int(sum(n[(t >= self.start_ns) & (t < end_ns)].sum() for t, n in pieces))
