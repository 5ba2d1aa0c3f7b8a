"""The audio of a face: on its way from a voice, and what of it had been handed over when."""

import asyncio
import math
import time
from collections.abc import Callable

from cotenant.load.resample import Resampler, to_float
from cotenant.load.settings import FacesLoad
from cotenant.units import NS_PER_S
from cotenant.wire import frames


class FaceFeed:
    """The audio on its way from a voice to a face: pieces of 16 kHz s16le, None at the end.

    `utterance` tells the voice's number; it is asked when the voice is due, not before. `ended_ns`: when the
    voice was over.
    """

    def __init__(self, load: FacesLoad, utterance: Callable[[], int]) -> None:
        self.load = load
        self.utterance = utterance
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.ended_ns: int | None = None
        self._resampler: Resampler | None = None

    def feed(self, data: bytes, rate_hz: int, sample_format: str) -> None:
        """Whole samples that arrived just now."""
        if self._resampler is None:
            self._resampler = Resampler(rate_hz)
        self._put(self._resampler.feed(to_float(data, sample_format)))

    def end(self) -> None:
        """No more will come; idempotent."""
        if self.ended_ns is not None:
            return
        self.ended_ns = time.monotonic_ns()
        if self._resampler is not None:
            self._put(self._resampler.end())
        self.queue.put_nowait(None)

    def _put(self, piece: bytes) -> None:
        if piece:
            self.queue.put_nowait(piece)


class HandedAudio:
    """Which audio had been handed over when; lengths in 16 kHz samples."""

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._samples: list[int] = []
        self._at_ns: list[int] = []
        self._end_ns: int | None = None
        self._from = 0

    @property
    def samples(self) -> int:
        return self._samples[-1] if self._samples else 0

    def add(self, samples: int, at_ns: int) -> None:
        self._samples.append(self.samples + samples)
        self._at_ns.append(at_ns)

    def end(self, at_ns: int) -> None:
        self._end_ns = at_ns

    def needed_at(self, media_time_ns: int) -> int | None:
        """When the audio up to the end of this frame had been handed over; the end where there is less.

        None for a frame that came before its audio. Frames are asked for in order.
        """
        need = math.ceil((media_time_ns + self._period_ns) * frames.AUDIO_RATE_HZ / NS_PER_S)
        if self._from and self._samples[self._from - 1] >= need:
            self._from = 0
        while self._from < len(self._samples) and self._samples[self._from] < need:
            self._from += 1
        return self._at_ns[self._from] if self._from < len(self._samples) else self._end_ns
