"""The motion model of a talking head, for any sizes: a transformer that denoises a window of motion.

Weights are random. What LMDM, Ditto's own, has besides is in `lmdm`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.graphs import Recorder


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
        self.recorded: Recorded | None = None
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

    def conditioned(self, features: Tensor) -> Tensor:
        """(window, feature) of audio -> (1, window, hidden), what each forward is conditioned on."""
        condition: Tensor = self.condition(features)
        return condition.unsqueeze(0)

    def step(self, run: "Run") -> None:
        """One step of `run`, in place: two forwards, with the audio and without, and the way between."""
        kept = run.shown.shape[0]
        run.x[:, :kept] = run.shown * (1 - run.level[0]) + run.x[:, :kept] * run.level[0]
        with_audio = self.denoise(run.x, run.condition, run.level)
        without = self.denoise(run.x, self.no_condition, run.level)
        clean = (without + self.sizes.guidance * (with_audio - without)).tanh()
        run.x.copy_(clean + (run.x - clean) * run.shrink)

    def record(self, recorder: Recorder, new: int) -> None:
        """Has every later call, which must ask for `new` frames, replay one recorded step."""
        window, motion = self.sizes.window, self.sizes.motion
        like = self.no_condition
        run = Run(
            x=like.new_zeros(1, window, motion),
            shown=like.new_zeros(window - new, motion),
            condition=torch.zeros_like(like),
            level=like.new_ones(1, 1, 1),
            shrink=like.new_ones(1, 1, 1),
        )
        self.recorded = Recorded(run=run, step=recorder.record(lambda: self.step(run)))

    def forward(self, features: Tensor, shown: Tensor) -> Tensor:
        """(window, feature) of audio and (window - new, motion) already shown -> (new, motion).

        DDIM without noise (Song et al., arXiv 2010.02502) from pure noise; each step asks twice, with the
        audio and without, and goes on from without + guidance * (with - without).
        """
        condition = self.conditioned(features)
        x = torch.randn(1, self.sizes.window, self.sizes.motion, device=features.device).to(features)
        if self.recorded is None:
            level, shrink = (x.new_empty(1, 1, 1) for _ in range(2))
            run = Run(x=x, shown=shown, condition=condition, level=level, shrink=shrink)
            self._walk(run, lambda: self.step(run))
            return run.x[0, shown.shape[0] :]
        run = self.recorded.run
        run.x.copy_(x)
        run.shown.copy_(shown)
        run.condition.copy_(condition)
        self._walk(run, self.recorded.step)
        return run.x[0, shown.shape[0] :].clone()

    def _walk(self, run: "Run", step: Callable[[], None]) -> None:
        steps = self.sizes.steps
        for number in range(steps, 0, -1):
            run.level.fill_(number / steps)
            run.shrink.fill_((number - 1) / number)
            step()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the steps of one clip work on: `x` (1, window, motion) is denoised in place.

    `level` is the share of noise before the step, `shrink` its ratio after to before.
    """

    x: Tensor
    shown: Tensor
    condition: Tensor
    level: Tensor
    shrink: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run whose step was recorded."""

    run: Run
    step: Callable[[], None]
