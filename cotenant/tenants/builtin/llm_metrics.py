"""The LLM's counters as Prometheus text, under vLLM's names and only for what this engine has."""

from collections.abc import Iterator
from itertools import accumulate

from cotenant.tenants.builtin.llm import STEP_BUCKETS, LlmEngine


def render(engine: LlmEngine, model: str) -> str:
    """The text of `/metrics`. A slot holds a whole context, so nothing is ever preempted: that count is 0."""
    labels = f'engine="0",model_name="{model}"'
    counters = engine.counters
    lines = [
        *_one("gauge", "num_requests_running", labels, engine.running),
        *_one("gauge", "num_requests_waiting", labels, engine.waiting),
        *_one("gauge", "kv_cache_usage_perc", labels, round(engine.cache_usage, 6)),
        *_one("counter", "num_preemptions_total", labels, 0),
        *_one("counter", "prompt_tokens_total", labels, counters.prompt_tokens),
        *_one("counter", "generation_tokens_total", labels, counters.generation_tokens),
        *_finished(engine, labels),
        *_steps(engine, labels),
    ]
    return "\n".join(lines) + "\n"


def _one(kind: str, name: str, labels: str, value: float) -> Iterator[str]:
    yield f"# TYPE vllm:{name.removesuffix('_total') if kind == 'counter' else name} {kind}"
    yield f"vllm:{name}{{{labels}}} {value}"


def _finished(engine: LlmEngine, labels: str) -> Iterator[str]:
    yield "# TYPE vllm:request_success counter"
    for reason in ("stop", "length", "abort"):
        count = engine.counters.finished[reason]
        yield f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {count}'


def _steps(engine: LlmEngine, labels: str) -> Iterator[str]:
    """A histogram, despite its name: how many engine steps had how many tokens."""
    counters, name = engine.counters, "vllm:iteration_tokens_total"
    yield f"# TYPE {name} histogram"
    edges = [*(str(float(edge)) for edge in STEP_BUCKETS), "+Inf"]
    for edge, count in zip(edges, accumulate(counters.step_tokens), strict=True):
        yield f'{name}_bucket{{{labels},le="{edge}"}} {count}'
    yield f"{name}_sum{{{labels}}} {counters.step_tokens_sum}"
    yield f"{name}_count{{{labels}}} {counters.steps}"
