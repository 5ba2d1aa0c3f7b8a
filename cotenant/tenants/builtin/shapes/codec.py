"""The convolutional decoder that turns frames of codes into samples, after the 12 Hz codec of Qwen3-TTS."""

import math
from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.blocks import (
    DecoderSizes,
    RmsNorm,
    SwiGlu,
    rope_frequencies,
    rope_table,
    rotate,
)
from cotenant.tenants.builtin.shapes.codec_memory import Memory

ROPE_THETA: Final = 1e4


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecSizes:
    """Sizes of the codec's decoder; the product of all upsampling factors is the samples in a frame."""

    codebooks: int
    codebook_size: int
    codebook_dim: int
    latent: int
    transformer: DecoderSizes
    window: int
    upsampling: tuple[int, ...]
    decoder_channels: int
    rates: tuple[int, ...]

    @property
    def samples_per_frame(self) -> int:
        return math.prod(self.upsampling) * math.prod(self.rates)


class CausalConv(nn.Module):
    """A 1-D convolution that sees nothing to the right of its output; to the left, zeros or its `memory`."""

    memory: Memory | None = None

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.pad = (kernel - 1) * dilation
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        x = self.memory.joined(self, x, self.pad) if self.memory else fn.pad(x, (self.pad, 0))
        out: Tensor = self.conv(x)
        return out


class CausalUp(nn.Module):
    """A transposed convolution by `rate` with what would look ahead cut off."""

    memory: Memory | None = None

    def __init__(self, inputs: int, outputs: int, kernel: int, rate: int) -> None:
        super().__init__()
        self.conv, self.cut = nn.ConvTranspose1d(inputs, outputs, kernel, stride=rate), kernel - rate
        self.rate, self.past = rate, -(-kernel // rate) - 1

    def forward(self, x: Tensor) -> Tensor:
        if self.memory:
            x = self.memory.joined(self, x, self.past)
        out: Tensor = self.conv(x)
        first = self.past * self.rate if self.memory else 0
        return out[..., first : out.shape[-1] - self.cut]


class Snake(nn.Module):
    """x + sin^2(a x) / b with a, b by channel (SnakeBeta, after Ziyin et al., arXiv 2006.08195)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.log_a, self.log_b = (nn.Parameter(torch.zeros(channels, 1)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sin(x * self.log_a.exp()).square() / (self.log_b.exp() + 1e-9)


class ConvNext(nn.Module):
    """Depthwise convolution and a 4x wide feed-forward, with their residual."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = CausalConv(channels, channels, 7, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        wide = fn.gelu(self.up(self.norm(self.depthwise(x).transpose(1, 2))))
        out: Tensor = x + self.down(wide).transpose(1, 2)
        return out


class ResidualUnit(nn.Module):
    """Two snake-activated convolutions, the first dilated."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            Snake(channels),
            CausalConv(channels, channels, 7, dilation),
            Snake(channels),
            CausalConv(channels, channels, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.body(x)
        return out


class WindowLayer(nn.Module):
    """Pre-norm attention over the last `window` frames and SwiGLU, each scaled by a small learned factor."""

    memory: Memory | None = None

    def __init__(self, sizes: DecoderSizes, window: int) -> None:
        super().__init__()
        self.heads, self.past = sizes.heads, window - 1
        self.norm, self.mlp_norm = RmsNorm(sizes.hidden), RmsNorm(sizes.hidden)
        self.qkv = nn.Linear(sizes.hidden, 3 * sizes.heads * sizes.head_dim, bias=False)
        self.out = nn.Linear(sizes.heads * sizes.head_dim, sizes.hidden, bias=False)
        self.mlp = SwiGlu(sizes.hidden, sizes.intermediate)
        self.scale, self.mlp_scale = (nn.Parameter(torch.full((sizes.hidden,), 0.01)) for _ in range(2))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        rows, frames, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(rows, frames, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if self.memory:
            # Keys and values side by side, time last, as all that is remembered lies.
            both = self.memory.joined(self, torch.cat((k, v), -1).transpose(2, 3), self.past)
            k, v = both.transpose(2, 3).chunk(2, dim=-1)
        mixed = fn.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.scale * self.out(mixed.transpose(1, 2).flatten(2))
        out: Tensor = x + self.mlp_scale * self.mlp(self.mlp_norm(x))
        return out


class CodecDecoder(nn.Module):
    """(rows, frames, codebooks) of codes -> (rows, frames * samples_per_frame) samples in -1..1.

    Called as it is, it knows nothing of earlier calls. `next` goes on from the memory that `remember` made,
    so that frames which come in packets are each computed once.
    """

    memory: Memory | None = None
    _frequencies: Tensor

    def __init__(self, sizes: CodecSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self._made: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        self._causal: list[nn.Module] = []
        latent, hidden, channels = sizes.latent, sizes.transformer.hidden, sizes.decoder_channels
        self.books = nn.Parameter(torch.randn(sizes.codebooks, sizes.codebook_size, sizes.codebook_dim // 2))
        # The first codebook and the others are summed apart, each with its own projection.
        self.semantic, self.acoustic = (
            nn.Linear(sizes.codebook_dim // 2, sizes.codebook_dim) for _ in range(2)
        )
        self.pre = CausalConv(sizes.codebook_dim, latent, 3)
        self.enter, self.leave = nn.Linear(latent, hidden), nn.Linear(hidden, latent)
        self.layers = nn.ModuleList(
            WindowLayer(sizes.transformer, sizes.window) for _ in range(sizes.transformer.layers)
        )
        self.stretch = nn.Sequential(
            *(
                part
                for rate in sizes.upsampling
                for part in (CausalUp(latent, latent, rate, rate), ConvNext(latent))
            )
        )
        blocks: list[nn.Module] = [CausalConv(latent, channels, 7)]
        for rate in sizes.rates:
            blocks += [Snake(channels), CausalUp(channels, channels // 2, 2 * rate, rate)]
            channels //= 2
            blocks += [ResidualUnit(channels, dilation) for dilation in (1, 3, 9)]
        self.blocks = nn.Sequential(*blocks, Snake(channels), CausalConv(channels, 1, 7))

    def _tables(self, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotations and the window's mask for (rows, frames, ...); packets are alike, so they are kept."""
        frames = codes.shape[1]
        if frames not in self._made:
            cos, sin = (
                part.to(self.books)
                for part in rope_table(frames, self.sizes.transformer.head_dim, ROPE_THETA)
            )
            age = torch.arange(frames).view(-1, 1) - torch.arange(frames)
            mask = ((age >= 0) & (age < self.sizes.window)).to(codes.device)
            self._made[frames] = (cos, sin, mask)
        return self._made[frames]

    def remember(self, slots: int) -> Memory:
        """Room for what each of `slots` streams has left behind; from now on `next` may be called."""
        self.memory = Memory(slots, like=self.books)
        head_dim, device = self.sizes.transformer.head_dim, self.books.device
        self._frequencies = rope_frequencies(head_dim, ROPE_THETA).to(device)
        self._causal = [
            part for part in self.modules() if isinstance(part, CausalConv | CausalUp | WindowLayer)
        ]
        return self.memory

    def next(self, codes: Tensor, slots: Tensor, position: Tensor) -> Tensor:
        """The frames that follow those decoded so far: (rows,) slots, each with `position` frames behind it.

        Works on the device alone once every part's room has been made, by a first call.
        """
        assert self.memory is not None, "remember() comes first"
        sizes, frames = self.sizes, codes.shape[1]
        at = position.view(-1, 1) + torch.arange(frames, device=codes.device)
        seen = position.view(-1, 1) + torch.arange(1 - sizes.window, frames, device=codes.device)
        age = at.unsqueeze(2) - seen.unsqueeze(1)
        mask = (age >= 0) & (age < sizes.window) & (seen.unsqueeze(1) >= 0)
        angle = at.unsqueeze(2) * self._frequencies
        cos, sin = (part.repeat(1, 1, 2).unsqueeze(1).to(self.books.dtype)
                    for part in (angle.cos(), angle.sin()))  # fmt: skip
        with self.memory.used_by(self._causal, slots):
            return self._decode(codes, cos, sin, mask.unsqueeze(1))

    def forward(self, codes: Tensor) -> Tensor:
        return self._decode(codes, *self._tables(codes))

    def _decode(self, codes: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        found = self.books[
            torch.arange(self.sizes.codebooks, device=codes.device), codes % self.sizes.codebook_size
        ]
        x = self.semantic(found[:, :, 0]) + self.acoustic(found[:, :, 1:].sum(dim=2))
        x = self.enter(self.pre(x.transpose(1, 2)).transpose(1, 2))
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        out: Tensor = self.blocks(self.stretch(self.leave(x).transpose(1, 2)))
        return out.squeeze(1).clamp(-1, 1)
