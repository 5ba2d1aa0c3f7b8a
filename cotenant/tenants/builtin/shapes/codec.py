"""The convolutional decoder that turns frames of codes into samples, after the 12 Hz codec of Qwen3-TTS."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.blocks import DecoderSizes, RmsNorm, SwiGlu, rope_table, rotate


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
    sample_rate_hz: int = 24_000

    @property
    def samples_per_frame(self) -> int:
        return math.prod(self.upsampling) * math.prod(self.rates)


class CausalConv(nn.Module):
    """A 1-D convolution that sees nothing to the right of its output."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.pad = (kernel - 1) * dilation
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(fn.pad(x, (self.pad, 0)))
        return out


class CausalUp(nn.Module):
    """A transposed convolution by `rate` with what would look ahead cut off."""

    def __init__(self, inputs: int, outputs: int, kernel: int, rate: int) -> None:
        super().__init__()
        self.conv, self.cut = nn.ConvTranspose1d(inputs, outputs, kernel, stride=rate), kernel - rate

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return out[..., : out.shape[-1] - self.cut] if self.cut else out


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

    def __init__(self, sizes: DecoderSizes) -> None:
        super().__init__()
        self.heads, self.head_dim = sizes.heads, sizes.head_dim
        self.norm, self.mlp_norm = RmsNorm(sizes.hidden), RmsNorm(sizes.hidden)
        self.qkv = nn.Linear(sizes.hidden, 3 * sizes.heads * sizes.head_dim, bias=False)
        self.out = nn.Linear(sizes.heads * sizes.head_dim, sizes.hidden, bias=False)
        self.mlp = SwiGlu(sizes.hidden, sizes.intermediate)
        self.scale, self.mlp_scale = (nn.Parameter(torch.full((sizes.hidden,), 0.01)) for _ in range(2))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        rows, frames, _ = x.shape
        heads = self.qkv(self.norm(x)).view(rows, frames, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        mixed = fn.scaled_dot_product_attention(
            rotate(heads[0], cos, sin), rotate(heads[1], cos, sin), heads[2], attn_mask=mask
        )
        x = x + self.scale * self.out(mixed.transpose(1, 2).flatten(2))
        out: Tensor = x + self.mlp_scale * self.mlp(self.mlp_norm(x))
        return out


class CodecDecoder(nn.Module):
    """(rows, frames, codebooks) of codes -> (rows, frames * samples_per_frame) samples in -1..1."""

    def __init__(self, sizes: CodecSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self._made: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        latent, hidden, channels = sizes.latent, sizes.transformer.hidden, sizes.decoder_channels
        self.books = nn.Parameter(torch.randn(sizes.codebooks, sizes.codebook_size, sizes.codebook_dim // 2))
        # The first codebook and the others are summed apart, each with its own projection.
        self.semantic, self.acoustic = (
            nn.Linear(sizes.codebook_dim // 2, sizes.codebook_dim) for _ in range(2)
        )
        self.pre = CausalConv(sizes.codebook_dim, latent, 3)
        self.enter, self.leave = nn.Linear(latent, hidden), nn.Linear(hidden, latent)
        self.layers = nn.ModuleList(WindowLayer(sizes.transformer) for _ in range(sizes.transformer.layers))
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

    def _tables(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotations and the window's mask for (rows, frames, hidden); packets are alike, so they are kept."""
        frames = x.shape[1]
        if frames not in self._made:
            cos, sin = (part.to(x) for part in rope_table(frames, self.sizes.transformer.head_dim, 1e4))
            age = torch.arange(frames).view(-1, 1) - torch.arange(frames)
            mask = ((age >= 0) & (age < self.sizes.window)).to(x.device)
            self._made[frames] = (cos, sin, mask)
        return self._made[frames]

    def forward(self, codes: Tensor) -> Tensor:
        found = self.books[
            torch.arange(self.sizes.codebooks, device=codes.device), codes % self.sizes.codebook_size
        ]
        x = self.semantic(found[:, :, 0]) + self.acoustic(found[:, :, 1:].sum(dim=2))
        x = self.enter(self.pre(x.transpose(1, 2)).transpose(1, 2))
        cos, sin, mask = self._tables(x)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        out: Tensor = self.blocks(self.stretch(self.leave(x).transpose(1, 2)))
        return out.squeeze(1).clamp(-1, 1)
