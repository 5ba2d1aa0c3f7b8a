"""A user's generator of speech behind the voice's front: `generate(text, voice)` gives pieces of samples."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cotenant.tenants.builtin.answers import Failed, SampleFormat
from cotenant.tenants.builtin.source import Source
from cotenant.tenants.builtin.source_pieces import SpeechPieces, one_by_one
from cotenant.tenants.builtin.speech_http import Said
from cotenant.tenants.builtin.workers import AsyncSide, Workers


class SourceVoice:
    """Each request is a job of the workers. The answer's head waits for the first piece, which may fail."""

    format: tuple[int, SampleFormat] | None = None

    def __init__(
        self, workers: Workers, model: str, *, rate_hz: int | None, sample_format: SampleFormat
    ) -> None:
        self.model = model
        self._workers, self._rate_hz, self._format = workers, rate_hz, sample_format

    def speak(self, text: str, voice: str | None, send: Callable[[Said], None]) -> Callable[[], None]:
        """Queues an utterance."""
        rate_hz = self._rate_hz or self._workers.engine.rate_hz
        spoken = Utterance(text, voice, SpeechPieces(rate_hz, self._format), send)
        self._workers.put(spoken)
        return lambda: self._workers.drop(spoken)


class Utterance:
    """One request."""

    def __init__(
        self, text: str, voice: str | None, pieces: SpeechPieces, send: Callable[[Said], None]
    ) -> None:
        self.text, self.voice = text, voice
        self.cancelled = False
        self._pieces, self._send = pieces, send

    def take(self, piece: Any) -> None:
        """Sends a piece on. Raises TypeError or ValueError for what is none."""
        if not self.cancelled and (spoken := self._pieces.read(piece)) is not None:
            self._send(spoken)

    def finish(self) -> None:
        self._send(None)

    def fail(self, error: BaseException) -> None:
        self._send(Failed(message=f"{type(error).__name__}: {error}"))


def run(source: Source, jobs: list[Utterance], aside: AsyncSide) -> Iterator[None]:
    """Makes the utterances; yields after each piece, or each round of pieces of a batch."""
    if source.batch is None:
        with closed_after(aside.plain(source.call(jobs[0].text, jobs[0].voice))) as result:
            for piece in one_by_one(result):
                jobs[0].take(piece)
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
