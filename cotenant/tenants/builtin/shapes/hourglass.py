"""The 3-D hourglass network of LivePortrait's dense motion, at its published widths."""

from itertools import pairwise

import torch
import torch.nn.functional as fn
from torch import Tensor, nn


def halved(x: Tensor) -> Tensor:
    """Means of 2 by 2 cells of each plane of (1, channels, depth, height, width)."""
    small = fn.avg_pool2d(x.flatten(1, 2), 2)
    return small.view(*x.shape[:3], *small.shape[-2:])


class Hourglass(nn.Module):
    """(1, inputs, depth, grid, grid) -> (1, inputs + width, depth, grid, grid).

    `levels` convolutions, each halving the plane (never the depth), then as many that double it, each
    seeing what the way down had there, and one over all at full size. The published network has a batch
    norm after each convolution; engines fold those into the weights, so there is none here.
    """

    def __init__(self, inputs: int, width: int, most: int, levels: int) -> None:
        super().__init__()
        widths = [min(most, width << level) for level in range(levels + 1)]
        down = [inputs, *widths[1:]]
        self.down = nn.ModuleList(nn.Conv3d(narrow, wide, 3, padding=1) for narrow, wide in pairwise(down))
        self.up = nn.ModuleList(
            nn.Conv3d((1 if level == levels - 1 else 2) * widths[level + 1], widths[level], 3, padding=1)
            for level in reversed(range(levels))
        )
        self.outputs = inputs + width
        self.leave = nn.Conv3d(self.outputs, self.outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        seen = [x]
        for part in self.down:
            seen.append(halved(fn.relu(part(seen[-1]))))
        x = seen.pop()
        for part in self.up:
            x = fn.relu(part(fn.interpolate(x, scale_factor=(1.0, 2.0, 2.0))))
            x = torch.cat((x, seen.pop()), dim=1)
        out: Tensor = fn.relu(self.leave(x))
        return out
