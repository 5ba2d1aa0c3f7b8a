"""The `faces` and `llm` of the page's data: what each talking head and each LLM load did over a stage."""

from typing import Any, Final

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS
from cotenant.report.page.base import Base, ms, numbers
from cotenant.units import NS_PER_MS, NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.bootstrap import nearest_ranks
from cotenant.verdict.columns import NULL, Floats, Ints
from cotenant.verdict.plan import Window, within

_CURVE: Final = 101


def faces(base: Base) -> dict[str, Any]:
    """Stage -> what was seen, one point a second and a row a face."""
    found = {}
    for stage, seen in base.facts.faces.clips.items():
        streams = base.facts.faces.streams[stage]
        windows = seen.window_start_ns + NS_PER_S
        found[stage] = {
            "fps": _by_second(base, windows, seen.window_counts.astype(np.float64), widest=False),
            "skew_ms": _by_second(base, seen.shown_ns, seen.skew_ns / NS_PER_MS, widest=True),
            "by_face": [_face(base, seen, streams, at) for at in range(len(streams))],
        }
    return found


def _by_second(base: Base, times_ns: Ints, values: Floats, *, widest: bool) -> dict[str, Any]:
    """The lowest value of each second, or the one furthest from zero, at that second's end."""
    if not len(times_ns):
        return {"x": [], "y": []}
    second = (times_ns - base.t0_ns) // NS_PER_S
    # The one that counts comes first in its second.
    order = np.lexsort((-np.abs(values) if widest else values, second))
    found, first = np.unique(second[order], return_index=True)
    return {"x": (found + 1).tolist(), "y": numbers(values[order][first], 1)}


def _face(base: Base, seen: Any, streams: Any, at: int) -> dict[str, Any]:
    shown = slice(seen.shown_offsets[at], seen.shown_offsets[at + 1])
    skew = seen.skew_ns[shown]
    watched = int(seen.watched_ns[at])
    began = bool(seen.began[at])
    count = len(skew)
    lengths = seen.intervals_ns[seen.interval_offsets[at] : seen.interval_offsets[at + 1]]
    found = nearest_ranks(skew, (0.05, 0.5, 0.95)) if count else (None, None, None)
    quantile = dict(zip(("p5", "p50", "p95"), map(ms, found), strict=True))
    return {
        "stream": int(streams.stream[at]),
        "listener": None if streams.listener[at] == NULL else int(streams.listener[at]),
        "due_s": base.second(int(streams.due[at])),
        "fps_mean": round(count * NS_PER_S / watched, 2) if began and watched > 0 else None,
        "freezes": int(seen.freezes[at]) if began else None,
        "longest_ms": ms(int(lengths.max())) if began and len(lengths) else None,
        "first_frame_ms": None
        if seen.first_frame_ns[at] >= PLUS_INF_NS
        else ms(int(seen.first_frame_ns[at])),
        "frames": int(seen.frames[at]),
        "dropped": int(seen.dropped[at]) if began else None,
        **{f"skew_{name}_ms": value for name, value in quantile.items()},
    }


def llm(base: Base) -> dict[str, Any]:
    """Load -> stage -> its latencies as quantile curves, its tokens a second and its open requests."""
    found: dict[str, Any] = {}
    plan = base.facts.plan
    for load in plan.loads.values():
        if load.kind != "completions":
            continue
        found[load.name] = {}
        for stage in (*plan.solos, *base.stages):
            windows = plan.measured.get(stage.name, ())
            if load.name in stage.loads and windows:
                found[load.name][stage.name] = _load(base, load.name, stage.name, windows)
    return found


def _load(base: Base, load: str, stage: str, windows: tuple[Window, ...]) -> dict[str, Any]:
    tokens = base.facts.tokens
    mine = np.flatnonzero((tokens.streams.stage == stage) & (tokens.streams.load == load))
    streams = tokens.streams.take(mine)
    first = columns.first_of(tokens.arrival_ns, tokens.offsets)[mine]
    due = within(streams.due, windows) & (first != NULL)
    index = columns.rows_of(tokens.offsets, mine.astype(np.int64))
    arrival, count = tokens.arrival_ns[index], tokens.tokens[index]
    owner = np.repeat(np.arange(len(mine)), np.diff(tokens.offsets)[mine])
    follows = (np.diff(owner, prepend=-1) == 0) & within(arrival, windows)
    gaps = np.diff(arrival, prepend=arrival[:1])[follows]
    edges = [np.arange(w.start_ns, w.end_ns + 1, NS_PER_S) for w in windows]
    done = np.where(streams.done == NULL, base.end_ns, streams.done)
    sent = np.sort(streams.sent[streams.sent != NULL])
    gone = np.sort(done[streams.sent != NULL])
    x: list[float] = []
    rate: list[float] = []
    still: list[float] = []
    for edge in edges:
        sums, _ = np.histogram(arrival, bins=edge, weights=count) if len(edge) > 1 else (np.zeros(0), edge)
        x += base.seconds(edge[1:])
        rate += sums.tolist()
        at = edge[1:]
        still += (np.searchsorted(sent, at, "right") - np.searchsorted(gone, at, "right")).tolist()
    return {
        "ttft_ms": _curve((first - streams.due)[due]),
        "itl_ms": _curve(gaps),
        "tokens_per_s": {"x": x, "y": numbers(rate, 1)},
        "open": {"x": x, "y": still},
    }


def _curve(values_ns: Ints) -> dict[str, Any]:
    """Nearest ranks at q, in ms."""
    values = np.sort(values_ns)
    if not len(values):
        return {"q": [], "v": [], "n": 0}
    q = np.unique(np.concatenate([np.linspace(0, 1, _CURVE), [0.995, 0.999]]))
    rank = np.clip(np.ceil(q * len(values) - 1e-9).astype(np.int64) - 1, 0, len(values) - 1)
    return {"q": numbers(q, 4), "v": numbers(values[rank] / NS_PER_MS, 3), "n": len(values)}
