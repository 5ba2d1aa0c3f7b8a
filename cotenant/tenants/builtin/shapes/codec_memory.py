"""What each causal part of a codec decoder saw last of each stream, so that no frame is decoded twice."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class Memory:
    """The last columns before each part, by slot; one slot more than asked for is spare (`spare`).

    A part's room is made when the part is first met, so that first call allocates and must not be captured.
    """

    def __init__(self, slots: int, *, like: Tensor) -> None:
        self.spare = slots
        self._like = like
        self._stores: dict[nn.Module, Tensor] = {}
        self._slots: Tensor | None = None

    @contextmanager
    def used_by(self, parts: Iterable[Any], slots: Tensor) -> Iterator[None]:
        """While it lasts, these parts read and write the memory of these (rows,) slots."""
        parts, self._slots = list(parts), slots
        for part in parts:
            part.memory = self
        try:
            yield
        finally:
            for part in parts:
                part.memory = None

    def joined(self, part: nn.Module, x: Tensor, columns: int) -> Tensor:
        """`x` (rows, ..., time) with the `columns` before it; its own last ones are kept instead."""
        if columns == 0:
            return x
        assert self._slots is not None
        if part not in self._stores:
            shape = (self.spare + 1, *x.shape[1:-1], columns)
            self._stores[part] = torch.zeros(shape, dtype=self._like.dtype, device=self._like.device)
        store = self._stores[part]
        joined = torch.cat((store[self._slots], x), dim=-1)
        store[self._slots] = joined[..., -columns:]
        return joined

    def clear(self, slot: int) -> None:
        """Forgets one stream."""
        for store in self._stores.values():
            store[slot].zero_()
