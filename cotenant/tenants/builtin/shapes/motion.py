"""The motion model of a talking head, for any sizes: a transformer that denoises a window of motion.

Weights are random. What LMDM, Ditto's own, has besides is in `lmdm`. Products that several layers ask of one
input stand in one matrix, and elementwise work is joined where torch has a call for it, as an engine built
for inference does both; operations and parameters are those of the separate layers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.graphs import Recorder

_PIECE_STEPS = 5  # at most: what is begun at once, so that pictures come between


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

    @property
    def pieces(self) -> int:
        """Into how many runs of equally many steps a clip's motion is cut."""
        return self.steps // max(size for size in range(1, _PIECE_STEPS + 1) if self.steps % size == 0)


def attention(q: Tensor, keys: Tensor, values: Tensor, heads: int) -> Tensor:
    """(n, rows, hidden) over (n, seen, hidden), all to all in each head."""

    def split(part: Tensor) -> Tensor:
        return part.view(*part.shape[:2], heads, -1).transpose(1, 2)

    return fn.scaled_dot_product_attention(split(q), split(keys), split(values)).transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Attention of all to all in one sequence."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        q, keys, values = self.qkv(x).chunk(3, dim=-1)
        out: Tensor = self.out(attention(q, keys, values, self.heads))
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
    """A denoiser's layer: attention to itself and to the audio, feed-forward; each is scaled by the time.

    `kv` are the audio's keys and values, `scales` (one and the factor's rest) and `shifts` three each; the
    linear layers that these come from stand in the model, for all its layers in one.
    """

    def __init__(self, sizes: MotionSizes) -> None:
        super().__init__()
        hidden = sizes.hidden
        self.heads = sizes.heads
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(3))
        self.own = SelfAttention(hidden, sizes.heads)
        self.q, self.out = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.mlp = nn.Sequential(
            nn.Linear(hidden, sizes.intermediate), nn.GELU(), nn.Linear(sizes.intermediate, hidden)
        )  # fmt: skip

    def forward(
        self, x: Tensor, kv: tuple[Tensor, ...], scales: tuple[Tensor, ...], shifts: tuple[Tensor, ...]
    ) -> Tensor:
        x = torch.addcmul(x + shifts[0], self.own(self.norms[0](x)), scales[0])
        crossed = self.out(attention(self.q(self.norms[1](x)), kv[0], kv[1], self.heads))
        x = torch.addcmul(x + shifts[1], crossed, scales[1])
        return torch.addcmul(x + shifts[2], self.mlp(self.norms[2](x)), scales[2])


class MotionModel(nn.Module):
    """Denoises a window of motion under its audio; what was already shown stays fixed."""

    def __init__(self, sizes: MotionSizes, feature: int) -> None:
        super().__init__()
        self.sizes = sizes
        hidden, layers = sizes.hidden, sizes.decoder_layers
        self.recorded: Recorded | None = None
        self.enter, self.leave = nn.Linear(sizes.motion, hidden), nn.Linear(hidden, sizes.motion)
        self.condition = nn.Linear(feature, hidden)
        self.no_condition = nn.Parameter(torch.randn(1, sizes.window, hidden))
        self.position = nn.Parameter(torch.randn(1, sizes.window, hidden) * 0.02)
        self.time = nn.Sequential(nn.Linear(1, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.encoder = nn.Sequential(
            *(EncoderLayer(hidden, sizes.heads, sizes.intermediate) for _ in range(sizes.encoder_layers))
        )
        self.layers = nn.ModuleList(FilmLayer(sizes) for _ in range(layers))
        self.films = nn.Linear(hidden, layers * 3 * 2 * hidden)
        self.context_kv = nn.Linear(hidden, layers * 2 * hidden)

    def denoise(self, noisy: Tensor, condition: Tensor, level: Tensor) -> Tensor:
        """One forward a row: the clean motion that this model sees in (rows, window, motion) of noise.

        `level` (rows, 1, 1) is the share of noise.
        """
        context = self.encoder(condition + self.position)
        return self.layered(self.enter(noisy) + self.position, context, self.time(level))

    def layered(self, x: Tensor, context: Tensor, time: Tensor) -> Tensor:
        """The denoiser's layers and its way out, under (rows, seen, hidden) and (rows, 1, hidden)."""
        scales, shifts = self.films(time).chunk(2, dim=-1)
        count = len(self.layers)
        scales, shifts = (part.chunk(3 * count, dim=-1) for part in (scales + 1, shifts))
        kv = self.context_kv(context).chunk(2 * count, dim=-1)
        for number, layer in enumerate(self.layers):
            own = slice(3 * number, 3 * number + 3)
            x = layer(x, kv[2 * number : 2 * number + 2], scales[own], shifts[own])
        out: Tensor = self.leave(x)
        return out

    def conditioned(self, features: Tensor) -> Tensor:
        """(window, feature) of audio -> (1, window, hidden), what each forward is conditioned on."""
        condition: Tensor = self.condition(features)
        return condition.unsqueeze(0)

    def step(self, run: "Run") -> None:
        """One step of `run`, in place: two forwards, with the audio and without, and the way between.

        The two are rows of one batch: operations and order of steps are those of one after the other.
        """
        kept = run.shown.shape[0]
        level, shrink = run.schedule.index_select(0, run.at).unbind(1)
        run.x[:, :kept] = torch.lerp(run.shown, run.x[0, :kept], level)
        rows = self.denoise(run.x.expand(2, -1, -1), run.condition, level.expand(2).view(2, 1, 1))
        clean = torch.lerp(rows[1], rows[0], self.sizes.guidance).tanh()
        run.x.copy_(torch.lerp(clean, run.x, shrink))
        run.at.add_(1)

    def piece(self, run: "Run") -> None:
        """The next steps of `run`, as many as one of `pieces` has."""
        for _ in range(self.sizes.steps // self.sizes.pieces):
            self.step(run)

    def record(self, recorder: Recorder, new: int) -> None:
        """Has every later clip, which must have `new` frames, replay one recorded piece."""
        run = self._new_run(self.sizes.window - new)
        # The recording calls the piece some times; a call beyond the schedule's end would read beyond it.
        spare = run.schedule[-1:].expand(8 * self.sizes.steps, -1)
        run.schedule = torch.cat((run.schedule, spare))
        self.recorded = Recorded(run=run, piece=recorder.record(lambda: self.piece(run)))

    def _new_run(self, kept: int) -> "Run":
        sizes, like = self.sizes, self.no_condition
        # DDIM without noise: level n / steps before step n, (n - 1) / n of what is left after it.
        numbers = torch.arange(sizes.steps, 0, -1, dtype=like.dtype, device=like.device)
        return Run(
            x=like.new_zeros(1, sizes.window, sizes.motion),
            shown=like.new_zeros(kept, sizes.motion),
            condition=like.new_zeros(2, *like.shape[1:]),
            schedule=torch.stack((numbers / sizes.steps, (numbers - 1) / numbers), dim=1),
            at=torch.zeros(1, dtype=torch.int64, device=like.device),
        )

    def begin(self, features: Tensor, shown: Tensor) -> "tuple[Run, Callable[[], None]]":
        """A clip's run, and what makes its next piece; `pieces` calls are to follow, then `moved`.

        (window, feature) of audio and (window - new, motion) already shown. Recorded, there is one run for
        all: a clip ends before the next begins.
        """
        run, call = (self.recorded.run, self.recorded.piece) if self.recorded else (None, None)
        run = run or self._new_run(shown.shape[0])
        run.x.normal_()
        run.shown.copy_(shown)
        run.condition[:1].copy_(self.conditioned(features.to(run.x.dtype)))
        run.condition[1:].copy_(self.no_condition)
        run.at.zero_()
        begun = run
        return begun, call or (lambda: self.piece(begun))

    def moved(self, run: "Run") -> Tensor:
        """The motion of a run whose pieces are made: (new, motion), 32-bit floats."""
        return run.x[0, run.shown.shape[0] :].to(torch.float32, copy=True)

    def forward(self, features: Tensor, shown: Tensor) -> Tensor:
        """(window, feature) of audio and (window - new, motion) already shown -> (new, motion).

        DDIM without noise (Song et al., arXiv 2010.02502) from pure noise; each step asks twice, with the
        audio and without, and goes on from without + guidance * (with - without).
        """
        run, piece = self.begin(features, shown)
        for _ in range(self.sizes.pieces):
            piece()
        return self.moved(run)


@dataclass(slots=True, kw_only=True)
class Run:
    """What the steps of one clip work on: `x` (1, window, motion) is denoised in place.

    `condition` has two rows, with the audio and without. Row `at` of `schedule` (steps, 2) is of the next
    step: the share of noise before it, and the ratio after to before.
    """

    x: Tensor
    shown: Tensor
    condition: Tensor
    schedule: Tensor
    at: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run whose piece was recorded."""

    run: Run
    piece: Callable[[], None]
