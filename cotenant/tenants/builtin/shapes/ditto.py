"""The audio encoder of a Ditto-like talking head and all its sizes (see `motion`, `lmdm`, `portrait`).

Ditto runs a streaming audio encoder for each 200 ms, then a diffusion transformer some steps (two forwards
each, for classifier-free guidance) for each clip of motion, then warps and decodes each frame. Weights are
random.
"""

from dataclasses import dataclass

import torch.nn.functional as fn
from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.motion import EncoderLayer, MotionSizes
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
    """Sizes of the audio encoder (HuBERT's form: convolutions to 50 steps a second, then a transformer).

    `position_kernel` steps, in 16 groups, are convolved into a position's embedding; 0 for none.
    """

    channels: int
    hidden: int
    layers: int
    heads: int
    intermediate: int
    feature: int
    position_kernel: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSizes:
    """A whole talking head.

    A clip of motion covers `clip_chunks` runs of the audio encoder (200 ms each). `host_hops` has what goes
    from one part to the next pass through the host, as Ditto's queues between its threads do.
    `clip_overhead_ns` is fitted to what is published of a clip's motion; 0 says that nothing was.
    """

    audio: AudioSizes
    motion: MotionSizes
    portrait: PortraitSizes
    clip_chunks: int = 1
    host_hops: bool = False
    clip_overhead_ns: int = 0
    cpu_threads: int = 1


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
        kernel = sizes.position_kernel
        self.position = (
            nn.Conv1d(sizes.hidden, sizes.hidden, kernel, padding=kernel // 2, groups=16) if kernel else None
        )

    def forward(self, samples: Tensor) -> Tensor:
        x = self.project(self.convolutions(samples.unsqueeze(1)).transpose(1, 2))
        if self.position is not None:
            placed = self.position(x.transpose(1, 2))[..., : x.shape[1]]
            x = x + fn.gelu(placed).transpose(1, 2)
        steps = self.layers(x)[0]
        pairs = self.out(steps).unflatten(0, (steps.shape[0] // 2, 2)).mean(dim=1)
        past = PAST_SAMPLES * FEATURES_PER_CHUNK // CHUNK_SAMPLES
        out: Tensor = pairs[past : past + FEATURES_PER_CHUNK]
        return out
