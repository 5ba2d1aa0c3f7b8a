"""What speaks against blaming a tenant for a stall: our own load process, or the host, stood still then."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant.units import NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.causes.time import Series
from cotenant.verdict.causes.units import Events, Units
from cotenant.verdict.columns import NULL, Bools, Floats, Ints, Streams, Texts
from cotenant.verdict.facts import Facts

NO_HOST: Final = "nothing watched the host then"
NO_TIMING: Final = "our own timing error is not known then"
# A disturbance of at least this share of a delay may have made it; less did not. On a CPU the host is what
# the tenants share: its sleeps are late because of them, and only a stand-still of its own is no tenant's.
_SHARE_GPU: Final = 0.2
_SHARE_CPU: Final = 0.5
_REACH_NS: Final = 2 * NS_PER_S
# The host is starved where its processes use this share of their cores; its stamps are then late anyway.
STARVED: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Vetoes:
    """Per event: the word `own_load`, `host`, `unknown`, or "" where a tenant may be to blame.

    `own_ns` and `host_ns`: by how much each may have delayed it, NaN where that is not known. `starved`: the
    tenants used all of their cores then.
    """

    word: Texts
    own_ns: Floats
    host_ns: Floats
    starved: Bools


def vetoes_of(facts: Facts, streams: Streams, table: str, units: Units, events: Events) -> Vetoes:
    """`streams`: those that the events' positions are of; `table`: where their arrivals stand."""
    size = len(events.unit)
    own, host = np.full(size, np.nan), np.full(size, np.nan)
    word = np.full(size, "", dtype=np.object_)
    known = events.unit >= 0
    if not known.any():
        word[:] = "unknown"
        return Vetoes(word=word, own_ns=own, host_ns=host, starved=known)
    start, end = units.start_ns[events.unit], units.end_ns[events.unit]
    # What never came has no stamp that could be wrong.
    own = np.where(events.open, 0.0, _own_error(facts, streams, table, events.stream, end))
    host = _host_lag(facts).largest(start, end)
    delay = np.maximum(events.duration_ns, end - start - units.usual_ns).astype(np.float64)
    share = _SHARE_GPU if facts.plan.has_gpu else _SHARE_CPU
    by_own, by_host = own >= share * delay, host >= share * delay
    starved = known & facts.plan.has_gpu & (cpu_share(facts, start, end) >= STARVED)
    by_host |= starved
    word[np.isnan(host) | np.isinf(own) | ~known] = "unknown"
    word[by_host & known] = "host"
    word[by_own & np.isfinite(own) & known] = "own_load"
    own = np.where(np.isinf(own), np.nan, own)
    return Vetoes(word=word, own_ns=own, host_ns=host, starved=starved)


def cpu_share(facts: Facts, start_ns: Ints, end_ns: Ints) -> Floats:
    """The share of their cores that the run's processes used, over the second around each window; NaN where
    it is not known. Where the tenants have cores of their own, it is they alone."""
    tenants = (facts.recording.manifest.get("cores") or {}).get("tenants")
    cores = (facts.recording.manifest.get("device") or {}).get("cpu_count")
    if apart := isinstance(tenants, list) and bool(tenants):
        cores = len(tenants)
    rows = columns.table(facts.recording, "host")
    mine = columns.texts(rows, "metric") == "cpu_s"
    at, value = columns.ints(rows, "t")[mine], columns.floats(rows, "value")[mine]
    source = columns.texts(rows, "source")[mine]
    names = set(source) & set(facts.plan.scenario.tenants) if apart else set(source)
    low, high = start_ns - NS_PER_S // 2, end_ns + NS_PER_S // 2
    total, some = np.zeros(len(start_ns)), False
    for name in sorted(names):
        own = np.flatnonzero((source == name) & ~np.isnan(value) & (at != NULL))
        own = own[np.argsort(at[own], kind="stable")]
        if len(own) > 1:
            some = True
            total += np.interp(high, at[own], value[own]) - np.interp(low, at[own], value[own])
    if not some or not isinstance(cores, int) or cores < 1:
        return np.full(len(start_ns), np.nan)
    return np.asarray(total / cores / ((high - low) / NS_PER_S), dtype=np.float64)


def _host_lag(facts: Facts) -> Series:
    """How much too late this host woke a sleeper, ns: the worst of each second."""
    rows = columns.table(facts.recording, "host")
    mine = (columns.texts(rows, "metric") == "sleep_lag_ns") & (columns.ints(rows, "t") != NULL)
    return Series.ticked(columns.ints(rows, "t")[mine], columns.floats(rows, "value")[mine], _REACH_NS)


def _own_error(facts: Facts, streams: Streams, table: str, stream: Ints, arrival_ns: Ints) -> Floats:
    """Our own error of the stamp of each arrival, +inf where it is not known."""
    found = np.full(len(stream), np.inf)
    rows = columns.table(facts.recording, table)
    chosen = np.unique(stream)
    order, offsets = columns.group(columns.ints(rows, "stream"), streams.stream[chosen])
    arrival = columns.ints(rows, "arrival")[order]
    at = _positions(facts.streams.stream, streams.stream[chosen])
    begins = facts.timing.offsets[at]
    # A stream has rows in one table only: its errors stand in the order of that table.
    if not bool((facts.timing.offsets[at + 1] - begins == np.diff(offsets)).all()):
        return found
    errors = facts.timing.arrival_error_ns[columns.rows_of(facts.timing.offsets, at)]
    place = np.searchsorted(chosen, stream)
    for event in range(len(stream)):
        low, high = offsets[place[event]], offsets[place[event] + 1]
        same = np.flatnonzero(arrival[low:high] == arrival_ns[event])
        if len(same):
            found[event] = float(errors[low:high][same].max())
    return found


def _positions(everything: Ints, wanted: Ints) -> Ints:
    order = np.argsort(everything, kind="stable")
    return np.asarray(order[np.searchsorted(everything[order], wanted)], dtype=np.int64)
