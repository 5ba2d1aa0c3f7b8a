"""Caveats as typed data: of the run as a whole, and of the engine and of our own measuring in a stage.

A caveat is {"kind", "text", "advice", and its numbers, units in their names}: something known that limits
what the figures say. What is not known makes none: a missing metric has its reason in `why`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from cotenant.records import LAG_PERIOD_NS, Recording
from cotenant.units import NS_PER_MS, NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.observed import GPU, told_by
from cotenant.verdict.plan import Plan, StagePlan, Window, length_ns, within
from cotenant.verdict.timing import LIMIT_NS, TimingError

Caveat = dict[str, Any]

# A p95 of some tens of utterances moves by several per cent by chance; beyond this the machine has changed.
A_A_RATIO: Final = 1.1
# Messages that were read together are uncertain by the loop's lag and by this; much more is a slow loop.
TIMING_NS: Final = LAG_PERIOD_NS + 3 * NS_PER_MS
# A sleep that ends this late delays a stamp as much as our limit; in so many of the seconds it moves a p95.
HOST_LAG_NS: Final = LIMIT_NS
HOST_LAG_SHARE: Final = 0.05
# Whoever takes a fifth of the cores moves what a tenant that needs them does.
OTHERS_SHARE: Final = 0.2
# Under one token in a hundred a cache spares no prefill that would be seen.
PREFIX_SHARE: Final = 0.01
# A stand-in is taken for its model within this share of the published time.
STAND_IN_SHARE: Final = 0.15
# What a built-in voice and a built-in head measure of themselves.
_WORKS: Final = ("frame", "clip")


def caveat(kind: str, text: str, advice: str = "", **numbers: float | int | None) -> Caveat:
    """One caveat; `numbers` have their unit in the name."""
    rounded = {
        name: round(value, 6) if isinstance(value, float) else value for name, value in numbers.items()
    }
    return {"kind": kind, "text": text, "advice": advice, **rounded}


def run_caveats(recording: Recording, plan: Plan, a_a: Mapping[str, float | None]) -> list[Caveat]:
    """What limits the run as a whole. `a_a`: the closing baseline's ratios over the first."""
    return [
        *_baselines_differ(a_a),
        *_observers(recording, plan),
        *_tenants(recording),
        *_insecure(plan),
    ]


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
                f"{tenant} preempted requests {preempted} times: its KV cache was full",
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


def _others(recording: Recording, windows: tuple[Window, ...]) -> Iterator[Caveat]:
    """CPU time of what is not this run, where it was read around all of the windows."""
    cores = (recording.manifest.get("device") or {}).get("cpu_count")
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
            "others-cpu",
            f"something else on this machine used {100 * share:.0f} % of its CPU time",
            "end it, or measure when the machine is free: what is slow here may be its doing",
            others_share=share,
        )


def _baselines_differ(a_a: Mapping[str, float | None]) -> Iterator[Caveat]:
    names = {"ttfa_p95": "TTFA p95", "chunk_gap_max_p95": "an utterance's longest gap (p95)"}
    known = {name: ratio for name in names if (ratio := a_a.get(name)) is not None and ratio > 0}
    if not any(max(ratio, 1 / ratio) > A_A_RATIO for ratio in known.values()):
        return
    told = ", ".join(f"{names[name]} {ratio:.2f} times" for name, ratio in known.items())
    yield caveat(
        "a-a",
        f"the closing baseline differs from the first ({told}): every comparison is widened by that",
        "measure longer, and look for what else changed: clocks, other users of this machine",
        **{f"{name}_ratio": ratio for name, ratio in known.items()},
    )


def _observers(recording: Recording, plan: Plan) -> Iterator[Caveat]:
    for observer, kind, what in (
        (GPU, "no-gpu-observer", "GPU readings"),
        ("gpu-canary", "no-canary", "a GPU canary"),
    ):
        told = told_by(recording, observer)
        if plan.has_gpu and told.get("ready") is False:
            yield caveat(
                kind,
                f"this run is without {what}: {told.get('message') or 'it gave up'}",
                str(told.get("advice") or ""),
            )
    notes = told_by(recording, GPU).get("notes")
    for note in notes if isinstance(notes, list) else ():
        if isinstance(note, dict) and note.get("kind") and note.get("text"):
            yield caveat(str(note["kind"]), str(note["text"]), str(note.get("advice") or ""))


def _tenants(recording: Recording) -> Iterator[Caveat]:
    """Servers that are not quite what they stand for."""
    tenants = recording.manifest.get("tenants")
    for name, told in tenants.items() if isinstance(tenants, dict) else ():
        if not isinstance(told, dict):
            continue
        yield from _protocol(name, told.get("speech_protocol"))
        yield from _request(name, told.get("request"))
        if told.get("weights") == "dummy":
            yield caveat(
                "dummy-weights",
                f"{name} has dummy weights: its speed is that of the shape, its answers mean nothing",
                "load the real model before you trust what depends on its answers (how long they are)",
            )
        for work in _WORKS:
            yield from _stand_in(name, told, work)


def _insecure(plan: Plan) -> Iterator[Caveat]:
    names = ", ".join(sorted(name for name, tenant in plan.scenario.tenants.items() if tenant.insecure))
    if names:
        yield caveat(
            "insecure",
            f"INSECURE: the certificate of {names} was not checked; who is on the way could read keys, "
            "prompts and audio, or answer instead",
            "remove insecure: true, and name whom to trust in ca_file",
        )


def _request(name: str, told: Any) -> Iterator[Caveat]:
    """An LLM server that does not take what makes its work exactly as large as asked."""
    if not isinstance(told, dict):
        return
    without = told.get("without")
    if isinstance(without, list) and "ignore_eos" in without:
        yield caveat(
            "no-ignore-eos",
            f"{name} takes no ignore_eos: its answers ended where the model ended them, not at `output`",
            "compare tokens a second, not requests",
        )
    if told.get("prompt") == "text" and told.get("usage") == "none":
        yield caveat(
            "unknown-prompts",
            f"{name} takes text alone and counts no tokens: a prompt has a word for each token asked for",
            "switch the server's usage in streams on (stream_options)",
        )


def _stand_in(name: str, told: Mapping[str, Any], work: str) -> Iterator[Caveat]:
    took_ms, published_ms = told.get(f"{work}_ms"), told.get(f"published_{work}_ms")
    if not isinstance(took_ms, int | float) or not isinstance(published_ms, int | float):
        return
    took = f"a {work} takes {took_ms:.3g} ms, that of the published model {published_ms:.3g} ms"
    numbers = {f"{work}_ms": float(took_ms), f"published_{work}_ms": float(published_ms)}
    if told.get("optimistic"):
        yield caveat(
            "stand-in-optimistic",
            f"{name} is an optimistic stand-in: {took}; what passes here may fail with the real one",
            "repeat the run with the real server (engine: attach or launch)",
            **numbers,
        )
    elif took_ms > (1 + STAND_IN_SHARE) * published_ms:
        yield caveat(
            "stand-in-pessimistic",
            f"{name} is a pessimistic stand-in: {took}; what fails here may pass with the real one",
            "repeat the run with the real server (engine: attach or launch)",
            **numbers,
        )


def _protocol(name: str, told: Any) -> Iterator[Caveat]:
    """A speech protocol that never met its server, and a server that does not stream."""
    if not isinstance(told, dict):
        return
    if told.get("experimental"):
        yield caveat(
            "experimental-protocol",
            f"{name} is spoken to as {told.get('title')} ({told.get('name')}), which was never tried against "
            f"that server: {told.get('how_tested')}",
            "listen to some of what was recorded (cotenant listen), and see that its length is right",
        )
    if told.get("whole"):
        yield caveat(
            "whole-answers",
            f"{name} ({told.get('title')}) answers when all is spoken: its TTFA grows with the length of the "
            "text, and nothing can stutter after it",
            "a server that streams starts earlier",
        )
