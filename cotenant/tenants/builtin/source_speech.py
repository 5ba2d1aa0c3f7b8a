"""A user's generator of speech behind the voice's front: `generate(text, voice)` gives pieces of samples."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cotenant.tenants.builtin.answers import Failed, SampleFormat
from cotenant.tenants.builtin.async_side import AsyncSide
from cotenant.tenants.builtin.mailbox import Mailbox
from cotenant.tenants.builtin.source import Source
from cotenant.tenants.builtin.source_pieces import SpeechPieces, one_by_one
from cotenant.tenants.builtin.speech_http import Said
from cotenant.tenants.builtin.telling import told
from cotenant.tenants.builtin.workers import Workers

log = logging.getLogger("cotenant.builtin")


class SourceVoice:
    """Each request is a job of the workers. The answer's head waits for the first piece, which may fail."""

    format: tuple[int, SampleFormat] | None = None

    def __init__(
        self, workers: Workers, model: str, *, rate_hz: int | None, sample_format: SampleFormat
    ) -> None:
        self.model = model
        self._workers, self._rate_hz, self._format = workers, rate_hz, sample_format

    def speak(self, text: str, voice: str | None, out: Mailbox[Said]) -> Callable[[], None]:
        """Queues an utterance."""
        rate_hz = self._rate_hz or self._workers.engine.rate_hz
        spoken = Utterance(text, voice, SpeechPieces(rate_hz, self._format), out)
        self._workers.put(spoken)
        return lambda: self._workers.drop(spoken)


class Utterance:
    """One request."""

    def __init__(self, text: str, voice: str | None, pieces: SpeechPieces, out: Mailbox[Said]) -> None:
        self.text, self.voice = text, voice
        self.cancelled = False
        self._pieces, self._out = pieces, out

    def take(self, piece: Any) -> None:
        """Sends a piece on. Raises TypeError or ValueError for what is none."""
        if not self.cancelled and (spoken := self._pieces.read(piece)) is not None:
            self._out.put(spoken)

    def wait_for_client(self) -> None:
        """Returns once its client is no longer behind."""
        self._out.wait_for_room()

    def drop_if_behind(self) -> None:
        """Gives up on a client that is behind: the others of its batch do not wait for it."""
        if not self.cancelled and self._out.full:
            self.cancelled = True
            why = f"the client was dropped: it has not read {self._out.unread_bytes} bytes"
            log.warning("speech: %s", why)
            self._out.put(Failed(message=why))

    def finish(self) -> None:
        if not self.cancelled:
            self._out.put(None)

    def fail(self, error: BaseException) -> None:
        if not self.cancelled:
            self._out.put(Failed(message=told(error)))


def run(source: Source, jobs: list[Utterance], aside: AsyncSide) -> Iterator[None]:
    """Makes the utterances; yields after each piece, or each round of pieces of a batch."""
    if source.batch is None:
        with closed_after(aside.plain(source.call(jobs[0].text, jobs[0].voice))) as result:
            for piece in one_by_one(result):
                jobs[0].take(piece)
                jobs[0].wait_for_client()
                yield
        return
    texts, voices = [job.text for job in jobs], [job.voice for job in jobs]
    with closed_after(aside.plain(source.batch(texts, voices))) as result:
        for round_ in one_by_one(result):
            if not isinstance(round_, (list, tuple)) or len(round_) != len(jobs):
                raise TypeError(f"a batch of {len(jobs)}: yield lists of as many pieces, None for no piece")
            for job, piece in zip(jobs, round_, strict=True):
                if piece is not None:
                    job.take(piece)
                    job.drop_if_behind()
            yield


@contextmanager
def closed_after(result: Any) -> Iterator[Any]:
    """What a generator gave, closed at the end, however it comes, where it can be."""
    try:
        yield result
    finally:
        close = getattr(result, "close", None)
        if callable(close):
            close()
