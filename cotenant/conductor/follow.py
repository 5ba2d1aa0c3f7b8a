"""What a run's tables say while they are written: stages, underruns and each load's figures, as messages."""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.conductor.followed import Key, Stream, Window
from cotenant.conductor.heard import HeardVoice
from cotenant.conductor.tail import Tail
from cotenant.errors import UserError
from cotenant.playback.player import PlayerOptions
from cotenant.records import NOT_RUN, WARM_STAGE
from cotenant.run_dir import manifest
from cotenant.units import NS_PER_MS

_PHASES: Final = ("stage", "settle", "measure", "drain")
_FIGURES: Final = ("streams", "open", "failed", "underruns", "tokens")


class Follower:
    """Reads a run directory that others write, and `put`s what happened there (see cotenant.live.mqtt).

    `wall`: monotonic ns -> UTC text; `now_ns`: the monotonic clock; `pauses_ns`: load -> the pause after its
    utterances. Not thread-safe; costs those who measure nothing but the processor.
    """

    def __init__(
        self,
        run_dir: Path,
        options: PlayerOptions,
        *,
        wall: Callable[[int], str],
        put: Callable[[str, Mapping[str, Any]], None],
        now_ns: Callable[[], int],
        pauses_ns: Mapping[str, int],
    ) -> None:
        self._options, self._wall, self._put, self._run_dir = options, wall, put, run_dir
        self._now_ns, self._pauses_ns = now_ns, pauses_ns
        self._tails = {name: Tail(run_dir, name) for name in ("streams", "chunks", "tokens", "marks")}
        self._windows: dict[Key, Window] = {}
        self._rounds: dict[str, int] = {}
        self._left_out: Counter[str] = Counter()
        self._streams: dict[int, Stream] = {}
        self._early: dict[int, HeardVoice] = defaultdict(HeardVoice)
        self._owner: dict[int, tuple[Key, str]] = {}
        self._now: tuple[Key, str] | None = None
        self.stage: Mapping[str, Any] | None = None

    def look(self) -> None:
        """Takes what was written since the last look. Raises OSError and ArrowException."""
        # The marks last: they are then never older than what they are asked about.
        batches = {name: tail.read() for name, tail in self._tails.items()}
        stages = [self._mark(row) for batch in batches["marks"] for row in batch.to_pylist()]
        self._chunks(batches["chunks"])
        for batch in batches["streams"]:
            for row in batch.to_pylist():
                self._row(row)
        self._tokens(batches["tokens"])
        self._underruns()
        for self.stage in filter(None, stages):
            self._put("stage", self.stage)

    def _mark(self, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What is to be told of a mark."""
        what, name, edge = row["what"], row["name"], row["edge"]
        if what == "fault" and name.startswith(NOT_RUN):
            return self._not_run(name.removeprefix(NOT_RUN), row["t"])
        if what not in _PHASES:
            return None
        if (what, edge) == ("stage", "start"):
            self._rounds[name] = self._rounds.get(name, -1) + 1
            self._windows[name, self._rounds[name]] = Window()
        key = (name, self._rounds.get(name, 0))
        window = self._windows.setdefault(key, Window())
        if what == "measure":
            if edge == "start":
                window.start_ns = row["t"]
            else:
                window.end_ns = row["t"]
        over = (what, edge) == ("stage", "end")
        self._now = None if over else (key, what)
        if over:
            # Its figures are told no more, and an hour has many streams.
            window.tokens.clear()
            window.streams.clear()
        return {"name": name, "round": key[1], "phase": what, "edge": edge, "at": self._wall(row["t"])}

    def _not_run(self, name: str, t_ns: int) -> Mapping[str, Any]:
        """A window that is left out: its round and the reason were put into the manifest before."""
        told: Mapping[str, Any] = {}
        self._left_out[name] += 1
        with contextlib.suppress(UserError, IndexError):
            left = [one for one in manifest.read(self._run_dir).get("not_run", ()) if one["stage"] == name]
            told = left[self._left_out[name] - 1]
        where = {"name": name, "round": told.get("round", 0), "phase": "not-run", "edge": "end"}
        return {**where, "at": self._wall(t_ns), "why": told.get("why")}

    def _chunks(self, batches: list[pa.RecordBatch]) -> None:
        for batch in batches:
            columns = [batch[name].to_pylist() for name in ("stream", "seq", "arrival", "media")]
            for stream, seq, arrival_ns, media_ns in zip(*columns, strict=True):
                known = self._streams.get(stream)
                voice = known.voice if known is not None else self._early[stream]
                voice.add(seq, arrival_ns, media_ns or 0, self._options.quantum_ns)

    def _row(self, row: Mapping[str, Any]) -> None:
        """A stream that was sent, or has ended; what is warmed up with is no one's listening."""
        number, key = row["stream"], (row["stage"], row["round"] or 0)
        voice = self._early.pop(number, None)
        if row["stage"] == WARM_STAGE:
            return
        known = self._streams.get(number)
        if known is None:
            pause_ns = self._pauses_ns.get(row["load"], 0)
            known = Stream(row=row, voice=voice or HeardVoice(), pause_ns=pause_ns)
            self._streams[number] = known
            self._windows.setdefault(key, Window()).streams[number] = known
            self._owner[number] = (key, row["load"])
        known.row = row
        if row["end"] is not None and row["done"] is not None:
            known.voice.end(row["done"], whole=row["end"] == "eos")

    def _tokens(self, batches: list[pa.RecordBatch]) -> None:
        for batch in batches:
            streams, counts = batch["stream"].to_numpy(), batch["tokens"].to_numpy()
            arrival = batch["arrival"].to_numpy()
            for stream in np.unique(streams).tolist():
                owner = self._owner.get(stream)
                if owner is not None:
                    mine = streams == stream
                    self._windows[owner[0]].tokens[owner[1]].append((arrival[mine], counts[mine]))

    def _underruns(self) -> None:
        fresh = []
        for number, stream in list(self._streams.items()):
            fresh += [(event, stream.row) for event in stream.voice.fresh(self._options)]
            if stream.row["end"] is not None:
                del self._streams[number]
        for event, row in sorted(fresh, key=lambda one: one[0].start_ns):
            key = (row["stage"], row["round"] or 0)
            told = {name: row[name] for name in ("load", "tenant", "listener", "utterance", "stream")}
            silence = (event.start_ns, event.duration_ns)
            self._put(
                "underrun",
                {
                    "stage": key[0],
                    "round": key[1],
                    "window": self._windows[key].part_of(row, silence, self._now_ns()),
                    **told,
                    "at": self._wall(event.start_ns),
                    "media_ms": round(event.media_ns / NS_PER_MS, 3),
                    "duration_ms": round(event.duration_ns / NS_PER_MS, 3),
                },
            )

    def metrics(self) -> None:
        """Puts the figures of the stage that goes on; nothing between two."""
        if self._now is None:
            return
        (name, round_), phase = self._now
        window = self._windows[name, round_]
        loads: dict[str, dict[str, Any]] = {}
        for stream in window.streams.values():
            row = stream.row
            figures = loads.setdefault(row["load"], {"kind": row["kind"], **dict.fromkeys(_FIGURES, 0)})
            if row["end"] is None:
                figures["open"] += 1
            if window.part(row["due"]) == "measure":
                figures["streams"] += row["end"] is not None
                figures["failed"] += row["end"] not in (None, "eos")
                figures["underruns"] += len(stream.voice.silences)
        for stream, underruns in window.under_way(self._now_ns()):
            figures = loads[stream.row["load"]]
            figures["streams"] += 1
            figures["failed"] += stream.row["end"] in ("error", "truncated")
            figures["underruns"] += underruns
        for load, figures in loads.items():
            figures["tokens"] = window.tokens_of(load)
        total = {name: sum(figures[name] for figures in loads.values()) for name in _FIGURES}
        self._put("metrics", {"stage": name, "round": round_, "phase": phase, "loads": loads, "total": total})
