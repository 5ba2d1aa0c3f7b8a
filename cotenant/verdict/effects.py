"""What two runs are compared by, which direction is worse, and how much it takes to matter."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from cotenant.verdict.sample import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric's path in a stage's entry (`{load}`: any LLM load), and the least difference that matters.

    A difference matters from `share` of A's value and from `absolute` (in the metric's unit) on, both.
    """

    path: str
    worse: Literal["higher", "lower"]
    share: float
    absolute: float

    def least(self, value: float) -> float:
        """The least difference from `value` that matters."""
        return (
            self.absolute
            if value in (float("inf"), -float("inf"))
            else max(self.absolute, self.share * abs(value))
        )

    @property
    def effect(self) -> dict[str, float]:
        """The minimum effect as data."""
        return {"share": self.share, "absolute": self.absolute}


def _latency(path: str) -> Metric:
    return Metric(path=path, worse="higher", share=0.1, absolute=10.0)


def _rate(path: str) -> Metric:
    return Metric(path=path, worse="lower", share=0.1, absolute=0.5)


# A picture that stands still has few freezes, for each is long: where it stands for this share of the time,
# each time for more than a second, fewer of them say nothing.
STANDING_SHARE: Final = 0.5
STANDING_S: Final = 1.0
FREEZES: Final = "face.freezes_per_minute"

METRICS: Final[Sequence[Metric]] = (
    _latency("speech.ttfa_ms.p95"),
    _latency("speech.time_to_playback_ms.p95"),
    _latency("speech.chunk_gap_max_ms.p95"),
    _latency("speech.required_lookahead_ms.p95"),
    Metric(path="speech.headroom_ms.p5", worse="lower", share=0.1, absolute=10.0),
    Metric(path="speech.rtf.p95", worse="higher", share=0.1, absolute=0.02),
    Metric(path="speech.stall_ratio", worse="higher", share=0.1, absolute=0.005),
    Metric(path="speech.clean_share", worse="lower", share=0.0, absolute=0.02),
    _rate("face.fps_p5"),
    _rate("face.harmonic_fps"),
    Metric(path=FREEZES, worse="higher", share=0.1, absolute=0.5),
    _latency("face.first_frame_ms.p95"),
    _latency("face.frame_latency_ms.p95"),
    Metric(path="face.dropped_share", worse="higher", share=0.0, absolute=0.02),
    Metric(path="face.skew_outside.detect", worse="higher", share=0.0, absolute=0.02),
    _rate("llm.{load}.tokens_per_s"),
    _latency("llm.{load}.ttft_ms.p95"),
    _latency("llm.{load}.itl_ms.p99"),
)


def metrics_of(parts: Sequence[Part]) -> list[tuple[str, Metric]]:
    """The metrics of a stage with their paths, one for each LLM load that any of `parts` has."""
    loads = sorted({load for part in parts for load in part.entry.get("llm", {})})
    found = []
    for metric in METRICS:
        if "{load}" in metric.path:
            found += [(metric.path.replace("{load}", load), metric) for load in loads]
        else:
            found.append((metric.path, metric))
    return found
