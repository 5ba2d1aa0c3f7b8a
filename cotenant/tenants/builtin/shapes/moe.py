"""A mixture-of-experts feed-forward: a router, and SwiGLU experts as grouped matrix products."""

from dataclasses import dataclass

import torch
import torch.nn.functional as fn
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertSizes:
    """`count` experts of `intermediate` width; each token goes through `active` of them."""

    count: int
    active: int
    intermediate: int


def grouped_product(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """(rows, k) in groups that end at `ends` (experts,) int32, by (experts, n, k) weights -> (rows, n).

    One kernel on CUDA, where the host never learns the groups' lengths; elsewhere a product a group.
    """
    transposed = weights.transpose(1, 2)
    if x.is_cuda:
        grouped = getattr(fn, "grouped_mm", None) or torch._grouped_mm
        out: Tensor = grouped(x, transposed, offs=ends)
        return out
    starts = [0, *ends.tolist()]
    parts = [
        x[start:end] @ weight for start, end, weight in zip(starts, starts[1:], transposed, strict=False)
    ]
    return torch.cat(parts)


def one_launch_experts(device: torch.device) -> bool:
    """Whether all experts' products are one kernel there (Hopper and data-centre Blackwell), or rehearsed."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device) in {(9, 0), (10, 0)}


class Experts(nn.Module):
    """(tokens, hidden) -> (tokens, hidden): the weighted sum of each token's likeliest experts."""

    def __init__(self, hidden: int, sizes: ExpertSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.router = nn.Linear(hidden, sizes.count, bias=False)
        self.gate_up = nn.Parameter(torch.empty(sizes.count, 2 * sizes.intermediate, hidden))
        self.down = nn.Parameter(torch.empty(sizes.count, hidden, sizes.intermediate))
        for weight in (self.gate_up, self.down):
            bound = weight.shape[-1] ** -0.5
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return self.mixed(x, *self.chosen(x))

    def chosen(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each token's experts and their shares, both (tokens, active).

        In half precision scores are often equal, and which of two equal ones is taken depends on the device.
        """
        likeliest, experts = self.router(x).float().topk(self.sizes.active, dim=-1)
        return experts, torch.softmax(likeliest, dim=-1).to(x.dtype)

    def mixed(self, x: Tensor, experts: Tensor, shares: Tensor) -> Tensor:
        """What these experts make of the tokens, in these shares."""
        tokens, active = x.shape[0], self.sizes.active
        order = experts.flatten().argsort()
        counts = torch.zeros(self.sizes.count, dtype=torch.int32, device=x.device)
        counts.scatter_add_(0, experts.flatten(), torch.ones_like(experts.flatten(), dtype=torch.int32))
        ends = counts.cumsum(0, dtype=torch.int32)
        gate, up = grouped_product(x[order // active], self.gate_up, ends).chunk(2, dim=-1)
        done = grouped_product(fn.silu(gate) * up, self.down, ends)
        back = torch.empty_like(done)
        back[order] = done
        return (back.view(tokens, active, -1) * shares.unsqueeze(-1)).sum(dim=1)
