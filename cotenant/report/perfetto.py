"""A run as a trace for ui.perfetto.dev: who asked what of whom, what came when, and what was heard of it.

Processes: the run (its stages, faults, the host's lag), playback (a track for each listener), each GPU (its
counters, the canary), each tenant (a track for each load and lane, one below it for the chunks or frames, and
its engine's counters). Categories: stage, measure, request, prefill, decode, chunk, frame, playback, playing,
stall, underrun, fault, missing. Units are in the names of args and counters.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from cotenant.playback.options import PlayerOptions
from cotenant.records import Recording
from cotenant.report.lanes import lanes
from cotenant.report.listening import Voice, every_voice
from cotenant.report.trace_counters import add_counters
from cotenant.report.trace_events import TraceEvents
from cotenant.report.trace_playback import Flows, add_playback
from cotenant.units import ms_from_ns
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Ints
from cotenant.verdict.plan import Plan, read_plan

# Slices of chunks and frames; with more, only the streams that stalled longest are shown in full.
DETAIL_LIMIT: Final = 150_000
# The prefills that ran while a chunk was made: for trace_processor and the query box of ui.perfetto.dev.
CHUNKS_THAT_OVERLAP_A_PREFILL: Final = """\
SELECT EXTRACT_ARG(chunk.arg_set_id, 'args.stage') AS stage,
       EXTRACT_ARG(chunk.arg_set_id, 'args.stream') AS stream,
       EXTRACT_ARG(chunk.arg_set_id, 'args.seq') AS seq,
       chunk.dur / 1e6 AS made_in_ms,
       (MIN(chunk.ts + chunk.dur, prefill.ts + prefill.dur) - MAX(chunk.ts, prefill.ts)) / 1e6 AS both_ms,
       EXTRACT_ARG(prefill.arg_set_id, 'args.prompt_tokens') AS prompt_tokens
FROM slice AS chunk
JOIN slice AS prefill
  ON prefill.ts < chunk.ts + chunk.dur AND chunk.ts < prefill.ts + prefill.dur
WHERE chunk.category = 'chunk' AND prefill.category = 'prefill'
ORDER BY chunk.dur DESC, stream, seq, prefill.ts
"""


def trace(recording: Recording, options: PlayerOptions, *, detail_limit: int = DETAIL_LIMIT) -> bytes:
    """The gzipped trace; the playback is that player's. The same recording gives the same bytes.

    Raises UserError for a manifest without a scenario.
    """
    plan = read_plan(recording)
    events = TraceEvents()
    run = events.process("run")
    _add_stages(events, run, plan)
    voices = {int(voice.row["stream"]): voice for voice in every_voice(recording, options)}
    shown, left_out = _in_full(recording, voices, detail_limit)
    flows = Flows()
    playback = events.process("playback")
    add_counters(events, recording, run, tenants := _Tenants(events, plan))
    _add_requests(events, recording, tenants, voices, shown, flows)
    add_playback(events, playback, voices, flows)
    manifest = recording.manifest
    return events.gzipped(
        {
            "tool": "cotenant",
            "run_id": str(manifest.get("run_id", "")),
            "scenario": plan.scenario.name,
            "clock": "CLOCK_MONOTONIC of the host that measured; t0_ns is where ts is 0",
            "lookahead_ms": ms_from_ns(options.lookahead_ns),
            "streams_without_chunk_slices": left_out,
        }
    )


class _Tenants:
    """The process of each tenant, made when first asked for."""

    def __init__(self, events: TraceEvents, plan: Plan) -> None:
        self._events, self._plan = events, plan
        self._pids: dict[str, int] = {}
        for name in plan.scenario.tenants:
            self.pid(name)

    def pid(self, name: str) -> int:
        if name not in self._pids:
            tenant = self._plan.scenario.tenants.get(name)
            kind = f" ({tenant.kind})" if tenant is not None else ""
            self._pids[name] = self._events.process(f"tenant {name}{kind}")
        return self._pids[name]


def _add_stages(events: TraceEvents, pid: int, plan: Plan) -> None:
    tid = events.thread(pid, "stages")
    for category, windows in (("stage", plan.lived), ("measure", plan.measured)):
        for name, spans in windows.items():
            for number, window in enumerate(spans):
                title = name if category == "stage" else "measure"
                args = {"stage": name, "window": number}
                events.slice(pid, tid, title, category, window.start_ns, window.end_ns, args)
    if plan.faults:
        tid = events.thread(pid, "faults")
        for t_ns, what in plan.faults:
            events.instant(pid, tid, what, "fault", t_ns, {})


def _in_full(
    recording: Recording, voices: Mapping[int, Voice], limit: int
) -> tuple[frozenset[int] | None, int]:
    """The streams whose chunks and frames are shown, None for all; and how many are not."""
    sizes: dict[int, int] = {}
    for name in ("chunks", "frames"):
        streams = columns.ints(columns.table(recording, name), "stream")
        ids, counts = np.unique(streams, return_counts=True)
        for stream, count in zip(ids.tolist(), counts.tolist(), strict=True):
            sizes[stream] = sizes.get(stream, 0) + count
    if sum(sizes.values()) <= limit:
        return None, 0

    def stalled_ns(stream: int) -> int:
        voice = voices.get(stream)
        playback = voice.playback if voice is not None else None
        return 0 if playback is None else playback.stall_total_ns or 0

    shown, used = set(), 0
    for stream in sorted(sizes, key=lambda stream: (-stalled_ns(stream), stream)):
        if used + sizes[stream] <= limit:
            shown.add(stream)
            used += sizes[stream]
    return frozenset(shown), len(sizes) - len(shown)


def _add_requests(
    events: TraceEvents,
    recording: Recording,
    tenants: _Tenants,
    voices: Mapping[int, Voice],
    shown: frozenset[int] | None,
    flows: Flows,
) -> None:
    rows = columns.table(recording, "streams").to_pylist()
    last_ns = max((row["done"] or 0 for row in rows), default=0)
    first_token = _first_tokens(recording)
    frames = _frames(recording)
    groups: dict[tuple[str, str], list[tuple[int, int, dict[str, Any]]]] = {}
    for row in rows:
        start_ns = row["sent"] if row["sent"] is not None else row["due"]
        if start_ns is not None:
            end_ns = max(start_ns, row["done"] if row["done"] is not None else last_ns)
            groups.setdefault((row["tenant"] or "?", row["load"] or "?"), []).append((start_ns, end_ns, row))
    for (tenant, load), spans in groups.items():
        pid = tenants.pid(tenant)
        spans.sort(key=lambda span: (span[0], span[2]["stream"]))
        lane_of = lanes((start, end) for start, end, _ in spans)
        tids = [events.thread(pid, f"{load} {lane}") for lane in range(max(lane_of) + 1)]
        inner = (
            {}
            if spans[0][2]["kind"] == "completions"
            else dict(enumerate(events.thread(pid, f"{load} {lane}: what came") for lane in range(len(tids))))
        )
        for lane, (start_ns, end_ns, row) in zip(lane_of, spans, strict=True):
            stream = row["stream"]
            title = f"{load} {row['listener']}/{row['utterance']}"
            events.slice(pid, tids[lane], title, "request", start_ns, end_ns, _request_args(row))
            if row["kind"] == "completions":
                _add_phases(events, pid, tids[lane], start_ns, end_ns, row, first_token.get(stream))
            elif shown is None or stream in shown:
                if stream in voices:
                    flows.add_chunks(events, pid, tids[lane], inner[lane], start_ns, voices[stream])
                else:
                    _add_frames(events, pid, inner[lane], start_ns, row, frames.get(stream))


def _request_args(row: Mapping[str, Any]) -> dict[str, Any]:
    def since_due(name: str) -> float | None:
        return None if row[name] is None or row["due"] is None else ms_from_ns(row[name] - row["due"])

    kept = ("stream", "load", "stage", "round", "end", "error_kind", "error", "status", "bytes", "rate_hz",
            "sample_format", "prompt_tokens", "output_tokens")  # fmt: skip
    return {
        **{name: row[name] for name in kept},
        "sent_after_due_ms": since_due("sent"),
        "first_byte_after_due_ms": since_due("first_byte"),
        "done_after_due_ms": since_due("done"),
    }


def _add_phases(
    events: TraceEvents,
    pid: int,
    tid: int,
    start_ns: int,
    end_ns: int,
    row: Mapping[str, Any],
    first: int | None,
) -> None:
    """Prefill is all of the time until the first token: waiting in the engine's queue is in it."""
    args = {name: row[name] for name in ("stream", "load", "stage", "prompt_tokens", "output_tokens")}
    split_ns = end_ns if first is None else min(max(first, start_ns), end_ns)
    cut = {"cut": True} if first is None else {}
    events.slice(pid, tid, "prefill", "prefill", start_ns, split_ns, {**args, **cut})
    if first is not None:
        events.slice(pid, tid, "decode", "decode", split_ns, end_ns, args)


def _add_frames(
    events: TraceEvents,
    pid: int,
    tid: int,
    start_ns: int,
    row: Mapping[str, Any],
    found: tuple[Ints, Ints, Ints] | None,
) -> None:
    before_ns = start_ns
    for seq, arrival_ns, media_ns in zip(*(part.tolist() for part in found or ()), strict=True):
        args = {"stream": row["stream"], "stage": row["stage"], "seq": seq}
        if media_ns != NULL:
            args["media_time_ms"] = ms_from_ns(media_ns)
        events.slice(pid, tid, f"frame {seq}", "frame", min(before_ns, arrival_ns), arrival_ns, args)
        before_ns = arrival_ns


def _first_tokens(recording: Recording) -> dict[int, int]:
    tokens = columns.table(recording, "tokens")
    some = tokens.filter(pc.greater(tokens["tokens"], 0))
    first = some.group_by("stream").aggregate([("arrival", "min")])
    return dict(zip(first["stream"].to_pylist(), first["arrival_min"].to_pylist(), strict=True))


def _frames(recording: Recording) -> dict[int, tuple[Ints, Ints, Ints]]:
    table = columns.table(recording, "frames")
    streams = np.unique(columns.ints(table, "stream"))
    order, offsets = columns.group(columns.ints(table, "stream"), streams)
    seq, arrival, media = (columns.ints(table, name)[order] for name in ("seq", "arrival", "media_time"))
    return {
        int(stream): (seq[a:b], arrival[a:b], media[a:b])
        for stream, a, b in zip(streams, offsets[:-1], offsets[1:], strict=True)
    }
