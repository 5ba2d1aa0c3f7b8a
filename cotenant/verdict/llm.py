"""The `llm` part of a stage's entry: one sub-entry per completions load."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant.records import Recording
from cotenant.units import NS_PER_MS, NS_PER_S, counted
from cotenant.verdict import columns
from cotenant.verdict.blocks import block_of
from cotenant.verdict.columns import NULL, Bools, Ints, Streams
from cotenant.verdict.plan import Load, Window, length_ns, within
from cotenant.verdict.sample import (
    Doubted,
    Least,
    Part,
    Quantiles,
    Ratio,
    milliseconds,
    put,
    put_exact,
    put_quantiles,
)

ALIVE_SHARE: Final = 0.95
ON_TIME_SHARE: Final = 0.95
ON_TIME_NS: Final = 100 * NS_PER_MS
NO_WINDOW: Final = "this was not measured"
NO_REQUEST: Final = "no request was due in the measure window"
WAITING: Final = (
    "no request was due in the measure window: those that waited all through it are too few to pass"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """All token messages of a run grouped by stream (CSR over `streams`), in order of arrival."""

    streams: Streams
    offsets: Ints
    arrival_ns: Ints
    tokens: Ints


def read_tokens(recording: Recording, streams: Streams) -> Tokens:
    """The messages of those streams that held tokens."""
    rows = columns.table(recording, "tokens")
    order, offsets = columns.group(columns.ints(rows, "stream"), streams.stream)
    arrival, tokens = columns.ints(rows, "arrival")[order], columns.ints(rows, "tokens")[order]
    # A message whose count is unknown holds a token all the same.
    tokens = np.where(tokens == NULL, 1, tokens)
    kept = (arrival != NULL) & (tokens > 0)
    before = np.concatenate(([0], np.cumsum(kept))).astype(np.int64)
    return Tokens(streams=streams, offsets=before[offsets], arrival_ns=arrival[kept], tokens=tokens[kept])


def llm_part(everything: Tokens, load: Load, stage: str, windows: tuple[Window, ...], block_ns: int) -> Part:
    """One load in one stage (or solo window).

    Rates cover the window and all requests that were at work in it; `ttft` those due in it (where none was,
    those that waited for their first token all through it); `itl` the gaps that ended in it; `tpot` and
    `finished` the requests that ended in it.
    """
    part = Part()
    rows = np.flatnonzero((everything.streams.stage == stage) & (everything.streams.load == load.name))
    streams = everything.streams.take(rows)
    span_ns = length_ns(windows) if len(rows) else 0
    counts = np.diff(everything.offsets)[rows]
    first = columns.first_of(everything.arrival_ns, everything.offsets)[rows]
    last = columns.last_of(everything.arrival_ns, everything.offsets)[rows]
    _rates(part, everything, rows, windows, block_ns, span_ns)
    finished = (streams.end == "eos") & within(streams.done, windows)
    prompted = within(first, windows)
    mute = int(np.count_nonzero(finished & (counts == 0)))
    _prompts(part, streams.prompt_tokens[prompted], mute, span_ns, _lacking(windows))
    due = within(streams.due, windows)
    part.entry["requests"] = int(np.count_nonzero(due))
    timed, since = due, streams.due
    if not due.any():
        timed, since = _waiting(streams, first, windows)
    _first_tokens(part, streams.take(timed), first[timed], block_of(since[timed], windows, block_ns))
    if not due.any() and timed.any():
        part.doubts |= {f"ttft_ms.{name}": Doubted(reason=WAITING) for name in ("p50", "p95", "p99")}
    _gaps(part, everything, rows, windows, block_ns)
    ended = np.flatnonzero(finished & (counts > 1))
    numbers = columns.sum_of(everything.tokens, everything.offsets)[rows[ended]]
    blocks = block_of(streams.done[ended], windows, block_ns)
    _per_token(part, last[ended] - first[ended], numbers, blocks)
    failed = np.isin(streams.end, ("error", "truncated")) & (due | within(streams.done, windows))
    put_exact(part, "finished", int(np.count_nonzero(finished)), span_ns and 1, _lacking(windows))
    put_exact(part, "open", int(np.count_nonzero(_still(streams))), span_ns and 1, _lacking(windows))
    put_exact(part, "failed", int(np.count_nonzero(failed)), span_ns and 1, _lacking(windows))
    kinds, numbers = np.unique([kind or "unknown" for kind in streams.error_kind[failed]], return_counts=True)
    part.entry["errors"] = {str(kind): int(number) for kind, number in zip(kinds, numbers, strict=True)}
    _delivered(part, load, streams, last, due, windows)
    return part


def _waiting(streams: Streams, first: Ints, windows: tuple[Window, ...]) -> tuple[Bools, Ints]:
    """Which requests waited for their first token all through a window, and from when on in it: of a server
    so slow, or hung, that nothing else falls due in it."""
    waiting, since = np.zeros(len(streams), dtype=np.bool_), streams.due.copy()
    for window in windows:
        until = np.where(streams.done == NULL, window.end_ns, streams.done)
        until = np.where(first == NULL, until, first)
        mine = (streams.due < window.start_ns) & (until >= window.end_ns) & (streams.due != NULL)
        waiting |= mine
        since[mine] = window.start_ns
    return waiting, since


def _still(streams: Streams) -> Bools:
    """Which requests we ended ourselves: at the drain, or when the run was interrupted."""
    return np.asarray(np.isin(streams.end, ("open", "aborted")))


def _prompts(part: Part, tokens: Ints, mute: int, span_ns: int, lacking: str) -> None:
    """Prompt tokens a second, of the requests whose first output came in the window; `mute`: how many ended
    there without any."""
    part.entry["prompts"] = len(tokens)
    unknown = int(np.count_nonzero(tokens == NULL))
    if unknown:
        lacking = f"the server did not say the length of {unknown} of {counted(len(tokens), 'prompt')}"
    elif mute:
        lacking = f"{counted(mute, 'request')} ended in the window without any output"
    rate = int(tokens.sum()) * NS_PER_S / span_ns if span_ns and not unknown + mute else None
    put(part, "prompt_tokens_per_s", rate, lacking, 3)


def _rates(
    part: Part, everything: Tokens, rows: Ints, windows: tuple[Window, ...], block_ns: int, span_ns: int
) -> None:
    index = columns.rows_of(everything.offsets, rows)
    arrival, tokens = everything.arrival_ns[index], everything.tokens[index]
    inside = within(arrival, windows)
    total = int(tokens[inside].sum())
    put(part, "tokens_per_s", total * NS_PER_S / span_ns if span_ns else None, _lacking(windows), 3)
    if not len(rows):
        return
    edges = [np.arange(window.start_ns, window.end_ns, block_ns) for window in windows]
    if not edges:
        return
    # One unit per time block, so that a bootstrap of blocks has the empty ones too.
    starts = np.concatenate(edges).astype(np.int64)
    ends = np.concatenate([np.append(e[1:], w.end_ns) for e, w in zip(edges, windows, strict=True)]).astype(
        np.int64
    )
    block = np.searchsorted(starts, arrival[inside], side="right") - 1
    numbers = np.bincount(block, weights=tokens[inside], minlength=len(starts)).astype(np.float64)
    part.samples["tokens_per_s"] = Ratio(
        numerators=numbers, denominators=(ends - starts) / NS_PER_S, blocks=np.arange(len(starts))
    )


def _first_tokens(part: Part, streams: Streams, first: Ints, blocks: Ints) -> None:
    """Time to the first token from `due`; a request that failed without one is +infinity.

    One that was still open when we ended it is known only to be over its age: where it decides a quantile,
    that is null.
    """
    there = first != NULL
    still = ~there & _still(streams) & (streams.done != NULL)
    value = np.where(there, first - streams.due, np.inf)
    least = np.where(still, (streams.done - streams.due).astype(np.float64), value)
    names = ("p50", "p95", "p99")
    sample = Quantiles(values=milliseconds(value), blocks=blocks)
    put_quantiles(part, "ttft_ms", sample, names, NO_REQUEST, count=True)
    if not still.any():
        return
    bare = Part()
    put_quantiles(bare, "ttft_ms", Quantiles(values=milliseconds(least), blocks=blocks), names, NO_REQUEST)
    for name in names:
        low = bare.entry["ttft_ms"][name]
        if part.why.get(f"ttft_ms.{name}") == "+inf" and low is not None:
            part.why[f"ttft_ms.{name}"] = (
                f"over {low:g} ms: requests were still without a token when the load stopped"
            )
            part.least[f"ttft_ms.{name}"] = Least(part=bare, path=f"ttft_ms.{name}")


def _gaps(part: Part, everything: Tokens, rows: Ints, windows: tuple[Window, ...], block_ns: int) -> None:
    """Gaps between a request's messages, pooled over the load."""
    index = columns.rows_of(everything.offsets, rows)
    arrival = everything.arrival_ns[index]
    counts = np.diff(everything.offsets)[rows]
    inner = np.ones(len(arrival), dtype=np.bool_)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64) if len(counts) else counts
    inner[starts[counts > 0]] = False
    gaps = np.diff(arrival, prepend=arrival[:1])
    kept = inner & within(arrival, windows)
    blocks = block_of(arrival[kept], windows, block_ns)
    reason = "no request had two messages in the measure window" if windows else NO_WINDOW
    sample = Quantiles(values=milliseconds(gaps[kept]), blocks=blocks)
    put_quantiles(part, "itl_ms", sample, ("p50", "p95", "p99"), reason, count=True)


def _per_token(part: Part, spans_ns: Ints, numbers: Ints, blocks: Ints) -> None:
    """Time per output token after the first, per request."""
    several = numbers > 1
    values = spans_ns[several] / (numbers[several] - 1)
    sample = Quantiles(values=milliseconds(values), blocks=blocks[several])
    put_quantiles(part, "tpot_ms", sample, ("p50", "p95"), "no request with two tokens ended in the window")


def _delivered(
    part: Part, load: Load, streams: Streams, last: Ints, due: Bools, windows: tuple[Window, ...]
) -> None:
    """Whether the load was there as planned; `delivered_share` is what that is judged by."""
    share: float | None = None
    if load.mode == "rate":
        wanted, lacking = ON_TIME_SHARE, NO_REQUEST
        sent = streams.sent[due]
        if len(sent):
            share = np.count_nonzero((sent != NULL) & (sent - streams.due[due] <= ON_TIME_NS)) / len(sent)
    else:
        wanted, lacking = (
            ALIVE_SHARE,
            NO_WINDOW if not windows else "the number of planned streams is unknown",
        )
        # Without an end a request was surely in flight until its last token only.
        until = np.where(streams.done == NULL, np.maximum(last, streams.sent), streams.done)
        flight = sum(
            int(
                np.maximum(0, np.minimum(until, window.end_ns) - np.maximum(streams.sent, window.start_ns))[
                    streams.sent != NULL
                ].sum()
            )
            for window in windows
        )
        if load.streams and windows:
            share = min(1.0, flight / (load.streams * length_ns(windows)))
    put(part, "delivered_share", None if share is None else float(share), lacking)
    part.entry["delivered"] = None if share is None else bool(share >= wanted)
    if share is None:
        part.why["delivered"] = lacking


def _lacking(windows: tuple[Window, ...]) -> str:
    return "no request of this load was recorded" if windows else NO_WINDOW
