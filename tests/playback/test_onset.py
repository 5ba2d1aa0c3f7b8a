"""The first audible sample, against a player that goes from chunk to chunk."""

import numpy as np
import pytest

from cotenant.playback.fleet import Arrivals
from cotenant.playback.onset import onsets


def by_hand(arrival: list[int], media: list[int], silence: int) -> int:
    """Plays one chunk behind the other, as soon as it is there, up to the sample."""
    free, played = 0, 0
    for at, length in zip(arrival, media, strict=True):
        start = max(at, free)
        if played + length > silence:
            return start + silence - played
        played, free = played + length, start + length
    return free + silence - played


def of(streams: list[tuple[list[int], list[int], int]]) -> list[int]:
    counts = [len(arrival) for arrival, _, _ in streams]
    arrivals = Arrivals(
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        arrival_ns=np.array([at for arrival, _, _ in streams for at in arrival], dtype=np.int64),
        media_ns=np.array([length for _, media, _ in streams for length in media], dtype=np.int64),
        done_ns=np.zeros(len(streams), dtype=np.int64),
        ended=np.ones(len(streams), dtype=np.bool_),
        give_up_ns=np.zeros(len(streams), dtype=np.int64),
    )
    silence_ns = np.array([silence for _, _, silence in streams], dtype=np.int64)
    return [int(at) for at in onsets(arrivals, silence_ns)]


@pytest.mark.parametrize(
    ("arrival", "media", "silence", "expected"),
    [
        ([100], [50], 0, 100),
        ([100], [50], 20, 120),
        ([100, 300], [40, 80], 40, 300),  # the voice is in a chunk that comes late
        ([100, 300], [40, 80], 30, 130),
        ([100, 110, 120], [40, 40, 40], 90, 190),
        ([100, 300, 310], [40, 40, 40], 90, 350),
        ([100], [40], 40, 140),  # nothing but silence
        ([], [], 0, 0),
    ],
)
def test_by_hand(arrival: list[int], media: list[int], silence: int, expected: int) -> None:
    assert of([(arrival, media, silence)]) == [expected]


def test_any_streams_together() -> None:
    rng = np.random.default_rng(5)
    streams = []
    for _ in range(2_000):
        size = int(rng.integers(0, 12))
        arrival = np.cumsum(rng.integers(0, 100, size)) + 50
        media = rng.integers(1, 100, size)
        silence = int(rng.integers(0, max(1, int(media.sum())))) if size else 0
        streams.append((arrival.tolist(), media.tolist(), silence))
    assert of(streams) == [by_hand(*stream) if stream[0] else 0 for stream in streams]
