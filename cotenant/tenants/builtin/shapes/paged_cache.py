"""A key-value cache in pages: sequences of unequal length share one store, each with what it may need."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cotenant.tenants.builtin.shapes.kv_cache import KvCache, Plan, Span

PAGE_TOKENS = 256


class PagedKvCache(KvCache):
    """`slots` sequences in a store of `tokens`; page 0 is spare, for rows that no sequence holds.

    An attention call reads its sequences' pages into one place first: torch's own kernels take no page
    table. `acquire_for` keeps every page that a sequence may grow into, so that none is ever preempted.
    """

    def __init__(
        self,
        layers: int,
        slots: int,
        kv_heads: int,
        capacity: int,
        head_dim: int,
        tokens: int,
        *,
        like: Tensor,
    ) -> None:
        super().__init__(0, slots, kv_heads, capacity, head_dim, like=like)
        self._pages = -(-tokens // PAGE_TOKENS) + 1
        shape = (self._pages, PAGE_TOKENS, kv_heads, head_dim)
        self.keys = [torch.zeros(shape, dtype=like.dtype, device=like.device) for _ in range(layers)]
        self.values = [torch.zeros(shape, dtype=like.dtype, device=like.device) for _ in range(layers)]
        self._free_pages = list(range(self._pages - 1, 0, -1))
        self._held: list[list[int]] = [[] for _ in range(slots)]
        self._table = torch.zeros(slots, -(-capacity // PAGE_TOKENS), dtype=torch.int64, device=like.device)
        self.join_within = 4 * PAGE_TOKENS
        self._where: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    @property
    def usage(self) -> float:
        """Share of the pages that sequences hold."""
        return 1 - len(self._free_pages) / (self._pages - 1)

    def fits(self, tokens: int) -> bool:
        """Whether a slot and the pages for a sequence of this length are free."""
        return self.free_slots > 0 and -(-tokens // PAGE_TOKENS) <= len(self._free_pages)

    def acquire_for(self, tokens: int) -> int:
        """The lowest free slot, with the pages for `tokens`."""
        slot = self.acquire()
        held = [self._free_pages.pop() for _ in range(-(-tokens // PAGE_TOKENS))]
        self._held[slot] = held
        self._table[slot, : len(held)] = torch.tensor(held, device=self._table.device)
        return slot

    def release(self, slot: int) -> None:
        """Gives a slot and its pages back."""
        super().release(slot)
        self._free_pages += self._held[slot]
        self._held[slot] = []
        self._table[slot] = 0  # a step of fixed rows writes for idle slots too: into the spare page

    def plan(self, entries: Sequence[tuple[int, int]]) -> Plan:
        """As `KvCache.plan`; where a span's rows go and what it reads is worked out once for all layers."""
        plan = super().plan(entries)
        self._where = {span.row: self._places(span, plan.positions) for span in plan.spans}
        return plan

    def fixed_plan(self, positions: Tensor, kv_len: int) -> Plan:
        """As `KvCache.fixed_plan`; the page table is read on the device, at every replay anew."""
        plan = super().fixed_plan(positions, kv_len)
        self._where = {0: self._places(plan.spans[0], positions)}
        return plan

    def _places(self, span: Span, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(page, offset) of each new row, and (count, pages) to read."""
        rows = positions[span.row : span.row + span.count * span.width]
        table = self._table[span.slot : span.slot + span.count]
        page = table.gather(1, (rows // PAGE_TOKENS).view(span.count, span.width)).flatten()
        return page, rows % PAGE_TOKENS, table[:, : -(-span.kv_len // PAGE_TOKENS)]

    def extend(self, layer: int, span: Span, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Stores a span's new keys and values; returns all, each (count, kv_heads, kv_len, head_dim)."""
        page, offset, pages = self._where[span.row]
        found = []
        for store, new in ((self.keys[layer], keys), (self.values[layer], values)):
            store[page, offset] = new.flatten(0, 1)
            found.append(store[pages].flatten(1, 2)[:, : span.kv_len].transpose(1, 2))
        return found[0], found[1]
