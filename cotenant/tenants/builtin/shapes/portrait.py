"""The picture of a talking head: key points, a 3-D warp of the portrait's features, and a decoder to RGB.

The form is LivePortrait's (arXiv 2407.03168), which Ditto uses: a dense motion network over a feature
volume, then a generator whose layers are normalised by the warped features (SPADE, arXiv 1903.07291).
Weights are random.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as fn
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class PortraitSizes:
    """Sizes of the warp and the decoder; the picture has `grid` * 2^`doublings` pixels a side."""

    key_points: int
    volume_channels: int
    depth: int
    grid: int
    dense_channels: int
    channels: int
    spade_hidden: int
    middle_blocks: int
    doublings: int
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


class DenseMotion(nn.Module):
    """Source and driving key points -> whence each cell of the volume comes: (1, depth, grid, grid, 3)."""

    def __init__(self, sizes: PortraitSizes) -> None:
        super().__init__()
        inputs, wide = 2 * (sizes.key_points + 1), sizes.dense_channels
        self.squeeze = nn.Conv3d(sizes.volume_channels, 1, 1)
        self.down = nn.Conv3d(inputs, wide, 3, padding=1)
        self.deep = nn.Conv3d(wide, 2 * wide, 3, padding=1)
        self.up = nn.Conv3d(2 * wide, wide, 3, padding=1)
        self.mask = nn.Conv3d(wide + inputs, sizes.key_points + 1, 3, padding=1)
        axes = [torch.linspace(-1, 1, size) for size in (sizes.depth, sizes.grid, sizes.grid)]
        z, y, x = torch.meshgrid(*axes, indexing="ij")
        self.cells: Tensor
        self.register_buffer("cells", torch.stack((x, y, z), dim=-1), persistent=False)

    def forward(self, volume: Tensor, source: Tensor, driving: Tensor) -> Tensor:
        count = source.shape[0]

        def heat(points: Tensor) -> Tensor:
            gap = self.cells - points.view(count, 1, 1, 1, 3)
            return torch.exp(-50 * gap.square().sum(dim=-1))

        moved = self.cells + (source - driving).view(count, 1, 1, 1, 3)
        flows = torch.cat((self.cells.unsqueeze(0), moved))
        seen = fn.grid_sample(
            self.squeeze(volume).expand(count + 1, -1, -1, -1, -1), flows, align_corners=False
        ).squeeze(1)
        heats = torch.cat((torch.zeros_like(seen[:1]), heat(driving) - heat(source)))
        x = torch.cat((heats, seen)).unsqueeze(0)
        half = fn.avg_pool3d(fn.relu(self.down(x)), (1, 2, 2))
        deep = fn.interpolate(fn.relu(self.deep(half)), scale_factor=(1.0, 2.0, 2.0))
        weights = torch.softmax(self.mask(torch.cat((fn.relu(self.up(deep)), x), dim=1)), dim=1)
        out: Tensor = (weights.squeeze(0).unsqueeze(-1) * flows).sum(dim=0, keepdim=True)
        return out


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
        flow = self.dense(self.volume, source, driving)
        warped = fn.grid_sample(self.volume, flow, align_corners=False).flatten(1, 2)
        out: Tensor = self.fourth(fn.leaky_relu(self.third(warped), 0.01))
        return out


class Spade(nn.Module):
    """Instance norm whose scale and shift are read from the warped features."""

    def __init__(self, channels: int, label_channels: int, hidden: int) -> None:
        super().__init__()
        self.shared = nn.Conv2d(label_channels, hidden, 3, padding=1)
        self.scale_shift = nn.Conv2d(hidden, 2 * channels, 3, padding=1)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        label = fn.interpolate(label, size=x.shape[-2:])
        scale, shift = self.scale_shift(fn.relu(self.shared(label))).chunk(2, dim=1)
        out: Tensor = fn.instance_norm(x) * (1 + scale) + shift
        return out


class SpadeBlock(nn.Module):
    """Two SPADE-normalised convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, label_channels: int, hidden: int) -> None:
        super().__init__()
        self.first, self.second = (Spade(size, label_channels, hidden) for size in (inputs, outputs))
        self.enter = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.leave = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.short = nn.Conv2d(inputs, outputs, 1, bias=False) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        y = self.enter(fn.leaky_relu(self.first(x, label), 0.2))
        out: Tensor = self.short(x) + self.leave(fn.leaky_relu(self.second(y, label), 0.2))
        return out


class FrameDecoder(nn.Module):
    """(1, channels, grid, grid) of warped features -> (pixels, pixels, 3) RGB bytes on the device."""

    def __init__(self, sizes: PortraitSizes) -> None:
        super().__init__()
        label, hidden, width = sizes.channels, sizes.spade_hidden, sizes.channels
        self.enter = nn.Conv2d(label, width, 3, padding=1)
        self.middle = nn.ModuleList(
            SpadeBlock(width, width, label, hidden) for _ in range(sizes.middle_blocks)
        )
        self.ups = nn.ModuleList()
        for _ in range(sizes.doublings - 1):
            self.ups.append(SpadeBlock(width, width // 2, label, hidden))
            width //= 2
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
