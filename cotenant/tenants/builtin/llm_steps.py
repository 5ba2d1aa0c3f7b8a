"""The LLM's decode step in fixed shapes, recorded and replayed; steps with prompts in them are launched."""

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

from cotenant.tenants.builtin.shapes.decoder_llm import CausalLm
from cotenant.tenants.builtin.shapes.graphs import Recorder, bucket, buckets
from cotenant.tenants.builtin.shapes.kv_cache import KvCache

_SHORTEST_KV: Final = 512
_LONGEST_KV: Final = 4096  # beyond, every row would pay for the longest


class RecordedDecode:
    """One token for each sequence. Row i is slot i; idle slots compute what nobody reads."""

    def __init__(self, model: CausalLm, cache: KvCache) -> None:
        self._model, self._cache = model, cache
        self._device = model.head.weight.device
        slots = len(cache.lengths)
        self._rows = buckets(slots)
        self._lengths = buckets(min(_LONGEST_KV, cache.capacity), _SHORTEST_KV)
        with torch.inference_mode():
            self._tokens, self._positions = (
                torch.zeros(slots, dtype=torch.int64, device=self._device) for _ in range(2)
            )
            recorder = Recorder(self._device)
            self._calls = {
                (rows, length): recorder.record(self._call(rows, length))
                for rows in reversed(self._rows)
                for length in reversed(self._lengths)
            }

    def _call(self, rows: int, length: int) -> Callable[[], Tensor]:
        model, tokens, positions = self._model, self._tokens[:rows], self._positions[:rows]

        def call() -> Tensor:
            plan = self._cache.fixed_plan(positions, length)
            logits: Tensor = model.head(model.decoder(model.embedding(tokens), plan, self._cache))
            return logits

        return call

    def covers(self, slots: Sequence[int]) -> bool:
        """Whether these sequences, one token longer, fit a recorded length."""
        return max(self._cache.lengths[slot] for slot in slots) < self._lengths[-1]

    def __call__(self, tokens: Sequence[int], slots: Sequence[int]) -> Tensor:
        """The logits of each slot's next token, (slots, vocabulary); the cache grows by one token each."""
        lengths = self._cache.lengths
        rows = bucket(self._rows, max(slots) + 1)
        length = bucket(self._lengths, max(lengths[slot] for slot in slots) + 1)
        by_slot = [0] * len(lengths)
        for slot, token in zip(slots, tokens, strict=True):
            by_slot[slot] = token
        self._tokens.copy_(torch.tensor(by_slot))
        self._positions.copy_(torch.tensor(lengths))
        logits = self._calls[rows, length]()
        self._cache.grow(slots)
        if list(slots) == list(range(len(slots))):
            return logits[: len(slots)]
        return logits[torch.tensor(slots, device=self._device)]
