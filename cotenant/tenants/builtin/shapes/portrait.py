"""The picture of a talking head: key points, a 3-D warp of the portrait's features, and a decoder to RGB.

The form is LivePortrait's (arXiv 2407.03168), which Ditto uses: a dense motion network over a feature
volume, then a generator whose layers are normalised by the warped features (SPADE, arXiv 1903.07291).
Weights are random.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.hourglass import Hourglass


@dataclass(frozen=True, slots=True, kw_only=True)
class PortraitSizes:
    """Sizes of the warp and the decoder; the picture has `grid` * 2^`doublings` pixels a side.

    `hourglass_levels` 0 has two levels of convolutions in the dense motion network instead of LivePortrait's
    hourglass, its 7-cell mask and its occlusion map. `widths` are the decoder's: of the middle, then after
    each doubling but the last; empty is `channels`, halved each time. `shortcut_spade` normalises shortcuts.
    """

    key_points: int
    volume_channels: int
    depth: int
    grid: int
    dense_channels: int
    channels: int
    spade_hidden: int
    middle_blocks: int
    doublings: int
    compressed: int = 1
    hourglass_levels: int = 0
    hourglass_most: int = 1024
    widths: tuple[int, ...] = ()
    shortcut_spade: bool = False
    jpeg_quality: int = 80

    @property
    def pixels(self) -> int:
        """Pixels along one side of the picture."""
        return self.grid << self.doublings


class Stitcher(nn.Module):
    """(motion,) numbers -> (key_points, 3) driving key points near the source's."""

    def __init__(self, motion: int, key_points: int) -> None:
        super().__init__()
        self.source = nn.Parameter(torch.rand(key_points, 3) * 1.6 - 0.8)
        self.net = nn.Sequential(
            nn.Linear(motion, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 3 * key_points)
        )

    def forward(self, motion: Tensor) -> Tensor:
        return self.source + 0.1 * torch.tanh(self.net(motion)).view(-1, 3)


def sampled(volume: Tensor, flow: Tensor) -> Tensor:
    """`volume` at the places that `flow` names, in 32-bit floats whatever the rest is in."""
    return fn.grid_sample(volume.float(), flow.float(), align_corners=False).to(volume.dtype)


class SmallMotionNet(nn.Module):
    """(1, inputs, depth, grid, grid) -> features as large: two levels of convolutions."""

    def __init__(self, inputs: int, wide: int) -> None:
        super().__init__()
        self.down = nn.Conv3d(inputs, wide, 3, padding=1)
        self.deep = nn.Conv3d(wide, 2 * wide, 3, padding=1)
        self.up = nn.Conv3d(2 * wide, wide, 3, padding=1)
        self.outputs = wide + inputs

    def forward(self, x: Tensor) -> Tensor:
        half = fn.avg_pool3d(fn.relu(self.down(x)), (1, 2, 2))
        deep = fn.interpolate(fn.relu(self.deep(half)), scale_factor=(1.0, 2.0, 2.0))
        return torch.cat((fn.relu(self.up(deep)), x), dim=1)


class DenseMotion(nn.Module):
    """Source and driving key points -> whence each cell of the volume comes: (1, depth, grid, grid, 3).

    With an hourglass there is also how much of each column is seen: (1, 1, grid, grid).
    """

    def __init__(self, sizes: PortraitSizes) -> None:
        super().__init__()
        inputs, levels = (1 + sizes.compressed) * (sizes.key_points + 1), sizes.hourglass_levels
        self.squeeze = nn.Conv3d(sizes.volume_channels, sizes.compressed, 1)
        self.net = (
            Hourglass(inputs, sizes.dense_channels, sizes.hourglass_most, levels)
            if levels
            else SmallMotionNet(inputs, sizes.dense_channels)
        )
        mask = 7 if levels else 3
        self.mask = nn.Conv3d(self.net.outputs, sizes.key_points + 1, mask, padding=mask // 2)
        self.seen = nn.Conv2d(self.net.outputs * sizes.depth, 1, 7, padding=3) if levels else None
        axes = [torch.linspace(-1, 1, size) for size in (sizes.depth, sizes.grid, sizes.grid)]
        z, y, x = torch.meshgrid(*axes, indexing="ij")
        self.cells: Tensor
        self.register_buffer("cells", torch.stack((x, y, z), dim=-1), persistent=False)

    def forward(self, volume: Tensor, source: Tensor, driving: Tensor) -> tuple[Tensor, Tensor | None]:
        count = source.shape[0]

        def heat(points: Tensor) -> Tensor:
            gap = self.cells - points.view(count, 1, 1, 1, 3)
            return torch.exp(-50 * gap.square().sum(dim=-1))

        moved = self.cells + (source - driving).view(count, 1, 1, 1, 3)
        flows = torch.cat((self.cells.unsqueeze(0), moved))
        squeezed = self.squeeze(volume).expand(count + 1, -1, -1, -1, -1)
        shifted = sampled(squeezed, flows)
        heats = torch.cat((torch.zeros_like(shifted[:1, 0]), heat(driving) - heat(source)))
        x = torch.cat((heats, shifted.flatten(0, 1))).unsqueeze(0)
        found = self.net(x)
        weights = torch.softmax(self.mask(found), dim=1)
        flow = (weights.squeeze(0).unsqueeze(-1) * flows).sum(dim=0, keepdim=True)
        return flow, torch.sigmoid(self.seen(found.flatten(1, 2))) if self.seen else None


class Warp(nn.Module):
    """The portrait's volume moved to the driving key points: (1, channels, grid, grid)."""

    def __init__(self, sizes: PortraitSizes) -> None:
        super().__init__()
        self.dense = DenseMotion(sizes)
        self.volume = nn.Parameter(
            torch.randn(1, sizes.volume_channels, sizes.depth, sizes.grid, sizes.grid), requires_grad=False
        )
        self.third = nn.Conv2d(sizes.volume_channels * sizes.depth, sizes.channels, 3, padding=1)
        self.fourth = nn.Conv2d(sizes.channels, sizes.channels, 1)

    def forward(self, source: Tensor, driving: Tensor) -> Tensor:
        flow, seen = self.dense(self.volume, source, driving)
        warped = sampled(self.volume, flow).flatten(1, 2)
        out: Tensor = self.fourth(fn.leaky_relu(self.third(warped), 0.01))
        return out if seen is None else out * seen


def instance_norm(x: Tensor) -> Tensor:
    """Each picture's channels to mean 0, variance 1. On CUDA in the memory order it has."""
    if not x.is_cuda:
        return fn.instance_norm(x)
    variance, mean = torch.var_mean(x, dim=(2, 3), correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + 1e-5)


class Spade(nn.Module):
    """Instance norm whose scale and shift are read from the warped features."""

    def __init__(self, channels: int, label_channels: int, hidden: int) -> None:
        super().__init__()
        self.shared = nn.Conv2d(label_channels, hidden, 3, padding=1)
        self.scale_shift = nn.Conv2d(hidden, 2 * channels, 3, padding=1)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        label = fn.interpolate(label, size=x.shape[-2:])
        scale, shift = self.scale_shift(fn.relu(self.shared(label))).chunk(2, dim=1)
        out: Tensor = instance_norm(x) * (1 + scale) + shift
        return out


class SpadeBlock(nn.Module):
    """Two SPADE-normalised convolutions and a shortcut."""

    def __init__(
        self, inputs: int, outputs: int, label_channels: int, hidden: int, shortcut_spade: bool
    ) -> None:
        super().__init__()
        self.first, self.second = (Spade(size, label_channels, hidden) for size in (inputs, outputs))
        self.enter = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.leave = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.short = nn.Conv2d(inputs, outputs, 1, bias=False) if inputs != outputs else nn.Identity()
        self.third = Spade(inputs, label_channels, hidden) if shortcut_spade and inputs != outputs else None

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        y = self.enter(fn.leaky_relu(self.first(x, label), 0.2))
        x = self.third(x, label) if self.third else x
        out: Tensor = self.short(x) + self.leave(fn.leaky_relu(self.second(y, label), 0.2))
        return out


class FrameDecoder(nn.Module):
    """(1, channels, grid, grid) of warped features -> (pixels, pixels, 3) RGB bytes on the device."""

    def __init__(self, sizes: PortraitSizes) -> None:
        super().__init__()
        label, hidden = sizes.channels, sizes.spade_hidden
        widths = sizes.widths or tuple(sizes.channels >> number for number in range(sizes.doublings))
        width, spade = widths[0], sizes.shortcut_spade
        self.enter = nn.Conv2d(label, width, 3, padding=1)
        self.middle = nn.ModuleList(
            SpadeBlock(width, width, label, hidden, spade) for _ in range(sizes.middle_blocks)
        )
        self.ups = nn.ModuleList()
        for narrower in widths[1:]:
            self.ups.append(SpadeBlock(width, narrower, label, hidden, spade))
            width = narrower
        # The last doubling is a pixel shuffle: four sub-pixels of three colours a cell.
        self.leave = nn.Conv2d(width, 3 * 4, 3, padding=1)

    def forward(self, label: Tensor) -> Tensor:
        x = self.enter(label)
        for block in self.middle:
            x = block(x, label)
        for block in self.ups:
            x = block(fn.interpolate(x, scale_factor=2.0), label)
        rgb = torch.sigmoid(fn.pixel_shuffle(self.leave(fn.leaky_relu(x, 0.2)), 2))[0]
        return (rgb * 255).to(torch.uint8).permute(1, 2, 0).contiguous()
