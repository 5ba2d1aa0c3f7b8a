"""The audio and motion models of a Ditto-like talking head, for any sizes (the picture's are in `portrait`).

Ditto runs a streaming audio encoder for each 200 ms, then a diffusion transformer some steps (two forwards
each, for classifier-free guidance) for each clip of motion, then warps and decodes each frame. Weights are
random.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.portrait import PortraitSizes

SAMPLE_RATE_HZ = 16_000
CHUNK_SAMPLES = 3_200  # 200 ms: what one run of the audio encoder adds
PAST_SAMPLES = 1_920  # 3 features of 40 ms before it
AHEAD_SAMPLES = 1_360  # 2 features after it, and 80 samples for the encoder's first convolution
WINDOW_SAMPLES = PAST_SAMPLES + CHUNK_SAMPLES + AHEAD_SAMPLES  # 6,480: 405 ms
FEATURES_PER_CHUNK = 5
_CONVOLUTIONS = (
    (10, 5),
    (3, 2),
    (3, 2),
    (3, 2),
    (3, 2),
    (2, 2),
    (2, 2),
)  # kernel, stride: 320 samples a step


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioSizes:
    """Sizes of the audio encoder (HuBERT's form: convolutions to 50 steps a second, then a transformer)."""

    channels: int
    hidden: int
    layers: int
    heads: int
    intermediate: int
    feature: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionSizes:
    """Sizes of the motion model: `window` frames of `motion` numbers are denoised in `steps` steps."""

    motion: int
    window: int
    hidden: int
    heads: int
    intermediate: int
    encoder_layers: int
    decoder_layers: int
    steps: int
    guidance: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSizes:
    """A whole talking head."""

    audio: AudioSizes
    motion: MotionSizes
    portrait: PortraitSizes
    cpu_threads: int = 1


class SelfAttention(nn.Module):
    """Attention of all to all in one sequence; with `context` given, of one sequence to another."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.out = (
            nn.Linear(hidden, hidden),
            nn.Linear(hidden, 2 * hidden),
            nn.Linear(hidden, hidden),
        )

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        def split(part: Tensor) -> Tensor:
            return part.view(*part.shape[:2], self.heads, -1).transpose(1, 2)

        keys, values = self.kv(x if context is None else context).chunk(2, dim=-1)
        mixed = fn.scaled_dot_product_attention(split(self.q(x)), split(keys), split(values))
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


class EncoderLayer(nn.Module):
    """Pre-norm self-attention and feed-forward."""

    def __init__(self, hidden: int, heads: int, intermediate: int) -> None:
        super().__init__()
        self.norm, self.mlp_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention = SelfAttention(hidden, heads)
        self.mlp = nn.Sequential(nn.Linear(hidden, intermediate), nn.GELU(), nn.Linear(intermediate, hidden))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x))
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out


class AudioEncoder(nn.Module):
    """(1, WINDOW_SAMPLES) samples in -1..1 -> (FEATURES_PER_CHUNK, feature): one feature each 40 ms."""

    def __init__(self, sizes: AudioSizes) -> None:
        super().__init__()
        convolutions: list[nn.Module] = []
        inputs = 1
        for kernel, stride in _CONVOLUTIONS:
            convolutions += [nn.Conv1d(inputs, sizes.channels, kernel, stride=stride, bias=False), nn.GELU()]
            inputs = sizes.channels
        self.convolutions = nn.Sequential(*convolutions)
        self.project = nn.Linear(sizes.channels, sizes.hidden)
        self.layers = nn.Sequential(
            *(EncoderLayer(sizes.hidden, sizes.heads, sizes.intermediate) for _ in range(sizes.layers))
        )
        self.out = nn.Linear(sizes.hidden, sizes.feature)

    def forward(self, samples: Tensor) -> Tensor:
        steps = self.layers(self.project(self.convolutions(samples.unsqueeze(1)).transpose(1, 2)))[0]
        pairs = self.out(steps).unflatten(0, (steps.shape[0] // 2, 2)).mean(dim=1)
        past = PAST_SAMPLES * FEATURES_PER_CHUNK // CHUNK_SAMPLES
        out: Tensor = pairs[past : past + FEATURES_PER_CHUNK]
        return out


class FilmLayer(nn.Module):
    """A denoiser's layer: attention to itself and to the audio, feed-forward; each is scaled by the time."""

    def __init__(self, sizes: MotionSizes) -> None:
        super().__init__()
        hidden = sizes.hidden
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(3))
        self.films = nn.ModuleList(nn.Linear(hidden, 2 * hidden) for _ in range(3))
        self.own, self.cross = SelfAttention(hidden, sizes.heads), SelfAttention(hidden, sizes.heads)
        self.mlp = nn.Sequential(
            nn.Linear(hidden, sizes.intermediate), nn.GELU(), nn.Linear(sizes.intermediate, hidden)
        )  # fmt: skip

    def forward(self, x: Tensor, context: Tensor, time: Tensor) -> Tensor:
        scale, shift = self.films[0](time).chunk(2, dim=-1)
        x = x + self.own(self.norms[0](x)) * (1 + scale) + shift
        scale, shift = self.films[1](time).chunk(2, dim=-1)
        x = x + self.cross(self.norms[1](x), context) * (1 + scale) + shift
        scale, shift = self.films[2](time).chunk(2, dim=-1)
        out: Tensor = x + self.mlp(self.norms[2](x)) * (1 + scale) + shift
        return out


class MotionModel(nn.Module):
    """Denoises a window of motion under its audio; what was already shown stays fixed."""

    def __init__(self, sizes: MotionSizes, feature: int) -> None:
        super().__init__()
        self.sizes = sizes
        hidden = sizes.hidden
        self.enter, self.leave = nn.Linear(sizes.motion, hidden), nn.Linear(hidden, sizes.motion)
        self.condition = nn.Linear(feature, hidden)
        self.no_condition = nn.Parameter(torch.randn(1, sizes.window, hidden))
        self.position = nn.Parameter(torch.randn(1, sizes.window, hidden) * 0.02)
        self.time = nn.Sequential(nn.Linear(1, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.encoder = nn.Sequential(
            *(EncoderLayer(hidden, sizes.heads, sizes.intermediate) for _ in range(sizes.encoder_layers))
        )
        self.layers = nn.ModuleList(FilmLayer(sizes) for _ in range(sizes.decoder_layers))

    def denoise(self, noisy: Tensor, condition: Tensor, level: Tensor) -> Tensor:
        """One forward: the clean motion that this model sees in (1, window, motion) of noise at `level`."""
        context = self.encoder(condition + self.position)
        x = self.enter(noisy) + self.position
        time = self.time(level)
        for layer in self.layers:
            x = layer(x, context, time)
        out: Tensor = self.leave(x)
        return out

    def forward(self, features: Tensor, shown: Tensor) -> Tensor:
        """(window, feature) of audio and (window - new, motion) already shown -> (new, motion).

        DDIM without noise (Song et al., arXiv 2010.02502) from pure noise; each step asks twice, with the
        audio and without, and goes on from without + guidance * (with - without).
        """
        steps, kept = self.sizes.steps, shown.shape[0]
        condition = self.condition(features).unsqueeze(0)
        x = torch.randn(1, self.sizes.window, self.sizes.motion, device=features.device).to(features)
        for step in range(steps, 0, -1):
            noise_now, noise_next = step / steps, (step - 1) / steps
            x[:, :kept] = shown * (1 - noise_now) + x[:, :kept] * noise_now
            level = torch.full((1, 1, 1), noise_now, device=x.device, dtype=x.dtype)
            with_audio = self.denoise(x, condition, level)
            without = self.denoise(x, self.no_condition, level)
            clean = without + self.sizes.guidance * (with_audio - without)
            x = clean.tanh() + (x - clean.tanh()) * (noise_next / noise_now)
        return x[0, kept:]
