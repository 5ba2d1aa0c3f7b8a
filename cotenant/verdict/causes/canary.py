"""The GPU canary: how long a tiny kernel waited, and how many busy processes that counts."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant.records import SOLO_PREFIX
from cotenant.units import NS_PER_MS
from cotenant.verdict import columns
from cotenant.verdict.bootstrap import nearest_rank
from cotenant.verdict.causes.time import Series
from cotenant.verdict.columns import NULL, Floats, Ints
from cotenant.verdict.facts import Facts
from cotenant.verdict.observed import ON_HOST
from cotenant.verdict.plan import Window, within

# Measured on an H200 under time slicing: the longest wait beside one busy process is 2.4 to 3.1 ms, and each
# process more adds 1.9 to 2.3 ms (2: 5.0, 3: 7.2, 8: 16.2 to 16.7, 9: 18.6 to 20.2, 10: 20.0 to 20.6 ms).
FIRST_MS: Final = 2.7
NEXT_TO_FIRST: Final = 0.75
ASSUMED: Final = "assumed: 2.7 ms beside one busy process, 2 ms for each more, as measured on an H200"
CALIBRATED: Final = "from this run: the solo window of {} shows what one busy process adds"
NO_CANARY: Final = "no GPU canary in this stage"
NOT_SLICED: Final = "counted under time slicing only"
# Fewer samples have no longest wait to speak of.
_LEAST: Final = 200
_LONGEST: Final = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """How many processes kept the GPU busy in a stage; `value` None with the reason in `how`, which else says
    what it is counted by. `longest_ms`: the p99.9 of the waits."""

    value: int | None
    longest_ms: float | None
    how: str


def canary_of(facts: Facts) -> Series:
    """Waits of the GPU canary, ns, each an instant."""
    rows = columns.table(facts.recording, "canary")
    at, latency = columns.ints(rows, "t"), columns.ints(rows, "latency")
    kept = (at != NULL) & (latency != NULL) & ~np.isin(columns.texts(rows, "device"), ON_HOST)
    order = np.argsort(at[kept], kind="stable")
    at, latency = at[kept][order], latency[kept][order]
    # A wait speaks of the time from when the kernel was handed over.
    return Series(start_ns=at, end_ns=at + np.maximum(1, latency), value=latency.astype(np.float64))


def busy_processes(facts: Facts, canary: Series, windows: tuple[Window, ...]) -> Busy:
    """From the longest wait in some windows, less that of an idle GPU."""
    longest = _longest_ms(canary, windows)
    if longest is None:
        return Busy(value=None, longest_ms=None, how=NO_CANARY)
    if facts.plan.scenario.sharing != "time-slice":
        return Busy(value=None, longest_ms=longest, how=NOT_SLICED)
    idle = nearest_rank(canary.value, 0.01) / NS_PER_MS
    first_ms, how = _first_ms(facts, canary, idle)
    wait = longest - idle
    count = 1 + (wait - first_ms) / (NEXT_TO_FIRST * first_ms) if wait > first_ms / 2 else 0
    return Busy(value=max(0, round(count)), longest_ms=longest, how=how)


def _first_ms(facts: Facts, canary: Series, idle_ms: float) -> tuple[float, str]:
    """The longest wait beside one busy process: the shortest in a solo window whose tenant is one server."""
    found = []
    for stage in facts.plan.solos:
        tenant = facts.plan.scenario.tenants.get(facts.plan.scenario.load[stage.loads[0]].tenant)
        longest = _longest_ms(canary, facts.plan.measured.get(stage.name, ()))
        if tenant is None or tenant.replicas != 1 or longest is None or stage.loads[0] in facts.invalid_solos:
            continue
        # A tenant that hardly used the GPU shows no slice.
        if longest - idle_ms >= FIRST_MS / 2:
            found.append((longest - idle_ms, stage.name.removeprefix(SOLO_PREFIX)))
    if not found:
        return FIRST_MS, ASSUMED
    first_ms, load = min(found)
    return first_ms, CALIBRATED.format(load)


def _longest_ms(canary: Series, windows: tuple[Window, ...]) -> float | None:
    inside = canary.value[within(canary.start_ns, windows)]
    return nearest_rank(inside, _LONGEST) / NS_PER_MS if len(inside) >= _LEAST else None


def wait_ms(canary: Series, start_ns: Ints, end_ns: Ints) -> float | None:
    """The median wait of the samples in some windows together; None without one."""
    values = pooled(canary, start_ns, end_ns)
    return nearest_rank(values, 0.5) / NS_PER_MS if len(values) else None


def pooled(series: Series, start_ns: Ints, end_ns: Ints) -> Floats:
    """All samples that meet one of the windows, each once for each window."""
    low, high = series.rows(start_ns, end_ns)
    counts = high - low
    first = np.cumsum(counts) - counts
    found: Floats = series.value[np.arange(int(counts.sum())) - np.repeat(first - low, counts)]
    return found
