"""Streams that failed by an error, told by service: since when, by what, and whether a FAIL is their doing.

A service that crashed is not a slow one: what never came says nothing of how fast it would have been.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from cotenant.errors import HINTS
from cotenant.units import NS_PER_S
from cotenant.verdict.columns import NULL, Bools, Ints, Texts
from cotenant.verdict.facts import Facts
from cotenant.verdict.plan import Plan, StagePlan

Failure = dict[str, Any]

BAD_ENDS: Final = ("error", "truncated")
TIMEOUT: Final = "timeout"
# Who fails so gives no answer at all; any other kind is an answer.
_SILENT: Final = ("dns", "refused", "truncated")
_UNITS: Final = {"voices": "utterance", "faces": "clip", "completions": "request"}
# Of these a value that is finite is one of what came.
_OF_ALL: Final = ("speech.clean_share", "speech.stall_ratio", "speech.stall_ms", "speech.underruns")


def failed_by_error(ends: Texts) -> Bools:
    """Which of those `end`s are the service's fault (what it was too slow for among them), not our stop."""
    return np.isin(ends, BAD_ENDS)


def failures_of(facts: Facts, stage: StagePlan) -> list[Failure]:
    """What failed in a stage, one entry for each tenant and kind of load, voices first.

    `tenant`, `of` (kind of the loads), `streams` measured, `failed`, `kinds` (error kind -> how many, most
    first), `since_s` (the first failure, s after the first stage began), `stopped` (none of its streams
    succeeded after that), and `text`. A clip without the voice that it follows is no failure of the face.
    """
    streams, plan = facts.streams, facts.plan
    rows = facts.measured[stage.name]
    rows = rows[~_without_voice(facts, rows)]
    bad = failed_by_error(streams.end[rows])
    found = []
    for kind in _UNITS:
        loads = plan.of_kind(stage, kind)
        for tenant in dict.fromkeys(plan.scenario.load[load.name].tenant for load in loads):
            names = [load.name for load in loads if plan.scenario.load[load.name].tenant == tenant]
            mine = np.isin(streams.load[rows], names)
            if (failed := rows[mine & bad]).size:
                found.append(_failure(facts, tenant, kind, int(mine.sum()), failed))
    return found


def decided_by(entry: Mapping[str, Any]) -> Failure | None:
    """The failure that a stage's FAIL comes from: at least half of what was not clean failed by an error, and
    no gate fails by what came. Where a gate on the voices fails, the faces decide nothing."""
    failing = [gate for gate in entry["gates"] if gate["level"] == "fail" and gate["verdict"] == "fail"]
    for kind, part in (("voices", "speech"), ("faces", "face")):
        gates = [gate for gate in failing if gate["metric"].startswith(f"{part}.")]
        mine = [one for one in entry.get("failures", ()) if one["of"] == kind]
        if not gates:
            continue
        if not mine:
            return None
        total = int(entry[part]["streams"])
        clean = round(total * (entry[part].get("clean_share") or 0.0)) if kind == "voices" else 0
        if 2 * sum(one["failed"] for one in mine) < total - clean:
            return None
        if kind == "voices" and any(_of_what_came(gate) for gate in gates):
            return None
        return dict(max(mine, key=lambda one: int(one["failed"])))
    return None


def headline(failure: Mapping[str, Any], *, baseline: bool) -> str:
    """`tts stopped answering at 0:20, in the baseline`."""
    who, where = failure["tenant"], ", in the baseline" if baseline else ""
    if next(iter(failure["kinds"])) == TIMEOUT:
        return f"{who} was too slow or hung at {clock(failure['since_s'])}{where}"
    if failure["stopped"] and _is_silent(failure["kinds"]):
        return f"{who} stopped answering at {clock(failure['since_s'])}{where}"
    return f"{who} failed{' in the baseline' if baseline else ''}"


def clock(seconds: float) -> str:
    """`1:05`: minutes and seconds after the first stage began."""
    whole = int(seconds)
    return f"{whole // 60}:{whole % 60:02d}"


def begin_ns(plan: Plan) -> int:
    """When the first stage of a run began; 0 where none did."""
    spans = [
        window.start_ns for found in (plan.lived, plan.measured) for each in found.values() for window in each
    ]
    return min(spans, default=0)


def _failure(facts: Facts, tenant: str, kind: str, measured: int, failed: Ints) -> Failure:
    streams = facts.streams
    names, counts = np.unique([one or "unknown" for one in streams.error_kind[failed]], return_counts=True)
    order = np.lexsort((names, -counts))
    kinds = {str(names[at]): int(counts[at]) for at in order}
    first_ns = int(_ended(facts, failed).min())
    since_s = round(max(0, first_ns - begin_ns(facts.plan)) / NS_PER_S, 3)
    stopped = _stopped(facts, tenant, first_ns)
    shown = ", ".join(f"{name} {count}{_said(name)}" for name, count in kinds.items())
    unit = _UNITS[kind] if measured == 1 else f"{_UNITS[kind]}s"
    text = f"{tenant}: {len(failed)} of {measured} {unit} failed: {shown}"
    if stopped:
        text += f" from {clock(since_s)} on: " + (
            "the service stopped answering" if _is_silent(kinds) else "none succeeded after that"
        )
    elif len(failed) > 1:
        text += f", the first at {clock(since_s)}"
    else:
        text += f", at {clock(since_s)}"
    return {
        "tenant": tenant, "of": kind, "streams": measured, "failed": len(failed), "kinds": kinds,
        "since_s": since_s, "stopped": stopped, "text": text,
    }  # fmt: skip


def _stopped(facts: Facts, tenant: str, since_ns: int) -> bool:
    """Whether several of a tenant's streams failed since then, and none succeeded any more."""
    streams, loads = facts.streams, facts.plan.scenario.load
    mine = np.isin(streams.load, [name for name, load in loads.items() if load.tenant == tenant])
    later = mine & (streams.done >= since_ns)
    failed = later & failed_by_error(streams.end)
    return bool(failed.sum() > 1) and not bool((later & (streams.end == "eos")).any())


def _ended(facts: Facts, rows: Ints) -> Ints:
    done = facts.streams.done[rows]
    return np.where(done == NULL, facts.streams.due[rows], done)


def _without_voice(facts: Facts, rows: Ints) -> Bools:
    """Which are clips whose voice failed: there was nothing to draw."""
    streams, loads = facts.streams, facts.plan.loads
    bad = rows[failed_by_error(streams.end[rows])]
    key = _keys(facts, bad, streams.load[bad])
    voices = {name for name, load in loads.items() if load.kind == "voices"}
    silent = {one for one in key if one[0] in voices}
    follows = [loads[load].follows if load in loads else "" for load in streams.load[rows]]
    return np.array([one in silent for one in _keys(facts, rows, follows)], dtype=np.bool_)


def _keys(facts: Facts, rows: Ints, loads: Iterable[str]) -> list[tuple[str, int, int, int]]:
    streams = facts.streams
    numbers = (
        streams.round[rows].tolist(),
        streams.listener[rows].tolist(),
        streams.utterance[rows].tolist(),
    )
    return list(zip(loads, *numbers, strict=True))


def _is_silent(kinds: Mapping[str, int]) -> bool:
    return all(kind in _SILENT for kind in kinds)


def _said(kind: str) -> str:
    hint = HINTS.get(kind, "").split(":")[0].split(",")[0]
    return f" ({hint})" if hint else ""


def _of_what_came(gate: Mapping[str, Any]) -> bool:
    infinite = gate["value"] is None and (gate.get("why") or {}).get("value") in ("+inf", "-inf")
    return not infinite and not gate["metric"].startswith(_OF_ALL)
