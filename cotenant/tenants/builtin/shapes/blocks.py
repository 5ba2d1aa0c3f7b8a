"""The decoder-only transformer of talker, code predictor and LLM: RMSNorm, GQA with RoPE, SwiGLU."""

from dataclasses import dataclass

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.kv_cache import KvCache, Plan, Span
from cotenant.tenants.builtin.shapes.moe import Experts, ExpertSizes
from cotenant.tenants.builtin.shapes.paged_cache import PagedKvCache


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSizes:
    """Sizes of a decoder-only transformer, in the words of the usual `config.json`.

    `mrope` gives the rotary pairs that belong to each of three position axes (Qwen's multimodal form, here
    interleaved); None has one axis. With `experts`, each layer's feed-forward is a mixture of experts.
    """

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float = 1e6
    qk_norm: bool = True
    mrope: tuple[int, int, int] | None = None
    experts: ExpertSizes | None = None


class RmsNorm(nn.Module):
    """y = x / sqrt(mean(x^2) + 1e-6) * weight, over the last axis (Zhang and Sennrich, arXiv 1910.07467)."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape))

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda and self.weight.dim() == 1:
            return fn.rms_norm(x, (x.shape[-1],), self.weight, 1e-6)
        if x.is_cuda:
            return fn.rms_norm(x, (x.shape[-1],), None, 1e-6) * self.weight
        # On a CPU the library's own form costs three times these calls for the few rows of a step.
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class SwiGlu(nn.Module):
    """down(silu(gate(x)) * up(x)), gate and up in one matrix (Shazeer, arXiv 2002.05202)."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * intermediate, bias=False)
        self.down = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        out: Tensor = self.down(fn.silu(gate) * up)
        return out


def rope_frequencies(head_dim: int, theta: float) -> Tensor:
    """(head_dim / 2,) radians a position of each rotary pair."""
    return torch.pow(theta, -torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)


def rope_table(positions: int, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines, each (positions, head_dim), of rotary embeddings (Su et al., arXiv 2104.09864)."""
    frequencies = rope_frequencies(head_dim, theta)
    angle = torch.outer(torch.arange(positions, dtype=torch.float32), frequencies).repeat(1, 2)
    return angle.cos(), angle.sin()


def mrope_axis(pairs: tuple[int, int, int], head_dim: int) -> Tensor:
    """(head_dim,): which of three position axes turns each element; axes 1 and 2 take every third pair."""
    axis = torch.zeros(head_dim // 2, dtype=torch.int64)
    for number in (1, 2):
        axis[number : 3 * pairs[number] : 3] = number
    return axis.repeat(2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns each pair (i, i + half) of the last axis by its position's angle."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


def causal_attention(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """(n, heads, width, d) of the newest tokens over (n, kv_heads, kv_len, d): row i sees all up to itself.

    On CUDA the flash kernel is called by name: it aligns a causal mask to the lower right and shares key
    heads among query heads, while torch's front would build and read the mask.
    """
    if q.is_cuda:
        flash: Tensor = torch.ops.aten._scaled_dot_product_flash_attention(q, keys, values, 0.0, True)[0]
        return flash
    width, kv_len, group = q.shape[2], keys.shape[2], q.shape[1] // keys.shape[1]
    seen = torch.ones(width, kv_len, dtype=torch.bool, device=q.device).tril(kv_len - width)
    keys, values = (part.repeat_interleave(group, dim=1) for part in (keys, values))
    return fn.scaled_dot_product_attention(q, keys, values, attn_mask=seen)


class Attention(nn.Module):
    """Grouped-query attention over a growing cache, for rows of several sequences at once."""

    def __init__(self, sizes: DecoderSizes) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = sizes.heads, sizes.kv_heads, sizes.head_dim
        self.qkv = nn.Linear(sizes.hidden, (sizes.heads + 2 * sizes.kv_heads) * sizes.head_dim, bias=False)
        self.out = nn.Linear(sizes.heads * sizes.head_dim, sizes.hidden, bias=False)
        turned = sizes.heads + sizes.kv_heads
        self.qk_norm = RmsNorm(turned, sizes.head_dim) if sizes.qk_norm else nn.Identity()

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, plan: Plan, cache: KvCache, layer: int) -> Tensor:
        heads = self.qkv(x).view(x.shape[0], -1, self.head_dim)
        turned = self.heads + self.kv_heads
        qk, v = rotate(self.qk_norm(heads[:, :turned]), cos, sin), heads[:, turned:]
        q, k = qk[:, : self.heads], qk[:, self.heads :]
        parts = [self._attend(span, q, k, v, cache, layer) for span in plan.spans]
        out: Tensor = self.out(parts[0] if len(parts) == 1 else torch.cat(parts))
        return out

    def _attend(self, span: Span, q: Tensor, k: Tensor, v: Tensor, cache: KvCache, layer: int) -> Tensor:
        """One span's rows: their keys and values go into the cache, then they attend to all of theirs.

        The query heads that share a key head stand side by side as further query rows, so that the cache is
        read once for all of them and is never expanded.
        """
        rows, n, width = slice(span.row, span.row + span.count * span.width), span.count, span.width
        shape = (n, width, self.kv_heads, self.head_dim)
        keys, values = cache.extend(layer, span, k[rows].view(shape), v[rows].view(shape))
        if span.causal:
            queries = q[rows].view(n, width, self.heads, self.head_dim).transpose(1, 2)
            out = causal_attention(queries, keys, values)
            return out.transpose(1, 2).reshape(n * width, self.heads * self.head_dim)
        group = self.heads // self.kv_heads
        queries = q[rows].view(n, width, self.kv_heads, group, self.head_dim).permute(0, 2, 3, 1, 4)
        queries = queries.reshape(n, self.kv_heads, group * width, self.head_dim)
        mask = None
        if span.mask is not None:
            mask = span.mask.unsqueeze(1).expand(-1, group, -1, -1).reshape(n, 1, group * width, -1)
        out = fn.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        out = out.view(n, self.kv_heads, group, width, self.head_dim).permute(0, 3, 1, 2, 4)
        return out.reshape(n * width, self.heads * self.head_dim)


class DecoderLayer(nn.Module):
    """Pre-norm attention and feed-forward, each with its residual."""

    def __init__(self, sizes: DecoderSizes) -> None:
        super().__init__()
        self.attention_norm, self.attention = RmsNorm(sizes.hidden), Attention(sizes)
        self.mlp_norm = RmsNorm(sizes.hidden)
        self.mlp = (
            SwiGlu(sizes.hidden, sizes.intermediate)
            if sizes.experts is None
            else Experts(sizes.hidden, sizes.experts)
        )

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, plan: Plan, cache: KvCache, layer: int) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cos, sin, plan, cache, layer)
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out


class Decoder(nn.Module):
    """The stack of layers and the last norm. Rows are tokens of any sequences, as the plan says."""

    cos: Tensor
    sin: Tensor
    axis: Tensor

    def __init__(self, sizes: DecoderSizes, positions: int) -> None:
        super().__init__()
        self.sizes = sizes
        self.layers = nn.ModuleList(DecoderLayer(sizes) for _ in range(sizes.layers))
        self.norm = RmsNorm(sizes.hidden)
        tables = rope_table(positions, sizes.head_dim, sizes.rope_theta)
        for name, table in zip(("cos", "sin"), tables, strict=True):
            table = table.to(torch.get_default_dtype()).unsqueeze(1)
            self.register_buffer(name, table, persistent=False)
        if sizes.mrope is not None:
            self.register_buffer("axis", mrope_axis(sizes.mrope, sizes.head_dim), persistent=False)

    def new_cache(self, slots: int, tokens: int | None = None) -> KvCache:
        """An empty cache for `slots` sequences of this decoder, on its device and in its precision.

        With `tokens`, they share that many in pages; else each slot has room for a whole sequence.
        """
        sizes, capacity = self.sizes, self.cos.shape[0]
        shape = (sizes.layers, slots, sizes.kv_heads, capacity, sizes.head_dim)
        if tokens is not None:
            return PagedKvCache(*shape, tokens, like=self.cos)
        return KvCache(*shape, like=self.cos)

    def rotations(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of (rows,) positions, each (rows, 1, head_dim).

        With `mrope` all three axes are looked up and chosen from by pair, as for text: they are equal.
        """
        if self.sizes.mrope is None:
            return self.cos[positions], self.sin[positions]
        axes = positions.expand(3, -1)
        cos, sin = (table[axes].gather(0, self.axis.expand(1, len(positions), 1, -1))[0]
                    for table in (self.cos, self.sin))  # fmt: skip
        return cos, sin

    def forward(self, x: Tensor, plan: Plan, cache: KvCache) -> Tensor:
        """(rows, hidden) -> (rows, hidden); the cache grows by the plan's tokens."""
        cos, sin = self.rotations(plan.positions)
        for index, layer in enumerate(self.layers):
            x = layer(x, cos, sin, plan, cache, index)
        cache.commit(plan)
        out: Tensor = self.norm(x)
        return out


def sample_top_k(logits: Tensor, top_k: int, temperature: float | Tensor) -> Tensor:
    """(rows, vocabulary) -> (rows,): one draw a row from the `top_k` likeliest, at this temperature (> 0).

    The draw is the largest of p / e with e exponential, which falls on i with probability p_i and, unlike a
    multinomial draw, stays on the device.
    """
    values, indices = torch.topk(logits.float(), min(top_k, logits.shape[-1]))
    shares = torch.softmax(values / temperature, dim=-1)
    drawn = (shares / torch.empty_like(shares).exponential_()).argmax(dim=-1, keepdim=True)
    return indices.gather(1, drawn).squeeze(1)
