"""One client of the talking head, as its engine holds it."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cotenant.tenants.builtin.answers import Frame
from cotenant.tenants.builtin.shapes.ditto import (
    AHEAD_SAMPLES,
    CHUNK_SAMPLES,
    PAST_SAMPLES,
    SAMPLE_RATE_HZ,
)

Samples = NDArray[np.int16]


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """One face. `send` gets frames in order and, at the end, how many there were, in the writer's thread.

    `behind` says whether its client has too much still to read. `total_samples` is known once the audio has
    ended. Setting `cancelled` from any thread drops the session.
    """

    fps: int
    send: Callable[[Frame | int], None]
    behind: Callable[[], bool] = lambda: False
    cancelled: bool = False
    clip_samples: int = CHUNK_SAMPLES
    audio: Samples = field(default_factory=lambda: np.zeros(PAST_SAMPLES, np.int16))
    received: int = 0
    total_samples: int | None = None
    clips: int = 0
    moved_at: int = 0
    sent: int = 0
    features: Tensor | None = None
    shown: Tensor | None = None
    due: deque[tuple[int, Tensor]] = field(default_factory=deque)

    def frames_before(self, samples: int) -> int:
        """Frames whose time lies before this many samples: ceil(samples * fps / rate)."""
        return -(-samples * self.fps // SAMPLE_RATE_HZ)

    @property
    def clip_ready(self) -> bool:
        """Whether all audio that the next clip's runs of the audio encoder see is there."""
        if self.total_samples is not None:
            return self.clips * self.clip_samples < self.total_samples
        return self.received >= (self.clips + 1) * self.clip_samples + AHEAD_SAMPLES
