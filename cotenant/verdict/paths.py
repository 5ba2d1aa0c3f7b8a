"""The names of the metrics that a gate may read: every path of a number inside a stage's entry."""

import difflib
import re
from collections.abc import Iterable
from typing import Final

from cotenant.errors import UserError
from cotenant.verdict.plan import Plan

SPEECH_METRICS: Final = (
    "streams", "failed", "delayed", "delay_ms.p50", "delay_ms.p95", "short", "runaway", "ttfa_ms.p50",
    "ttfa_ms.p95", "ttfa_ms.p99", "audible_ttfa_ms.p50", "audible_ttfa_ms.p95",
    "time_to_playback_ms.p50", "time_to_playback_ms.p95", "chunk_gap_max_ms.p50",
    "chunk_gap_max_ms.p95", "rtf.p50", "rtf.p95", "underruns", "stall_ms.total", "stall_ms.longest",
    "stall_ratio", "clean_share", "headroom_ms.p5", "headroom_ms.p50", "headroom_ms.unlimited",
    "required_lookahead_ms.p50", "required_lookahead_ms.p95", "required_lookahead_ms.p99",
    "audio_underrun_ms.p95", "continuity.c50", "continuity.c100", "continuity.c200",
)  # fmt: skip
FACE_METRICS: Final = (
    "streams", "failed", "fps_min", "fps_p5", "harmonic_fps", "freezes", "freezes_per_minute",
    "skew_outside.detect", "skew_outside.accept", "first_frame_ms.p50", "first_frame_ms.p95",
    "dropped_share", "late_share", "freezes_by_spec", "pauses", "frame_latency_ms.p50",
    "frame_latency_ms.p95", "frame_latency_ms.p99", "skew_ms.p5", "skew_ms.p50", "skew_ms.p95",
)  # fmt: skip
_LLM: Final = (
    "tokens_per_s", "prompt_tokens_per_s", "ttft_ms.p50", "ttft_ms.p95", "ttft_ms.p99", "itl_ms.p50",
    "itl_ms.p95", "itl_ms.p99", "tpot_ms.p50", "tpot_ms.p95", "finished", "open", "failed",
    "delivered_share",
)  # fmt: skip
_VOICE_PAIRS: Final = (
    "ttfa_p95.ratio", "ttfa_p95.difference_ms", "time_to_playback_p95.ratio",
    "time_to_playback_p95.difference_ms", "chunk_gap_max_p95.ratio", "chunk_gap_max_p95.difference_ms",
    "rtf_p95.ratio", "rtf_p95.difference", "required_lookahead_p95.ratio",
    "required_lookahead_p95.difference_ms", "headroom_p5.difference_ms", "clean_share.difference",
)  # fmt: skip
_FACE_PAIRS: Final = (
    "frame_latency_p95.ratio", "frame_latency_p95.difference_ms", "harmonic_fps.ratio",
    "harmonic_fps.difference",
)  # fmt: skip
_LLM_PAIRS: Final = (
    "tokens_per_s.ratio", "tokens_per_s.difference", "prompt_tokens_per_s.ratio",
    "prompt_tokens_per_s.difference", "ttft_p95.ratio", "ttft_p95.difference_ms", "itl_p99.ratio",
    "itl_p99.difference_ms",
)  # fmt: skip
_ANY: Final = re.compile(r"gpu\.[A-Za-z0-9_]+\.(mean|coverage)|(host_)?canary_ms\.(p50|p99)")


def known_paths(plan: Plan) -> tuple[str, ...]:
    """All paths of this scenario, but for those of the GPU's metrics, which depend on the driver."""
    llm = [name for name, load in plan.loads.items() if load.kind == "completions"]
    return (
        *(f"speech.{path}" for path in SPEECH_METRICS),
        *(f"face.{path}" for path in FACE_METRICS),
        *(f"llm.{load}.{path}" for load in llm for path in _LLM),
        *(f"vs_reference.{path}" for path in (*_VOICE_PAIRS, *_FACE_PAIRS)),
        *(f"vs_reference.llm.{load}.{path}" for load in llm for path in _LLM_PAIRS),
    )


def check_path(path: str, known: Iterable[str]) -> None:
    """Raises UserError, with the nearest names, where no stage can have such a metric."""
    names = list(known)
    if path in names or _ANY.fullmatch(path):
        return
    if path.startswith(("speech.chunk_gap_ms", "speech.chunk_gap_time_weighted_ms")):
        raise UserError(
            f"gate: {path} is pooled over a whole stage, and chunks are no independent samples; "
            "gate speech.chunk_gap_max_ms.p95 (each utterance's longest gap) instead"
        )
    close = difflib.get_close_matches(path, names, n=3, cutoff=0.5)
    # A name without its family ("ttfa_ms.p95") is the commonest slip.
    close = list(dict.fromkeys([*(name for name in names if name.endswith("." + path)), *close]))[:3]
    advice = (
        f"nearest: {', '.join(close)}" if close else "for example speech.clean_share or speech.ttfa_ms.p95"
    )
    raise UserError(f"gate: there is no metric {path!r}; {advice}")


def kinds_of(path: str) -> tuple[str, str]:
    """(Kind of load, name of the load) that a metric is about; both `""` where it is about the machine.

    The name of a load is all that lies between `llm.` and the metric, dots included.
    """
    family, _, rest = path.partition(".")
    metrics: tuple[str, ...] = _LLM
    if family == "vs_reference":
        if not rest.startswith("llm."):
            return ("faces" if rest in _FACE_PAIRS else "voices"), ""
        family, _, rest = rest.partition(".")
        metrics = _LLM_PAIRS
    if family == "llm":
        ends = [f".{metric}" for metric in metrics if rest.endswith(f".{metric}")]
        return "completions", rest.removesuffix(max(ends, key=len)) if ends else rest.partition(".")[0]
    return {"speech": "voices", "face": "faces"}.get(family, ""), ""


def unit_of(path: str) -> str:
    """`ms` for times, `share` for shares, else `""`."""
    steps = path.split(".")
    if any(step.endswith("_ms") for step in steps[-2:]):
        return "" if steps[-1] == "unlimited" else "ms"
    shares = ("clean_share", "stall_ratio", "dropped_share", "late_share", "delivered_share", "coverage")
    if (
        steps[-1] in shares
        or "continuity" in steps
        or "skew_outside" in steps
        or steps[-2:]
        == [
            "clean_share",
            "difference",
        ]
    ):
        return "share"
    return ""
