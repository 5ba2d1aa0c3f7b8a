"""Caveats as typed data: of the LLM engines and of our own measuring in a stage.

A caveat is {"kind", "text", "advice", and its numbers, units in their names}: something known that limits
what the figures say. What is not known makes none: a missing metric has its reason in `why`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from cotenant.records import LAG_PERIOD_NS, Recording
from cotenant.units import NS_PER_MS, NS_PER_S, counted
from cotenant.verdict import columns
from cotenant.verdict.plan import Plan, StagePlan, Window, length_ns, within
from cotenant.verdict.timing import LIMIT_NS, TimingError
from cotenant.verdict.watched import COVERAGE, host_coverage

Caveat = dict[str, Any]
OTHERS_CPU: Final = "others-cpu"

# Messages that were read together are uncertain by the loop's lag and by this; much more is a slow loop.
TIMING_NS: Final = LAG_PERIOD_NS + 3 * NS_PER_MS
# A sleep that ends this late delays a stamp as much as our limit; in so many of the seconds it moves a p95.
HOST_LAG_NS: Final = LIMIT_NS
HOST_LAG_SHARE: Final = 0.05
# Whoever takes a fifth of the cores moves what a tenant that needs them does.
OTHERS_SHARE: Final = 0.2
# From here on the tenants had the smaller part of the machine: no verdict is told without saying so.
OTHERS_MOST: Final = 0.5
# Under one token in a hundred a cache spares no prefill that would be seen.
PREFIX_SHARE: Final = 0.01


def caveat(kind: str, text: str, advice: str = "", **numbers: float | int | None) -> Caveat:
    """One caveat; `numbers` have their unit in the name."""
    rounded = {
        name: round(value, 6) if isinstance(value, float) else value for name, value in numbers.items()
    }
    return {"kind": kind, "text": text, "advice": advice, **rounded}


def engine_caveats(
    recording: Recording, plan: Plan, stage: StagePlan, windows: tuple[Window, ...]
) -> Iterator[Caveat]:
    """Preempted requests and cached prompts, by the LLM servers' own counters."""
    tenants = sorted({plan.scenario.load[load.name].tenant for load in plan.of_kind(stage, "completions")})
    rows = columns.table(recording, "engine")
    inside = within(columns.ints(rows, "t"), windows)
    names, metrics = columns.texts(rows, "tenant")[inside], columns.texts(rows, "metric")[inside]
    values = columns.floats(rows, "value")[inside]

    def total(tenant: str, metric: str) -> float:
        return float(np.nansum(values[(names == tenant) & (metrics == metric)]))

    for tenant in tenants:
        preempted = round(total(tenant, "preemptions"))
        if preempted:
            yield caveat(
                "preemptions",
                f"{tenant} preempted requests {counted(preempted, 'time')}: its KV cache was full",
                "fewer streams or shorter prompts, or more memory for its KV cache",
                preemptions=preempted,
            )
        hits, asked = total(tenant, "prefix_cache_hits"), total(tenant, "prefix_cache_queries")
        if asked > 0 and hits / asked >= PREFIX_SHARE:
            yield caveat(
                "prefix-cache",
                f"{tenant} took {100 * hits / asked:.0f} % of the prompt tokens from its prefix cache: "
                "less prefill was done than was asked",
                "start it without prefix caching to load it as planned",
                cached_share=hits / asked,
                cached_tokens=round(hits),
            )


def measuring_caveats(
    recording: Recording, plan: Plan, errors: Mapping[str, TimingError], windows: tuple[Window, ...]
) -> Iterator[Caveat]:
    """How exact our own processes were, where that is known."""
    for load, error in errors.items():
        if error.p99_ns is not None and error.p99_ns > TIMING_NS and not error.spoils(plan.loads[load].kind):
            yield caveat(
                "timing-error",
                f"{load}: our own timing error is {error.p99_ns / NS_PER_MS:.1f} ms at p99",
                "a gate nearer than that to its limit is left undecided; give the load processes free cores",
                p99_ms=error.p99_ns / NS_PER_MS,
            )
    came = host_coverage(recording, windows)
    if came is not None and came < COVERAGE:
        yield caveat(
            "host-lost",
            f"the host's readings came in {100 * came:.0f} % of the seconds only",
            "see logs/own/observer-host.log in the run",
            coverage=came,
        )
    # An attached service may run on this machine, as no process of ours: it cannot be told from others.
    if all(tenant.engine != "attach" for tenant in plan.scenario.tenants.values()):
        yield from _others(recording, windows)
    if not plan.has_gpu:
        return  # on a CPU the tenants are meant to crowd the host
    rows = columns.table(recording, "host")
    mine = (columns.texts(rows, "metric") == "sleep_lag_ns") & within(columns.ints(rows, "t"), windows)
    lags = columns.floats(rows, "value")[mine]
    lags = lags[~np.isnan(lags)]
    late = float(np.mean(lags > HOST_LAG_NS)) if len(lags) else 0.0
    if late >= HOST_LAG_SHARE:
        worst_ms = float(lags.max()) / NS_PER_MS
        yield caveat(
            "host-lag",
            f"this host woke a sleeper over {HOST_LAG_NS // NS_PER_MS} ms late in {100 * late:.0f} % of the "
            f"seconds (up to {worst_ms:.0f} ms): its cores are short, which is not the GPU's doing",
            "leave more cores free, or pin the tenants to some",
            late_share=late,
            worst_ms=worst_ms,
        )


def crowded(caveats: Iterable[Caveat]) -> str:
    """`while others used 83 % of this machine's CPU`, by the caveats of a stage; `""` where they used less
    than half of it, or that is not known.

    It makes no stage INVALID: what is no process of this run may still be its doing (a container that was
    launched, a daemon), and a machine that is always so busy may be the one that is asked about.
    """
    shares = (float(one["others_share"]) for one in caveats if one["kind"] == OTHERS_CPU)
    share = max(shares, default=0.0)
    return f"while others used {100 * share:.0f} % of this machine's CPU" if share >= OTHERS_MOST else ""


def _others(recording: Recording, windows: tuple[Window, ...]) -> Iterator[Caveat]:
    """CPU time of what is not this run, where it was read around all of the windows."""
    device = recording.manifest.get("device") or {}
    # The whole machine's time is read, also where this run may use some of its cores only.
    cores = device.get("machine_cpu_count") or device.get("cpu_count")
    rows = columns.table(recording, "host")
    mine = columns.texts(rows, "metric") == "others_cpu_s"
    at, cpu_s = columns.ints(rows, "t")[mine], columns.floats(rows, "value")[mine]
    known = ~np.isnan(cpu_s)
    order = np.argsort(at[known], kind="stable")
    at, cpu_s = at[known][order], cpu_s[known][order]
    if not isinstance(cores, int) or cores < 1 or not windows or len(at) < 2:
        return
    if at[0] > windows[0].start_ns or at[-1] < windows[-1].end_ns:
        return
    used_s = sum(
        float(np.diff(np.interp([window.start_ns, window.end_ns], at, cpu_s))[0]) for window in windows
    )
    share = used_s / cores / (length_ns(windows) / NS_PER_S)
    if share >= OTHERS_SHARE:
        yield caveat(
            OTHERS_CPU,
            f"something else on this machine used {100 * share:.0f} % of its CPU time",
            "end it, or measure when the machine is free: what is slow here may be its doing",
            others_share=share,
        )
