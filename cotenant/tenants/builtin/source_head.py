"""A user's talking head behind the head's front: `generate(audio, fps)` takes audio, gives frames."""

import asyncio
import queue
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cotenant.tenants.builtin.answers import Failed
from cotenant.tenants.builtin.async_side import AsyncSide
from cotenant.tenants.builtin.face_ws import Shown
from cotenant.tenants.builtin.mailbox import Mailbox
from cotenant.tenants.builtin.source import Source
from cotenant.tenants.builtin.source_pieces import one_by_one, read_frame
from cotenant.tenants.builtin.source_speech import closed_after
from cotenant.tenants.builtin.telling import told
from cotenant.tenants.builtin.workers import Workers

Samples = NDArray[np.int16]


class Audio:
    """The client's audio as an iterator, plain or async, of int16 arrays at 16 kHz; each waits for the next.

    Where the client is gone it raises ConnectionAbortedError, so that a generator that waits ends too.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Samples | None] = queue.SimpleQueue()
        self._over = False
        self.gone = False

    def put(self, samples: Samples | None) -> None:
        """More audio, None at its end."""
        self._queue.put(samples)

    def leave(self) -> None:
        """The client is gone."""
        self.gone = True
        self._queue.put(None)

    def __iter__(self) -> "Audio":
        return self

    def __next__(self) -> Samples:
        samples = None if self._over else self._queue.get()
        if self.gone:
            raise ConnectionAbortedError("the client is gone")
        if samples is None:
            self._over = True
            raise StopIteration
        return samples

    def __aiter__(self) -> "Audio":
        return self

    async def __anext__(self) -> Samples:
        samples = await asyncio.to_thread(next, self, None)
        if samples is None:
            raise StopAsyncIteration
        return samples


class SourceHead:
    """Each client is a job of the workers: its audio gathers until one is free."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def begin(self, fps: int, out: Mailbox[Shown]) -> "Clip":
        """Queues a clip."""
        clip = Clip(self._workers, fps, out)
        self._workers.put(clip)
        return clip


class Clip:
    """One client: its audio on the way in, its frames on the way out."""

    def __init__(self, workers: Workers, fps: int, out: Mailbox[Shown]) -> None:
        self.fps, self.audio, self.sent = fps, Audio(), 0
        self.cancelled = False
        self._workers, self._out = workers, out

    def feed(self, samples: Samples) -> None:
        """More of its audio."""
        if len(samples):
            self.audio.put(samples)

    def end(self) -> None:
        """No more audio."""
        self.audio.put(None)

    def drop(self) -> None:
        """Ends it, done or not."""
        self._workers.drop(self)
        self.audio.leave()

    def take(self, piece: object) -> None:
        """Sends a frame on, and waits while the client is behind. Raises TypeError or ValueError for none."""
        self._out.put(read_frame(piece, self.sent, self.fps))
        self.sent += 1
        self._out.wait_for_room()

    def finish(self) -> None:
        self._out.put(self.sent)

    def fail(self, error: BaseException) -> None:
        self._out.put(Failed(message=told(error)))


def run(source: Source, jobs: list[Clip], aside: AsyncSide) -> Iterator[None]:
    """Makes the frames of one clip; yields after each."""
    clip = jobs[0]
    with closed_after(aside.plain(source.call(clip.audio, clip.fps))) as result:
        for piece in one_by_one(result):
            clip.take(piece)
            yield
