"""The growing key-value cache of several sequences, and the plan of which rows of a step belong to which."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """`count` neighbouring slots that each get `width` new tokens in this step: rows `row` and on.

    `starts` are the slots' lengths before the step, `kv_len` the longest after it. `mask` is (count, width,
    kv_len), 0 or -inf, or None when every row may see all of it, or when `causal` says that row i sees all
    but the last width - 1 - i. `index` holds slots and positions where the starts differ.
    """

    row: int
    slot: int
    count: int
    width: int
    starts: tuple[int, ...]
    kv_len: int
    mask: Tensor | None
    index: tuple[Tensor, Tensor] | None
    causal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One step's rows: `positions` (rows,) and the spans that they form."""

    positions: Tensor
    spans: tuple[Span, ...]


def _zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Zeros; on a CPU in pages that cost no memory until written (`torch.zeros` writes them all)."""
    if like.device.type == "cpu" and like.dtype == torch.float32:
        return torch.from_numpy(np.zeros(shape, dtype=np.float32))
    return torch.zeros(shape, dtype=like.dtype, device=like.device)


class KvCache:
    """Keys and values by slot. A slot's pages are first touched when its sequence grows into them.

    `causal_from`: spans of this many new tokens carry no mask (it would be larger than the keys); None for
    never. `join_within`: sequences whose lengths differ by more attend in calls of their own, so that a
    short one is not padded to a long one's length; None joins all.
    """

    causal_from: int | None = None
    join_within: int | None = None

    def __init__(
        self, layers: int, slots: int, kv_heads: int, capacity: int, head_dim: int, *, like: Tensor
    ) -> None:
        shape = (slots, kv_heads, capacity, head_dim)
        self.keys = [_zeros(shape, like) for _ in range(layers)]
        self.values = [_zeros(shape, like) for _ in range(layers)]
        self.capacity = capacity
        self.lengths = [0] * slots
        self._free = list(range(slots))
        if like.is_cuda:
            self.causal_from = 64

    @property
    def free_slots(self) -> int:
        """Slots that no sequence holds."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of the cache's positions that hold a token."""
        return sum(self.lengths) / (len(self.lengths) * self.capacity)

    def acquire(self) -> int:
        """The lowest free slot, so that sequences stay neighbours and attend in one call."""
        slot = min(self._free)
        self._free.remove(slot)
        return slot

    def fits(self, tokens: int) -> bool:
        """Whether a sequence that may grow to this length can begin: a slot holds a whole capacity."""
        return self.free_slots > 0 and tokens <= self.capacity

    def acquire_for(self, tokens: int) -> int:
        """A slot for a sequence that may grow to this length."""
        return self.acquire()

    def release(self, slot: int) -> None:
        """Gives a slot back; what it held is forgotten."""
        self.lengths[slot] = 0
        self._free.append(slot)

    def plan(self, entries: Sequence[tuple[int, int]]) -> Plan:
        """Plans a step of (slot, new tokens) entries; rows follow the order of the entries.

        Neighbouring slots are joined where one attention call serves them: one token each, or equal starts.
        Raises ValueError if a sequence would outgrow the cache.
        """
        device = self.keys[0].device
        positions: list[int] = []
        spans: list[Span] = []
        run: list[tuple[int, int]] = []
        row = 0
        for slot, width in entries:
            if self.lengths[slot] + width > self.capacity:
                raise ValueError(f"slot {slot} would hold more than {self.capacity} tokens")
            positions.extend(range(self.lengths[slot], self.lengths[slot] + width))
            if run and not self._joins(run, slot, width):
                spans.append(self._span(row, run))
                row += len(run) * run[0][1]
                run = []
            run.append((slot, width))
        spans.append(self._span(row, run))
        return Plan(positions=torch.tensor(positions, device=device), spans=tuple(spans))

    def _joins(self, run: list[tuple[int, int]], slot: int, width: int) -> bool:
        last, last_width = run[-1]
        gap = abs(self.lengths[slot] - self.lengths[run[0][0]])
        if width > 1 and self.lengths[slot] != self.lengths[last]:
            return False
        near = self.join_within is None or gap <= self.join_within
        return slot == last + 1 and width == last_width and near

    def _span(self, row: int, run: list[tuple[int, int]]) -> Span:
        width = run[0][1]
        starts = tuple(self.lengths[slot] for slot, _ in run)
        kv_len = max(starts) + width
        ragged = len(set(starts)) > 1
        like = self.keys[0]
        mask = index = None
        causal = width > 1 and self.causal_from is not None and width >= self.causal_from
        if (ragged or width > 1) and not causal:
            first = torch.tensor(starts, device=like.device).view(-1, 1, 1)
            last_seen = first + torch.arange(width, device=like.device).view(1, -1, 1)
            hidden = torch.arange(kv_len, device=like.device).view(1, 1, -1) > last_seen
            mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
            mask.masked_fill_(hidden, float("-inf"))
        if ragged:
            slots = torch.tensor([slot for slot, _ in run], device=like.device)
            index = (slots, torch.tensor(starts, device=like.device))
        return Span(
            row=row,
            slot=run[0][0],
            count=len(run),
            width=width,
            starts=starts,
            kv_len=kv_len,
            mask=mask,
            index=index,
            causal=causal,
        )

    def fixed_plan(self, positions: Tensor, kv_len: int) -> Plan:
        """One token at `positions` (count,) of each of the first `count` slots; keys up to `kv_len` are read.

        Its shapes do not depend on the sequences, and it is made on the device alone, so a CUDA graph can
        hold it. The lengths do not grow by `commit`: the caller counts (`grow`).
        """
        count = positions.shape[0]
        like = self.keys[0]
        hidden = torch.arange(kv_len, device=like.device) > positions.view(-1, 1, 1)
        mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
        mask.masked_fill_(hidden, float("-inf"))
        index = (torch.arange(count, device=like.device), positions)
        span = Span(
            row=0, slot=0, count=count, width=1, starts=(), kv_len=kv_len, mask=mask, index=index
        )  # fmt: skip
        return Plan(positions=positions, spans=(span,))

    def grow(self, slots: Sequence[int]) -> None:
        """Counts the token that a step by `fixed_plan` stored for each of these slots."""
        for slot in slots:
            self.lengths[slot] += 1

    def extend(self, layer: int, span: Span, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Stores a span's new (count, width, kv_heads, head_dim); returns its keys and values as views.

        The views are (count, kv_heads, kv_len, head_dim). What a shorter neighbour has not written is
        masked, and finite (the stores begin as zeros), so that it weighs 0.
        """
        end = span.slot + span.count
        for store, new in ((self.keys[layer], keys), (self.values[layer], values)):
            if span.index is None:
                start = span.starts[0]
                store[span.slot : end, :, start : start + span.width] = new.transpose(1, 2)
            else:
                slots, at = span.index
                store[slots, :, at] = new[:, 0]
        return (
            self.keys[layer][span.slot : end, :, : span.kv_len],
            self.values[layer][span.slot : end, :, : span.kv_len],
        )

    def commit(self, plan: Plan) -> None:
        """Lets the sequences' lengths grow by what a step stored in every layer."""
        for span in plan.spans:
            for offset, start in enumerate(span.starts):
                self.lengths[span.slot + offset] = start + span.width

    def reset(self) -> None:
        """Empties every slot (a cache whose sequences all start again with each frame)."""
        self.lengths = [0] * len(self.lengths)
