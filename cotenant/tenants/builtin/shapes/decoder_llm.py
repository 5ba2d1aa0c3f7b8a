"""A decoder-only language model for any sizes; weights are random."""

from dataclasses import dataclass

from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.blocks import Decoder, DecoderSizes
from cotenant.tenants.builtin.shapes.kv_cache import KvCache, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSizes:
    """A model and its engine: `slots` sequences at once, `step_tokens` new tokens a step at most.

    The sequences share `kv_tokens` of cache in pages; None gives each slot a whole `context`.
    """

    decoder: DecoderSizes
    vocabulary: int
    context: int
    slots: int
    step_tokens: int
    kv_tokens: int | None = None
    top_k: int = 50
    cpu_threads: int = 2


class CausalLm(nn.Module):
    """Tokens of several sequences -> logits of the rows that need one."""

    def __init__(self, sizes: LlmSizes) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.decoder.hidden)
        self.decoder = Decoder(sizes.decoder, sizes.context)
        self.head = nn.Linear(sizes.decoder.hidden, sizes.vocabulary, bias=False)

    def forward(self, tokens: Tensor, plan: Plan, cache: KvCache, rows: Tensor) -> Tensor:
        """(tokens,) -> (len(rows), vocabulary)."""
        out: Tensor = self.head(self.decoder(self.embedding(tokens), plan, cache)[rows])
        return out
