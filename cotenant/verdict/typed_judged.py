"""What is judged and concluded of a stage, as typed, frozen objects; None where a number is missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


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
    why: Mapping[str, str] = field(default_factory=dict)


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
class Comparison:
    """A metric of a stage against its reference: the baseline's pairs, or the load's solo window.

    Those of times are in ms. `low` and `high`: one-sided 95 % bounds of `bounds_of` (ratio or difference).
    """

    own: float | None = None
    own_ms: float | None = None
    reference: float | None = None
    reference_ms: float | None = None
    difference: float | None = None
    difference_ms: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    bounds_of: str | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What failed by an error at one tenant, in the loads of one kind (`of`); `kinds`: error kind -> number.

    `since_s`: the first one, in seconds of the run; `stopped`: none of its streams succeeded after that.
    """

    tenant: str
    of: str
    text: str
    streams: int
    failed: int
    kinds: Mapping[str, int]
    since_s: float | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mend:
    """The smallest lookahead at which the stage's own voices pass what they failed, by this recording; None
    where none does (`why`). `cures`: nothing is left that fails; `breaks`: the gates that are.

    `left_out`: utterances that failed by an error; `slower_share`: of those made slower than real time.
    """

    lookahead_ms: float | None = None
    clean_share: float | None = None
    time_to_playback_p95_ms: float | None = None
    cures: bool = False
    breaks: Sequence[str] = ()
    slower_share: float | None = None
    left_out: int | None = None
    why: Mapping[str, str] = field(default_factory=dict)
