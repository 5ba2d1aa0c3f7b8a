"""Samples to the sound card, and how often the card itself ran dry meanwhile."""

import threading
from typing import Any

from cotenant.errors import CouldNotRun

_LOOK_S = 0.25
# A device that takes nothing for so many looks has gone.
_PATIENCE = 20


class SoundCard:
    """Hands samples to the sound card and counts how often the card itself ran dry meanwhile.

    Those are this machine's own faults while listening; the recording's underruns are silence in `samples`.
    """

    def __init__(self, samples: Any) -> None:
        self._samples = samples
        self._over = threading.Event()
        self.played = 0
        self.underflows = 0

    def play(self, device: Any, rate_hz: int) -> None:
        """Plays to the end; `device` is the module sounddevice. Raises CouldNotRun without a device."""
        try:
            stream = device.OutputStream(
                samplerate=rate_hz,
                channels=1,
                dtype=self._samples.dtype.name,
                callback=self._fill(device.CallbackStop),
                finished_callback=self._over.set,
            )
            stream.start()
        except device.PortAudioError as error:
            raise CouldNotRun(
                f"there is no sound device that plays {rate_hz} Hz mono here ({error}); "
                "--wav FILE writes the sound instead"
            ) from None
        try:
            self._until_over()
        except BaseException:
            stream.abort()
            raise
        finally:
            stream.close()

    def _fill(self, stop: type[Exception]) -> Any:
        def callback(out: Any, frames: int, time: object, status: Any) -> None:
            if status.output_underflow:
                self.underflows += 1
            piece = self._samples[self.played : self.played + frames]
            out[: len(piece), 0] = piece
            out[len(piece) :] = 0
            self.played += len(piece)
            if self.played == len(self._samples):
                raise stop

        return callback

    def _until_over(self) -> None:
        before, idle = -1, 0
        while not self._over.wait(_LOOK_S):
            idle = idle + 1 if self.played == before < len(self._samples) else 0
            before = self.played
            if idle == _PATIENCE:
                raise CouldNotRun(
                    "the sound device takes no more samples; --wav FILE writes the sound instead"
                )
