"""The gate profiles: named lists of limits, as data. Which are standards and which conventions is said of
each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit of a profile; `limit` in the unit of the metric. `about` says where the number comes from."""

    metric: str
    op: str
    limit: float
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Limits for the stages that have loads of `kind`. `{load}` in a metric stands for each such load."""

    kind: str
    limits: tuple[Limit, ...]


def _limit(metric: str, op: str, limit: float, about: str) -> Limit:
    return Limit(metric=metric, op=op, limit=limit, about=about)


PROFILES: Final[Mapping[str, Profile]] = {
    "voice": Profile(
        kind="voices",
        limits=(
            _limit("speech.ttfa_ms.p95", "<=", 500.0, "convention of voice agents"),
            _limit("speech.time_to_playback_ms.p95", "<=", 1000.0, "convention of voice agents"),
            _limit(
                "speech.clean_share", ">=", 0.95, "convention; the 100 ms are vLLM-Omni's and SGLang-Omni's"
            ),
            _limit("speech.stall_ratio", "<=", 0.005, "judgment"),
            _limit("speech.headroom_ms.p5", ">=", 100.0, "judgment"),
        ),
    ),
    "voice-strict": Profile(
        kind="voices",
        limits=(
            _limit("speech.ttfa_ms.p95", "<=", 300.0, "convention of voice agents"),
            _limit("speech.time_to_playback_ms.p95", "<=", 600.0, "convention of voice agents"),
            _limit(
                "speech.clean_share", ">=", 0.99, "convention; the 100 ms are vLLM-Omni's and SGLang-Omni's"
            ),
            _limit("speech.stall_ratio", "<=", 0.001, "judgment"),
            _limit("speech.headroom_ms.p5", ">=", 200.0, "judgment"),
            _limit("speech.failed", "<=", 0.0, "judgment"),
        ),
    ),
    "face": Profile(
        kind="faces",
        limits=(
            _limit(
                "face.fps_p5", ">=", 24.0, "convention: 25 frames a second are the floor of talking heads"
            ),
            _limit("face.harmonic_fps", ">=", 20.0, "judgment; libwebrtc's measure"),
            _limit("face.freezes_per_minute", "<=", 1.0, "judgment; webrtc-stats' freeze"),
            _limit("face.first_frame_ms.p95", "<=", 1000.0, "convention of voice agents"),
            _limit("face.dropped_share", "<=", 0.02, "judgment"),
            _limit(
                "face.skew_outside.detect", "<=", 0.05, "+45/-125 ms are ITU-R BT.1359-1's, 5 % is judgment"
            ),
            _limit("face.skew_outside.accept", "<=", 0.0, "+90/-185 ms are ITU-R BT.1359-1's"),
        ),
    ),
    "llm": Profile(
        kind="completions",
        limits=(
            _limit("llm.{load}.ttft_ms.p95", "<=", 2000.0, "convention of chat services"),
            _limit("llm.{load}.itl_ms.p99", "<=", 200.0, "convention: reading speed"),
        ),
    ),
}
