"""Spans of time laid out on tracks, so that none overlaps another on its track."""

import heapq
from collections.abc import Iterable


def lanes(spans: Iterable[tuple[int, int]]) -> list[int]:
    """For spans (start, end) sorted by start: the lowest track that is free when each begins, from 0."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    found: list[int] = []
    for start, end in spans:
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        # All tracks are free or busy, and the next one is new.
        lane = heapq.heappop(free) if free else len(busy)
        found.append(lane)
        heapq.heappush(busy, (max(start, end), lane))
    return found
