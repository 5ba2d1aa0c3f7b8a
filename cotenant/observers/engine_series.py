"""What a scrape of an LLM server's /metrics means: its series under short names, counters as differences.

Names written, after the `vllm:` series they come from:
  gauges: `running`, `waiting` (requests), `kv_cache_usage` (0 to 1, of the fullest engine);
  since the scrape before: `preemptions`, `prefix_cache_hits`, `prefix_cache_queries`, `prompt_tokens`,
  `generation_tokens` (tokens but for the first), `steps` and `step_tokens` (engine steps, and tokens in them
  together), `largest_step_tokens` (upper edge of the highest bucket with a new step, or the last finite one).
A server that has lost its counters (a restart) counts from 0 again: what it shows then is the difference.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from cotenant.wire.prometheus import MetricSample

# Newest name first; of the old ones, some releases had `gpu_` in front.
_GAUGES: Final[Mapping[str, tuple[str, ...]]] = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_cache_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
}
_COUNTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "preemptions": ("vllm:num_preemptions",),
    "prefix_cache_hits": ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
    "prefix_cache_queries": ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
    "prompt_tokens": ("vllm:prompt_tokens",),
    "generation_tokens": ("vllm:generation_tokens",),
    "steps": ("vllm:iteration_tokens_total_count",),
    "step_tokens": ("vllm:iteration_tokens_total_sum",),
}
_STEP_BUCKETS: Final = "vllm:iteration_tokens_total_bucket"
_LARGEST_STEP: Final = "largest_step_tokens"


class EngineSeries:
    """Remembers the counters of the scrape before."""

    def __init__(self) -> None:
        self._counters: dict[str, float] = {}
        self._buckets: dict[float, float] = {}

    def values(self, samples: Iterable[MetricSample]) -> dict[str, float] | None:
        """Of one whole scrape; counters from the second one on. None where it has no name that is known."""
        by_name: dict[str, list[MetricSample]] = {}
        for sample in samples:
            if not math.isnan(sample.value):
                by_name.setdefault(sample.name, []).append(sample)
        values = {}
        for metric, names in _GAUGES.items():
            found = _first(by_name, names)
            if found is not None:
                # Several engines behind one server add up, but for how full the fullest cache is.
                values[metric] = max(found) if metric == "kv_cache_usage" else sum(found)
        counters = {}
        for metric, names in _COUNTERS.items():
            found = _first(by_name, [form for name in names for form in (name + "_total", name)])
            if found is not None:
                counters[metric] = sum(found)
        for metric, count in counters.items():
            if metric in self._counters:
                values[metric] = _grown(self._counters[metric], count)
        largest = self._largest_step(by_name.get(_STEP_BUCKETS, []))
        if largest is not None:
            values[_LARGEST_STEP] = largest
        self._counters |= counters
        return values if values or counters else None

    def _largest_step(self, samples: list[MetricSample]) -> float | None:
        buckets: dict[float, float] = {}
        for sample in samples:
            edge = _edge(sample.labels.get("le", ""))
            if edge is not None:
                buckets[edge] = buckets.get(edge, 0.0) + sample.value
        before, self._buckets = self._buckets, buckets
        if not buckets or not before:
            return None
        # Counts are cumulative: the highest edge that all new steps are at or below.
        total = _grown(before.get(math.inf, 0.0), buckets.get(math.inf, 0.0))
        if total <= 0:
            return None
        finite = sorted(edge for edge in buckets if math.isfinite(edge))
        for edge in finite:
            if _grown(before.get(edge, 0.0), buckets[edge]) >= total:
                return edge
        return finite[-1] if finite else None


def _first(by_name: Mapping[str, list[MetricSample]], names: Iterable[str]) -> list[float] | None:
    return next(([sample.value for sample in by_name[name]] for name in names if name in by_name), None)


def _grown(before: float, after: float) -> float:
    return after - before if after >= before else after


def _edge(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
