"""What the loads got and what the machine did in a stage, as typed, frozen objects; None where a number is
missing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.verdict.typed_shown import Brief


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Nearest-rank quantiles; those that the metric has. `enough`: which of them `n` is enough for."""

    p5: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    n: int | None = None
    unlimited: int | None = None
    enough: Mapping[str, bool] = field(default_factory=dict)


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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Speech(Brief):
    """What listeners heard in a stage. `errors`: error kind -> how many streams ended by it."""

    streams: int | None = None
    under_way: int | None = None
    failed: int | None = None
    errors: Mapping[str, int] = field(default_factory=dict)
    delayed: int | None = None
    delay_ms: Quantiles = field(default_factory=Quantiles)
    short: int | None = None
    runaway: int | None = None
    ttfa_ms: Quantiles = field(default_factory=Quantiles)
    audible_ttfa_ms: Quantiles = field(default_factory=Quantiles)
    time_to_playback_ms: Quantiles = field(default_factory=Quantiles)
    chunk_gap_ms: Quantiles = field(default_factory=Quantiles)
    chunk_gap_max_ms: Quantiles = field(default_factory=Quantiles)
    chunk_gap_time_weighted_ms: Quantiles = field(default_factory=Quantiles)
    rtf: Quantiles = field(default_factory=Quantiles)
    underruns: int | None = None
    stall_ms: Stall = field(default_factory=Stall)
    stall_ratio: float | None = None
    clean_share: float | None = None
    headroom_ms: Quantiles = field(default_factory=Quantiles)
    required_lookahead_ms: Quantiles = field(default_factory=Quantiles)
    audio_underrun_ms: Quantiles = field(default_factory=Quantiles)
    continuity: Continuity = field(default_factory=Continuity)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Face(Brief):
    """What viewers saw in a stage.

    `freezes` by libwebrtc's rule, `freezes_by_spec` by that of the webrtc-stats text; `pauses`: those of both
    that lasted over 5 s. `late_share`: of the frames, those that came after their time.
    """

    streams: int | None = None
    under_way: int | None = None
    failed: int | None = None
    errors: Mapping[str, int] = field(default_factory=dict)
    fps_min: float | None = None
    fps_p5: float | None = None
    harmonic_fps: float | None = None
    freezes: int | None = None
    freezes_by_spec: int | None = None
    freezes_per_minute: float | None = None
    pauses: int | None = None
    first_frame_ms: Quantiles = field(default_factory=Quantiles)
    dropped_share: float | None = None
    late_share: float | None = None
    frame_latency_ms: Quantiles = field(default_factory=Quantiles)
    skew_ms: Quantiles = field(default_factory=Quantiles)
    skew_outside: Outside = field(default_factory=Outside)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Llm(Brief):
    """What one LLM load got in a stage."""

    tokens_per_s: float | None = None
    prompt_tokens_per_s: float | None = None
    ttft_ms: Quantiles = field(default_factory=Quantiles)
    itl_ms: Quantiles = field(default_factory=Quantiles)
    tpot_ms: Quantiles = field(default_factory=Quantiles)
    finished: int | None = None
    open: int | None = None
    failed: int | None = None
    errors: Mapping[str, int] = field(default_factory=dict)
    requests: int | None = None
    prompts: int | None = None
    delivered: bool | None = None
    delivered_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A metric of the GPU: its mean over the measure window, and the share of that which is known."""

    mean: float | None = None
    coverage: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Our own error in the stamps of one load. `unknown_share`: of the stamps whose error is not known."""

    p99_ms: float | None = None
    arrivals_p99_ms: float | None = None
    sends_p99_ms: float | None = None
    unknown_share: float | None = None
