"""The summary of a run as typed, frozen objects; `None` where a number is missing, infinities as floats."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from cotenant.errors import UserError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Nearest-rank quantiles; those that the metric has."""

    p5: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    n: int | None = None
    unlimited: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Silence that was heard, ms."""

    total: float | None = None
    longest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuity:
    """SGLang-Omni's C50, C100 and C200: shares of streams."""

    c50: float | None = None
    c100: float | None = None
    c200: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Shares of the time outside +45/-125 ms and +90/-185 ms of skew."""

    detect: float | None = None
    accept: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """What listeners heard in a stage."""

    streams: int | None = None
    under_way: int | None = None
    failed: int | None = None
    delayed: int | None = None
    delay_ms: Quantiles = field(default_factory=Quantiles)
    short: int | None = None
    runaway: int | None = None
    ttfa_ms: Quantiles = field(default_factory=Quantiles)
    audible_ttfa_ms: Quantiles = field(default_factory=Quantiles)
    time_to_playback_ms: Quantiles = field(default_factory=Quantiles)
    chunk_gap_ms: Quantiles = field(default_factory=Quantiles)
    chunk_gap_max_ms: Quantiles = field(default_factory=Quantiles)
    rtf: Quantiles = field(default_factory=Quantiles)
    underruns: int | None = None
    stall_ms: Stall = field(default_factory=Stall)
    stall_ratio: float | None = None
    clean_share: float | None = None
    headroom_ms: Quantiles = field(default_factory=Quantiles)
    required_lookahead_ms: Quantiles = field(default_factory=Quantiles)
    audio_underrun_ms: Quantiles = field(default_factory=Quantiles)
    continuity: Continuity = field(default_factory=Continuity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """What viewers saw in a stage."""

    streams: int | None = None
    failed: int | None = None
    fps_min: float | None = None
    fps_p5: float | None = None
    harmonic_fps: float | None = None
    freezes: int | None = None
    freezes_per_minute: float | None = None
    first_frame_ms: Quantiles = field(default_factory=Quantiles)
    dropped_share: float | None = None
    frame_latency_ms: Quantiles = field(default_factory=Quantiles)
    skew_ms: Quantiles = field(default_factory=Quantiles)
    skew_outside: Outside = field(default_factory=Outside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Llm:
    """What one LLM load got in a stage."""

    tokens_per_s: float | None = None
    prompt_tokens_per_s: float | None = None
    ttft_ms: Quantiles = field(default_factory=Quantiles)
    itl_ms: Quantiles = field(default_factory=Quantiles)
    tpot_ms: Quantiles = field(default_factory=Quantiles)
    finished: int | None = None
    open: int | None = None
    failed: int | None = None
    delivered: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One judged gate."""

    metric: str
    op: str
    limit: float
    verdict: str
    profile: str | None = None
    level: str = "fail"
    value: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float | None = None
    n: int = 0
    needs_more: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caveat:
    """Something known that limits what the figures say, and what would mend it. `numbers` have their unit in
    the name; None where it is not known."""

    kind: str
    text: str
    advice: str
    numbers: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What stalls (or freezes, as `of` says) are blamed on; `what` is a machine word, `who` a load or tenant.

    `share` is its share of the silence, `control_share` how often it was there beside what came in time.
    `risk_ratio` has value, low, high (95 %) and n; None where there is none, with the reason in `why`.
    """

    what: str
    of: str
    text: str
    stalls: int
    who: str | None = None
    share: float | None = None
    control_share: float | None = None
    risk_ratio: Mapping[str, float] | None = None
    evidence: Mapping[str, float | str | None] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookahead:
    """The smallest lookahead that keeps so many utterances clean, with one-sided 95 % bounds, and its price.

    `breaks`: the stage's gates on time to playback that would not hold then. `cures`: it breaks none.
    """

    lookahead_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    time_to_playback_p95_ms: float | None = None
    breaks: Sequence[str] = ()
    cures: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookaheads:
    """Of one player: for 95 % and for 99 % of the utterances."""

    keep_95: Lookahead = field(default_factory=Lookahead)
    keep_99: Lookahead = field(default_factory=Lookahead)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage. `speech` and `face` are None where it has no such load; `llm` is by load; `what_if` is by
    what the player does after an underrun, empty without voices.

    `why` has the reason of each number that is None. `raw` is the stage's entry of summary.json.
    """

    name: str
    baseline: bool
    verdict: str
    validity: str
    invalid_because: tuple[str, ...]
    speech: Speech | None
    face: Face | None
    llm: Mapping[str, Llm]
    what_if: Mapping[str, Lookaheads]
    gates: tuple[Gate, ...]
    caveats: tuple[Caveat, ...]
    causes: tuple[Cause, ...]
    why: Mapping[str, str]
    raw: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A judged run; `caveats` are of the run as a whole, `raw` is the whole of summary.json."""

    run_id: str
    status: str
    scenario: str
    verdict: str
    validity: str
    invalid_because: tuple[str, ...]
    decision: str
    lookahead_ms: float
    caveats: tuple[Caveat, ...]
    stages: tuple[Stage, ...]
    raw: Mapping[str, Any] = field(repr=False)

    def stage(self, name: str) -> Stage:
        """The stage of that name. Raises UserError, with the names that there are."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        known = ", ".join(stage.name for stage in self.stages)
        raise UserError(f"there is no stage {name!r} in this run; the stages are {known}")


def summary_of(raw: Mapping[str, Any]) -> Summary:
    """summary.json as objects."""
    return Summary(
        run_id=raw["run_id"],
        status=raw["status"],
        scenario=raw["scenario"],
        verdict=raw["verdict"],
        validity=raw["validity"],
        invalid_because=tuple(raw["invalid_because"]),
        decision=raw["decision"],
        lookahead_ms=raw["lookahead_ms"],
        caveats=tuple(map(_caveat, raw["caveats"])),
        stages=tuple(_stage(entry) for entry in raw["stages"]),
        raw=raw,
    )


def _stage(entry: Mapping[str, Any]) -> Stage:
    why = entry["why"]
    return Stage(
        name=entry["name"],
        baseline=entry["baseline"],
        verdict=entry["verdict"],
        validity=entry["validity"],
        invalid_because=tuple(entry["invalid_because"]),
        speech=_build(Speech, entry["speech"], why, "speech.") if "speech" in entry else None,
        face=_build(Face, entry["face"], why, "face.") if "face" in entry else None,
        llm={name: _build(Llm, load, why, f"llm.{name}.") for name, load in entry.get("llm", {}).items()},
        what_if={
            policy: _build(Lookaheads, found, why, f"what_if.policies.{policy}.")
            for policy, found in entry.get("what_if", {}).get("policies", {}).items()
        },
        gates=tuple(_build(Gate, gate, gate["why"], "") for gate in entry["gates"]),
        causes=tuple(_build(Cause, cause, cause["why"], "") for cause in entry["causes"]),
        caveats=tuple(map(_caveat, entry["caveats"])),
        why=why,
        raw=entry,
    )


def _caveat(entry: Mapping[str, Any]) -> Caveat:
    words = {name: entry[name] for name in ("kind", "text", "advice")}
    return Caveat(numbers={name: value for name, value in entry.items() if name not in words}, **words)


def _build(kind: type[_T], entry: Mapping[str, Any], why: Mapping[str, str], prefix: str) -> _T:
    """One object from its mapping; keys that it does not know are left to `raw`."""
    assert is_dataclass(kind)
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for known in fields(kind):
        value = entry.get(known.name)
        if is_dataclass(hints[known.name]) and isinstance(value, Mapping):
            values[known.name] = _build(hints[known.name], value, why, f"{prefix}{known.name}.")
        elif value is not None:
            values[known.name] = value
        elif (sign := why.get(f"{prefix}{known.name}")) in ("+inf", "-inf"):
            values[known.name] = float(sign)
        elif known.default is MISSING and known.default_factory is MISSING:
            raise KeyError(f"{prefix}{known.name}")
    return kind(**values)
