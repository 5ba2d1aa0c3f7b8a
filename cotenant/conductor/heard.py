"""Underruns of a voice while it is still arriving: the player over what has come, each silence told once."""

from collections.abc import Sequence

from cotenant.playback.player import PlayerOptions, Underrun, play


class HeardVoice:
    """One stream. `add` its chunks as they come, `end` it; `fresh` gives what has been heard since.

    `silences`: those given so far, as (start, duration). `began_ns`: its first sound; `over_ns`: it had ended
    and was heard, None before that (known once `fresh` was asked after the end).
    """

    def __init__(self) -> None:
        self.silences: list[tuple[int, int]] = []
        self.began_ns: int | None = None
        self.over_ns: int | None = None
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
        self.began_ns = arrival_ns if self.began_ns is None else self.began_ns
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
        ended = self._done_ns is not None
        if ended and not self._arrival_ns and self.over_ns is None:
            self.over_ns = self._done_ns
        if not (self._new and (self._late or ended) and self._arrival_ns):
            return ()
        self._new = False
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
        fresh = over[len(self.silences) :]
        self.silences += [(event.start_ns, event.duration_ns) for event in fresh]
        if ended:
            self._arrival_ns, self._media_ns = [], []
            self.over_ns = max(last_ns, playback.end_ns or last_ns)
        return fresh
