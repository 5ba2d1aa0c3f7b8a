"""Underruns of a voice while it is still arriving: the player over what has come, each silence told once."""

from collections.abc import Sequence

from cotenant.playback.player import PlayerOptions, Underrun, play


class HeardVoice:
    """One stream. `add` its chunks as they come, `end` it; `fresh` gives what has been heard since."""

    def __init__(self) -> None:
        self.told = 0
        self._arrival_ns: list[int] = []
        self._media_ns: list[int] = []
        self._audio_ns = 0
        self._last_seq = -1
        self._late = False
        self._new = False
        self._done_ns: int | None = None
        self._whole = False

    def add(self, seq: int, arrival_ns: int, media_ns: int, quantum_ns: int) -> None:
        """A chunk; one that was there is not taken twice."""
        if seq <= self._last_seq:
            return
        self._last_seq = seq
        if media_ns <= 0:
            return
        # Playback starts no earlier than the first arrival: without a chunk later than this nothing ran dry,
        # and the player need not be asked.
        if self._arrival_ns and arrival_ns + quantum_ns > self._arrival_ns[0] + self._audio_ns:
            self._late = True
        self._arrival_ns.append(arrival_ns)
        self._media_ns.append(media_ns)
        self._audio_ns += media_ns
        self._new = True

    def end(self, done_ns: int, *, whole: bool) -> None:
        """No more comes; a stream that is not `whole` was given up then, maybe in mid-silence."""
        self._done_ns, self._whole, self._new = done_ns, whole, True
        self._late = self._late or not whole

    def fresh(self, options: PlayerOptions) -> Sequence[Underrun]:
        """Silences that are over (or will never be) and were not given before; in order."""
        if not (self._new and self._late and self._arrival_ns):
            return ()
        self._new = False
        ended = self._done_ns is not None
        last_ns = self._arrival_ns[-1] if self._done_ns is None else self._done_ns
        playback = play(
            self._arrival_ns,
            self._media_ns,
            options,
            done_ns=last_ns if self._whole else None,
            give_up_ns=last_ns,
        )
        # What came last may lengthen a silence that seems to end with it.
        over = [
            event
            for event in playback.events
            if ended or (not event.open and event.start_ns + event.duration_ns < last_ns)
        ]
        fresh = over[self.told :]
        self.told = max(self.told, len(over))
        if ended:
            self._arrival_ns, self._media_ns = [], []
        return fresh
