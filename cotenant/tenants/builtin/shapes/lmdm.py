"""Ditto's motion model at its published widths: a FiLM transformer that denoises 80 frames of motion.

The form is EDGE's dance decoder (arXiv 2211.10658), which Ditto's LMDM takes over: the noisy motion beside
the portrait's own, an encoder over the audio's features, two tokens of the diffusion time among its outputs.
Weights are random.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.motion import MotionModel, MotionSizes

_TIME_TOKENS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LmdmSizes(MotionSizes):
    """As `MotionSizes`; `extra` numbers (emotion, eyes ...) stand beside each frame's features."""

    extra: int


class Lmdm(MotionModel):
    """Denoises a window of motion under its audio, as `MotionModel` does, with LMDM's parts."""

    sizes: LmdmSizes

    def __init__(self, sizes: LmdmSizes, feature: int) -> None:
        super().__init__(sizes, feature)
        hidden = sizes.hidden
        self.enter = nn.Linear(2 * sizes.motion, hidden)
        self.portrait = nn.Parameter(torch.randn(sizes.motion))
        self.condition = nn.Linear(feature + sizes.extra, hidden)
        self.time = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.Mish())
        self.time_condition = nn.Linear(4 * hidden, hidden)
        self.time_tokens = nn.Linear(4 * hidden, _TIME_TOKENS * hidden)
        self.pooled = nn.Sequential(
            nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, hidden)
        )
        self.context_norm = nn.LayerNorm(hidden)
        half = hidden // 2
        self.frequencies: Tensor
        self.register_buffer(
            "frequencies", torch.exp(torch.arange(half) * (-math.log(1e4) / (half - 1))), persistent=False
        )

    def conditioned(self, features: Tensor) -> Tensor:
        condition: Tensor = self.condition(fn.pad(features, (0, self.sizes.extra)))
        return condition.unsqueeze(0)

    def denoise(self, noisy: Tensor, condition: Tensor, level: Tensor) -> Tensor:
        rows = len(noisy)
        portrait = self.portrait.expand(rows, noisy.shape[1], -1)
        x = self.enter(torch.cat((noisy, portrait), dim=-1)) + self.position
        tokens = self.encoder(condition + self.position)
        angle = 1000 * level * self.frequencies
        time = self.time(torch.cat((angle.sin(), angle.cos()), dim=-1))
        film = fn.mish(self.time_condition(time) + self.pooled(tokens.mean(dim=1, keepdim=True)))
        context = torch.cat((tokens, self.time_tokens(time).view(rows, _TIME_TOKENS, -1)), dim=1)
        return self.layered(x, self.context_norm(context), film)
