"""The LLM's engine: continuous batching with chunked prefill, each step of a bounded number of tokens."""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cotenant.tenants.builtin.llm_steps import RecordedDecode
from cotenant.tenants.builtin.runtime import Runtime, prepare, spend_host_time, weights
from cotenant.tenants.builtin.shapes.blocks import sample_top_k
from cotenant.tenants.builtin.shapes.decoder_llm import CausalLm, LlmSizes
from cotenant.tenants.builtin.shapes.moe import one_launch_experts

EOS_TOKEN = 0
STEP_BUCKETS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """One request. `send` gets (token, finish reason or None) for each token, in the engine's thread.

    Setting `cancelled` from any thread drops it at the next step. `temperature` 0 takes the likeliest token.
    """

    prompt: list[int]
    max_tokens: int
    send: Callable[[tuple[int, str | None]], None]
    ignore_eos: bool = False
    min_tokens: int = 0
    temperature: float = 1.0
    cancelled: bool = False
    slot: int = -1
    computed: int = 0
    output: int = 0
    last_token: int = 0

    @property
    def longest(self) -> int:
        """Tokens that it may grow to."""
        return len(self.prompt) + self.max_tokens

    @property
    def prefilling(self) -> bool:
        return self.computed < len(self.prompt)


@dataclass(slots=True, kw_only=True)
class Counters:
    """What the engine has done so far. `step_tokens` counts steps by bucket of their tokens."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    steps: int = 0
    step_tokens_sum: int = 0
    step_tokens: list[int] = field(default_factory=lambda: [0] * (len(STEP_BUCKETS) + 1))
    finished: Counter[str] = field(default_factory=Counter)


class LlmEngine:
    """Each step: a token for every sequence that decodes, then prompts by arrival, as far as it goes."""

    def __init__(
        self, model: CausalLm, sizes: LlmSizes, *, recorded: bool = False, step_overhead_ns: int = 0
    ) -> None:
        self.model, self.sizes = model, sizes
        self.step_overhead_ns = step_overhead_ns
        self.counters = Counters()
        self._device = model.head.weight.device
        self._cache = model.decoder.new_cache(sizes.slots, sizes.kv_tokens)
        self._decode = RecordedDecode(model, self._cache) if recorded else None
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []

    @property
    def active(self) -> int:
        return len(self._waiting) + len(self._running)

    def close(self) -> None:
        """Nothing: all of the engine is in the thread that steps it."""

    @property
    def waiting(self) -> int:
        """Sequences that no slot was free for yet."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Sequences that hold a slot."""
        return len(self._running)

    @property
    def cache_usage(self) -> float:
        """Share of the cache that holds tokens, 0 to 1."""
        return self._cache.usage

    def add(self, sequence: Sequence) -> None:
        """Queues a sequence; prompt and output together must fit `sizes.context`."""
        self._waiting.append(sequence)

    def step(self) -> bool:
        """One forward over decoding tokens and a part of the prompts; False when nothing is there to do."""
        self._drop_cancelled()
        while self._waiting and self._cache.fits(self._waiting[0].longest):
            sequence = self._waiting.popleft()
            sequence.slot = self._cache.acquire_for(sequence.longest)
            self._running.append(sequence)
        if not self._running:
            return False
        scheduled = self._schedule()
        spend_host_time(self.step_overhead_ns)
        with torch.inference_mode():
            tokens = self._forward(scheduled)
        self._account(scheduled)
        self._deliver(scheduled, tokens)
        return True

    def _drop_cancelled(self) -> None:
        before = self.active
        self._waiting = deque(one for one in self._waiting if not one.cancelled)
        for one in [one for one in self._running if one.cancelled]:
            self._release(one)
        self.counters.finished["abort"] += before - self.active

    def _release(self, sequence: Sequence) -> None:
        self._cache.release(sequence.slot)
        self._running.remove(sequence)

    def _schedule(self) -> list[tuple[Sequence, int]]:
        """(sequence, new tokens): first those that decode, by slot, so that neighbours attend in one call."""
        decoding = sorted((one for one in self._running if not one.prefilling), key=lambda one: one.slot)
        scheduled = [(one, 1) for one in decoding[: self.sizes.step_tokens]]
        budget = self.sizes.step_tokens - len(scheduled)
        for one in self._running:
            if one.prefilling and budget:
                width = min(len(one.prompt) - one.computed, budget)
                scheduled.append((one, width))
                budget -= width
        return scheduled

    def _forward(self, scheduled: list[tuple[Sequence, int]]) -> list[int]:
        """The next token of each sequence, in order; what it says of an unfinished prompt means nothing."""
        inputs: list[int] = []
        last_rows: list[int] = []
        for one, width in scheduled:
            inputs += one.prompt[one.computed : one.computed + width] if one.prefilling else [one.last_token]
            last_rows.append(len(inputs) - 1)
        slots, device = [one.slot for one, _ in scheduled], self._device
        decoding = not any(one.prefilling for one, _ in scheduled)
        if self._decode and decoding and self._decode.covers(slots):
            logits = self._decode(inputs, slots)
        else:
            plan = self._cache.plan([(one.slot, width) for one, width in scheduled])
            logits = self.model(
                torch.tensor(inputs, device=device), plan, self._cache, torch.tensor(last_rows, device=device)
            )
        tokens: list[int] = self._sample(logits, [one for one, _ in scheduled]).tolist()
        return tokens

    def _sample(self, logits: Tensor, sequences: list[Sequence]) -> Tensor:
        if not any(one.temperature for one in sequences):
            return logits.argmax(dim=-1)
        heat = torch.tensor([[max(one.temperature, 1e-5)] for one in sequences], device=logits.device)
        return sample_top_k(logits, self.sizes.top_k, heat)

    def _account(self, scheduled: list[tuple[Sequence, int]]) -> None:
        counters, total = self.counters, sum(width for _, width in scheduled)
        counters.steps += 1
        counters.step_tokens_sum += total
        counters.step_tokens[bisect_left(STEP_BUCKETS, total)] += 1

    def _deliver(self, scheduled: list[tuple[Sequence, int]], tokens: list[int]) -> None:
        for (one, width), token in zip(scheduled, tokens, strict=True):
            if one.prefilling:
                one.computed += width
                if one.prefilling:
                    continue
                self.counters.prompt_tokens += len(one.prompt)
            one.output += 1
            one.last_token = token
            self.counters.generation_tokens += 1
            reason = None
            if token == EOS_TOKEN and not one.ignore_eos and one.output > one.min_tokens:
                reason = "stop"
            elif one.output >= one.max_tokens:
                reason = "length"
            one.send((token, reason))
            if reason:
                self.counters.finished[reason] += 1
                self._release(one)


def build(sizes: LlmSizes, runtime: Runtime) -> LlmEngine:
    """An LLM with random weights; to be called in the thread that steps it."""
    device, dtype = prepare(runtime, sizes.cpu_threads)
    with weights(device, dtype):
        model = CausalLm(sizes).eval().requires_grad_(False)
    # A grouped product that falls back to one launch an expert waits for the host, which no graph can hold.
    recorded = runtime.recorded and (sizes.decoder.experts is None or one_launch_experts(device))
    return LlmEngine(model, sizes, recorded=recorded, step_overhead_ns=runtime.step_overhead_ns or 0)
