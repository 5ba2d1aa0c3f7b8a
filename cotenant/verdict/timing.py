"""How exact our own measuring was: the error of every stamp and every send, per load and stage."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cotenant.records import LAG_PERIOD_NS, STREAMS_PER_PROCESS, Recording
from cotenant.units import NS_PER_MS, NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.bootstrap import nearest_rank
from cotenant.verdict.columns import NULL, Floats, Ints, Streams

LIMIT_NS: Final = 10 * NS_PER_MS
_P99: Final = 0.99
# A value of the host table says something about this much time around it.
_REACH_NS: Final = 5 * NS_PER_S
_LATE_SUFFIX: Final = "-stalled"
_METRIC_OF_STAMP: Final = {"kernel": "offset_bracket_ns", "user": "loop_lag_ns"}

# (source, metric) -> (times, values), in order of time; never empty.
_Host = dict[tuple[str, str], tuple[Ints, Floats]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Errors of the arrivals of every stream of `streams` (CSR, ns, +inf where unknown) and of every send."""

    offsets: Ints
    arrival_error_ns: Floats
    send_error_ns: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingError:
    """p99 of the errors of one load in one stage, ns; None where they are unknown (too many for a p99).

    `p99_ns` is the larger of that of the arrivals and that of the sends. `over_limit` counts the stamps whose
    error is above LIMIT_NS or not known.
    """

    p99_ns: float | None
    arrivals_p99_ns: float | None
    sends_p99_ns: float | None
    arrivals: int
    sends: int
    unknown_share: float
    over_limit: int

    def judged_ns(self, kind: str) -> float | None:
        """The p99 that a stage is judged by. An LLM load has to have been sent when it was due; when its
        tokens came bears on its own latencies alone, whose gates are left undecided near their limits."""
        return self.sends_p99_ns if kind == "completions" else self.p99_ns

    def spoils(self, kind: str) -> bool:
        """Whether the error of a load of this kind makes a stage INVALID. Of fewer than 100 stamps the p99 is
        the largest one: a single stamp is no distribution."""
        p99_ns = self.judged_ns(kind)
        return p99_ns is not None and p99_ns > LIMIT_NS and self.over_limit > 1


def read_timing(recording: Recording, streams: Streams) -> Timing:
    """The error of each arrival of `chunks`, `frames` and `tokens`, and of each send."""
    host = _read_host(recording)
    sources = _sources(recording, streams, host)
    pieces = []
    for name in ("chunks", "frames", "tokens"):
        rows = columns.table(recording, name)
        if not rows.num_rows:
            continue
        order, offsets = columns.group(columns.ints(rows, "stream"), streams.stream)
        arrival = columns.ints(rows, "arrival")[order]
        shared = columns.flags(rows, "shared_read")[order]
        pieces.append((offsets, _arrival_errors(streams, offsets, arrival, shared, host, sources)))
    offsets, errors = _joined(pieces, len(streams))
    return Timing(offsets=offsets, arrival_error_ns=errors, send_error_ns=_send_errors(streams))


def error_of(timing: Timing, streams: Ints, sends: Ints) -> TimingError:
    """The timing error over all arrivals of some streams and the sends of some."""
    arrivals = timing.arrival_error_ns[columns.rows_of(timing.offsets, streams)]
    sent, total = timing.send_error_ns[sends], len(arrivals)
    sent = sent[~np.isnan(sent)]
    each = [nearest_rank(errors, _P99) if len(errors) else None for errors in (arrivals, sent)]
    unknown = int(np.count_nonzero(np.isinf(arrivals)) + np.count_nonzero(np.isinf(sent)))
    share = unknown / max(1, total + len(sent))
    p99 = max((error for error in each if error is not None), default=None)
    finite = [None if error is None or np.isinf(error) else error for error in (p99, *each)]
    return TimingError(
        p99_ns=finite[0],
        arrivals_p99_ns=finite[1],
        sends_p99_ns=finite[2],
        arrivals=total,
        sends=len(sent),
        unknown_share=share,
        over_limit=sum(int(np.count_nonzero(errors > LIMIT_NS)) for errors in (arrivals, sent)),
    )


def _send_errors(streams: Streams) -> Floats:
    """sent - due, from when there was a connection on: one that the service was slow to accept is its own
    doing.

    NaN where nothing was sent because the service did not take the connection.
    """
    ready = np.maximum(streams.due, streams.connected)
    late = np.maximum(0, streams.sent - ready).astype(np.float64)
    refused = (streams.sent == NULL) & (streams.end != "eos") & (streams.end != "")
    late[streams.sent == NULL] = np.inf
    late[refused] = np.nan
    return late


def _arrival_errors(
    streams: Streams,
    offsets: Ints,
    arrival: Ints,
    shared: np.typing.NDArray[np.int8],
    host: _Host,
    sources: dict[int, frozenset[str]],
) -> Floats:
    errors = np.full(len(arrival), np.inf)
    process = streams.stream // STREAMS_PER_PROCESS
    for stamp, metric in _METRIC_OF_STAMP.items():
        of_stamp = streams.stamp == stamp
        for index in np.unique(process[of_stamp]):
            rows = _rows(offsets, of_stamp & (process == index))
            errors[rows] = _next_after(_series(host, metric, sources[int(index)]), arrival[rows])
    together = np.flatnonzero(shared == 1)
    if len(together):
        since = _since_previous_read(arrival, offsets, streams.sent)[together]
        reader = np.repeat(process, np.diff(offsets))[together]
        for index in np.unique(reader):
            mine = reader == index
            rows = together[mine]
            lag = _next_after(_series(host, "loop_lag_ns", sources[int(index)]), arrival[rows])
            # An earlier message came after the previous read, and not longer ago than the loop stood still:
            # a loop that polls reads it by itself.
            errors[rows] = np.minimum(since[mine], lag + LAG_PERIOD_NS)
    errors[shared < 0] = np.inf
    return errors


def _rows(offsets: Ints, mask: np.typing.NDArray[np.bool_]) -> Ints | slice:
    chosen = np.flatnonzero(mask)
    if len(chosen) and chosen[-1] - chosen[0] + 1 == len(chosen):
        return slice(int(offsets[chosen[0]]), int(offsets[chosen[-1] + 1]))
    return np.flatnonzero(np.repeat(mask, np.diff(offsets))).astype(np.int64)


def _since_previous_read(arrival: Ints, offsets: Ints, sent: Ints) -> Floats:
    """How long before each stamp the stream's previous read was; of its first read, how long before it was
    sent."""
    size = len(arrival)
    if not size:
        return np.zeros(0)
    new = np.ones(size, dtype=np.bool_)
    new[1:] = arrival[1:] != arrival[:-1]
    counts = np.diff(offsets)
    starts = offsets[:-1][counts > 0]
    new[starts] = True
    # The row that opened the read of each row, and the row before that one.
    opened = np.maximum.accumulate(np.where(new, np.arange(size), 0))
    first = np.zeros(size, dtype=np.bool_)
    first[starts] = True
    before = np.where(first[opened], np.repeat(sent, counts), arrival[np.maximum(opened - 1, 0)])
    return np.where(before == NULL, np.inf, (arrival - before).astype(np.float64))


def _read_host(recording: Recording) -> _Host:
    """(source, metric) -> (times, values), in order of time."""
    rows = columns.table(recording, "host")
    times, values = columns.ints(rows, "t"), columns.floats(rows, "value")
    sources, metrics = columns.texts(rows, "source"), columns.texts(rows, "metric")
    found: _Host = {}
    for metric in _METRIC_OF_STAMP.values():
        of_metric = (metrics == metric) & ~np.isnan(values) & (sources != "")
        for source in sorted(set(sources[of_metric])):
            mine = np.flatnonzero(of_metric & (sources == source))
            mine = mine[np.argsort(times[mine], kind="stable")]
            found[(str(source), metric)] = (times[mine], values[mine])
    return found


def _sources(recording: Recording, streams: Streams, host: _Host) -> dict[int, frozenset[str]]:
    """Process index -> the sources one of which is its own, as far as the audio rows tell: empty where the
    process has no host rows, or may have none."""
    written = {source for source, _ in host}
    named = _audio_writers(recording)
    own = {process: names & written for process, names in named.items()}
    free = frozenset(written - frozenset().union(*named.values()))
    others = [int(index) for index in np.unique(streams.stream // STREAMS_PER_PROCESS) if index not in named]
    # With fewer sources than processes one of them wrote nothing, and it is not known which.
    return {**own, **dict.fromkeys(others, free if len(free) >= len(others) else frozenset())}


def _audio_writers(recording: Recording) -> dict[int, frozenset[str]]:
    """Process index -> all that wrote audio rows of it."""
    rows = columns.table(recording, "chunks")
    if "writer" not in rows.column_names or not rows.num_rows:
        return {}
    writer = rows.column("writer").combine_chunks()
    if not isinstance(writer, pa.DictionaryArray):
        writer = writer.dictionary_encode()
    names = [str(name) for name in writer.dictionary.to_pylist()] or [""]
    code = np.asarray(pc.fill_null(writer.indices, 0).to_numpy(), dtype=np.int64)
    process = columns.ints(rows, "stream") // STREAMS_PER_PROCESS
    found: dict[int, frozenset[str]] = {}
    for pair in np.unique(process * len(names) + code):
        index = int(pair) // len(names)
        name = names[int(pair) % len(names)]
        # Audio kept after the fact has a writer of its own.
        found[index] = found.get(index, frozenset()) | {name, name.removesuffix(_LATE_SUFFIX)}
    return found


def _series(host: _Host, metric: str, sources: frozenset[str]) -> list[tuple[Ints, Floats]]:
    """All that may be the process's own; nothing where one of its sources lacks the metric."""
    if not all((source, metric) in host for source in sources):
        return []
    return [host[(source, metric)] for source in sorted(sources)]


def _next_after(series: list[tuple[Ints, Floats]], times: Ints) -> Floats:
    """The value written next after each time, which speaks of the time up to it: the largest of all series.

    The last value where none came after; +inf where one of the series has none near.
    """
    worst = np.full(len(times), -np.inf)
    for at, values in series:
        place = np.minimum(np.searchsorted(at, times), len(at) - 1)
        near = np.abs(times - at[place]) <= _REACH_NS
        worst = np.maximum(worst, np.where(near & (values[place] >= 0), values[place], np.inf))
    return np.where(worst < 0, np.inf, worst)


def _joined(pieces: list[tuple[Ints, Floats]], size: int) -> tuple[Ints, Floats]:
    """One CSR from several over the same streams; a stream has rows in one table only."""
    if not pieces:
        return np.zeros(size + 1, dtype=np.int64), np.zeros(0)
    if len(pieces) == 1:
        return pieces[0]
    counts = sum((np.diff(offsets) for offsets, _ in pieces), start=np.zeros(size, dtype=np.int64))
    joined = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    errors = np.empty(int(joined[-1]))
    for offsets, values in pieces:
        errors[np.arange(len(values)) + np.repeat(joined[:-1] - offsets[:-1], np.diff(offsets))] = values
    return joined, errors
