"""The summary of a run as typed, frozen objects; `None` where a number is missing, infinities as floats."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant.errors import UserError
from cotenant.verdict import typed_shown
from cotenant.verdict.typed_build import build, by_name, caveat_of
from cotenant.verdict.typed_judged import (
    Cause,
    Caveat,
    Comparison,
    Failure,
    Gate,
    Lookahead,
    Lookaheads,
    Mend,
)
from cotenant.verdict.typed_parts import (
    Continuity,
    Face,
    Llm,
    Outside,
    Quantiles,
    Reading,
    Speech,
    Stall,
    Timing,
)

__all__ = [
    "Again", "Cause", "Caveat", "ClosingBaseline", "Comparison", "Continuity", "Face", "Failure", "Gate",
    "Llm", "Lookahead", "Lookaheads", "Mend", "Outside", "Player", "Quantiles", "Reading", "Solo", "Speech",
    "Stage", "Stall", "Summary", "Timing", "summary_of",
]  # fmt: skip

_COMPARED_LOADS: Final = "llm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """The player that a run is judged by."""

    start: str
    after_underrun: str
    quantum_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """What each measured window has; see `Stage`."""

    name: str
    validity: str
    invalid_because: tuple[str, ...]
    speech: Speech | None
    face: Face | None
    llm: Mapping[str, Llm]
    gpu: Mapping[str, Reading]
    canary_ms: Quantiles
    host_canary_ms: Quantiles
    timing: Mapping[str, Timing]
    caveats: tuple[Caveat, ...]
    why: Mapping[str, str]
    raw: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Stage(_Measured):
    """One stage. `speech` and `face` are None where it has no such load; `llm` and `timing` are by load,
    `gpu` is by metric, `what_if` by what the player does after an underrun (empty without voices).

    `canary_ms`: how long a tiny kernel waited on the GPU; `host_canary_ms`: by how much the host woke a
    sleeper too late; `slower_share`: of the utterances that were made slower than real time.
    `vs_reference` is by metric, an LLM's by load too: `llm.decode.ttft_p95`. `mend` is None where nothing
    that a lookahead could mend has failed. `why` has the reason of each number that is None. `raw` is the
    stage's entry of summary.json.
    """

    baseline: bool
    verdict: str
    what_if: Mapping[str, Lookaheads]
    slower_share: float | None
    vs_reference: Mapping[str, Comparison]
    gates: tuple[Gate, ...]
    failures: tuple[Failure, ...]
    causes: tuple[Cause, ...]
    mend: Mend | None
    untried: tuple[str, ...]

    def __repr__(self) -> str:
        return typed_shown.stage(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Again(_Measured):
    """The closing baseline: it is compared, and not judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingBaseline:
    """The closing baseline over the first one; None, with the reason in `why`, where there is none."""

    stage: Again | None
    ttfa_p95_ratio: float | None = None
    time_to_playback_p95_ratio: float | None = None
    chunk_gap_max_p95_ratio: float | None = None
    required_lookahead_p95_ratio: float | None = None
    rtf_p95_ratio: float | None = None
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solo:
    """What a load did with nothing beside it."""

    got: Face | Llm
    invalid_because: tuple[str, ...]
    caveats: tuple[Caveat, ...]
    why: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Summary:
    """A judged run; `caveats` are of the run as a whole, `raw` is the whole of summary.json.

    `status` is complete, interrupted, failed or running; `error` is what a run that failed ended by,
    `measured` whether any of its stages was. `verdict_because`: one sentence where the verdict does not speak
    for itself. `device`: gpu or cpu. `a_a`: the run's own difference between its two baselines; `solo`: by
    load.
    """

    schema: int
    run_id: str
    status: str
    error: str | None
    measured: bool
    scenario: str
    verdict: str
    verdict_because: str
    validity: str
    invalid_because: tuple[str, ...]
    decision: str
    device: str
    lookahead_ms: float
    player: Player
    a_a: ClosingBaseline
    solo: Mapping[str, Solo]
    caveats: tuple[Caveat, ...]
    stages: tuple[Stage, ...]
    raw: Mapping[str, Any] = field(repr=False)

    def __repr__(self) -> str:
        return typed_shown.summary(self)

    def stage(self, name: str) -> Stage:
        """The stage of that name. Raises UserError, with the names that there are."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        known = ", ".join(stage.name for stage in self.stages)
        raise UserError(f"there is no stage {name!r} in this run; the stages are {known}")


def summary_of(raw: Mapping[str, Any]) -> Summary:
    """summary.json as objects."""
    as_they_are = (
        "schema", "run_id", "status", "error", "measured", "scenario", "verdict", "verdict_because",
        "validity", "decision", "device", "lookahead_ms",
    )  # fmt: skip
    return Summary(
        **{name: raw[name] for name in as_they_are},
        invalid_because=tuple(raw["invalid_because"]),
        player=build(Player, raw["player"], {}, ""),
        a_a=_closing(raw["a_a"]),
        solo={load: _solo(entry) for load, entry in raw["solo"].items()},
        caveats=tuple(map(caveat_of, raw["caveats"])),
        stages=tuple(_stage(entry) for entry in raw["stages"]),
        raw=raw,
    )


def _stage(entry: Mapping[str, Any]) -> Stage:
    why, what_if = entry["why"], entry.get("what_if", {})
    return Stage(
        **_measured(entry),
        baseline=entry["baseline"],
        verdict=entry["verdict"],
        what_if={
            policy: build(Lookaheads, found, why, f"what_if.policies.{policy}.")
            for policy, found in what_if.get("policies", {}).items()
        },
        slower_share=what_if.get("slower_share"),
        vs_reference=_comparisons(entry.get("vs_reference", {}), why),
        gates=tuple(build(Gate, gate, gate["why"], "") for gate in entry["gates"]),
        failures=tuple(build(Failure, failure, {}, "") for failure in entry["failures"]),
        causes=tuple(build(Cause, cause, cause["why"], "") for cause in entry["causes"]),
        mend=None if entry["mend"] is None else build(Mend, entry["mend"], entry["mend"]["why"], ""),
        untried=tuple(entry["untried"]),
    )


def _measured(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `_Measured`."""
    why = entry["why"]
    return {
        "name": entry["name"],
        "validity": entry["validity"],
        "invalid_because": tuple(entry["invalid_because"]),
        "speech": build(Speech, entry["speech"], why, "speech.") if "speech" in entry else None,
        "face": build(Face, entry["face"], why, "face.") if "face" in entry else None,
        "llm": by_name(Llm, entry, why, "llm"),
        "gpu": by_name(Reading, entry, why, "gpu"),
        "canary_ms": build(Quantiles, entry.get("canary_ms", {}), why, "canary_ms."),
        "host_canary_ms": build(Quantiles, entry.get("host_canary_ms", {}), why, "host_canary_ms."),
        "timing": by_name(Timing, entry, why, "timing"),
        "caveats": tuple(map(caveat_of, entry["caveats"])),
        "why": why,
        "raw": entry,
    }


def _closing(entry: Mapping[str, Any]) -> ClosingBaseline:
    again = entry["stage"]
    ratios = {name: value for name, value in entry.items() if name != "stage"}
    return ClosingBaseline(**ratios, stage=None if again is None else Again(**_measured(again)))


def _solo(entry: Mapping[str, Any]) -> Solo:
    kind: type[Face | Llm] = Face if "freezes" in entry else Llm
    return Solo(
        got=build(kind, entry, entry["why"], ""),
        invalid_because=tuple(entry["invalid_because"]),
        caveats=tuple(map(caveat_of, entry["caveats"])),
        why=entry["why"],
    )


def _comparisons(entry: Mapping[str, Any], why: Mapping[str, str]) -> dict[str, Comparison]:
    """By metric; those of the LLM loads by `llm.LOAD.METRIC`, as in the paths of gates."""
    flat = {name: found for name, found in entry.items() if name != _COMPARED_LOADS}
    for load, metrics in entry.get(_COMPARED_LOADS, {}).items():
        flat |= {f"{_COMPARED_LOADS}.{load}.{name}": found for name, found in metrics.items()}
    return {name: build(Comparison, found, why, f"vs_reference.{name}.") for name, found in flat.items()}
