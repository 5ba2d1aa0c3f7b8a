"""Caveats of the run as a whole: what changed meanwhile, who did not watch, servers that are stand-ins."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant.records import Recording
from cotenant.verdict.caveats import Caveat, caveat
from cotenant.verdict.observed import GPU, told_by
from cotenant.verdict.plan import Plan

# A p95 of some tens of utterances moves by several per cent by chance; beyond this the machine has changed.
A_A_RATIO: Final = 1.1
# A stand-in is taken for its model within this share of the published time.
STAND_IN_SHARE: Final = 0.15
# The kind of the caveat that services were not on the machine that was watched.
ELSEWHERE: Final = "elsewhere"
# What a built-in voice and a built-in head measure of themselves.
_WORKS: Final = ("frame", "clip")


def run_caveats(recording: Recording, plan: Plan, a_a: Mapping[str, float | None]) -> list[Caveat]:
    """What limits the run as a whole. `a_a`: the closing baseline's ratios over the first."""
    return [
        *_baselines_differ(a_a),
        *_observers(recording, plan),
        *_tenants(recording),
        *_insecure(plan),
        *_elsewhere(plan),
    ]


def _baselines_differ(a_a: Mapping[str, float | None]) -> Iterator[Caveat]:
    names = {"ttfa_p95": "TTFA p95", "chunk_gap_max_p95": "an utterance's longest gap (p95)"}
    known = {name: ratio for name in names if (ratio := a_a.get(name)) is not None and ratio > 0}
    beyond = {name: ratio for name, ratio in known.items() if max(ratio, 1 / ratio) > A_A_RATIO}
    if not beyond:
        return
    told = ", ".join(f"{names[name]} {ratio:.2f} times" for name, ratio in beyond.items())
    yield caveat(
        "a-a",
        f"the closing baseline differs from the first ({told}): comparisons of "
        f"{'this figure' if len(beyond) == 1 else 'these figures'} are widened by that",
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
        yield from _protocol(name, told.get("protocol"))
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


def _elsewhere(plan: Plan) -> Iterator[Caveat]:
    away = sorted(plan.used & plan.away)
    if away:
        where, those = (
            ("is on another machine (by its address)", "that one")
            if len(away) == 1
            else ("are on other machines (by their addresses)", "those")
        )
        yield caveat(
            ELSEWHERE,
            f"{', '.join(away)} {where}: what is said here of CPU and GPU is not of {those}",
            "unless it is a container on this machine; run cotenant there to see what the GPU does",
            tenants_elsewhere=len(away),
            tenants_here=len(plan.used - plan.away),
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
    """A protocol that never met its server, and a voice's server that does not stream."""
    if not isinstance(told, dict):
        return
    if told.get("experimental"):
        yield caveat(
            "experimental-protocol",
            f"{name} is spoken to as {told.get('title')} ({told.get('name')}), which was never tried against "
            f"a real server or bytes of one: {told.get('how_tested')}",
            "see that counts and lengths are right (cotenant report); listen to what a voice said (cotenant "
            "listen)",
        )
    if told.get("whole"):
        yield caveat(
            "whole-answers",
            f"{name} ({told.get('title')}) answers when all is spoken: its TTFA grows with the length of the "
            "text, and nothing can stutter after it",
            "a server that streams starts earlier",
        )
