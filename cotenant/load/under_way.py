"""Voices of a stage that began before its window, for the figures that are shown while it goes on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from cotenant.playback.fleet import Arrivals, play_fleet
from cotenant.playback.options import PlayerOptions
from cotenant.playback.under_way import Listener, Span, silences_within, under_way
from cotenant.units import NS_PER_S

# What was over this long ago reaches into no window that is still to be told.
_KEPT_NS: Final = 5 * NS_PER_S


class Figures(NamedTuple):
    """Of the voices under way: how many, those that failed, and the silences heard of them in the window."""

    streams: int = 0
    failed: int = 0
    underruns: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class LiveVoice:
    """One utterance; its lists grow while it arrives."""

    listener_key: Listener
    due_ns: int
    pause_ns: int
    arrival_ns: Sequence[int]
    media_ns: Sequence[int]
    done_ns: int | None = None
    over_ns: int | None = None
    whole: bool = False
    failed: bool = False

    @property
    def began_ns(self) -> int | None:
        """When its first sound came: the player may begin a little later."""
        return self.arrival_ns[0] if self.arrival_ns else None

    def end(self, *, done_ns: int, over_ns: int, whole: bool) -> None:
        """It came to its end (`whole`), or failed; it was heard at `over_ns`."""
        self.done_ns, self.over_ns, self.whole, self.failed = done_ns, over_ns, whole, not whole


@dataclass(slots=True, kw_only=True)
class LiveVoices:
    """All of a stage that may still count, and the listeners for whom something fell due in its window."""

    _voices: list[LiveVoice] = field(default_factory=list)
    _served: set[Listener] = field(default_factory=set)

    def begin(self, voice: LiveVoice, now_ns: int, window_start_ns: int | None) -> LiveVoice:
        """Takes a new one; forgets those that were over before any window could begin."""
        limit_ns = now_ns - _KEPT_NS if window_start_ns is None else window_start_ns
        self._voices = [one for one in self._voices if one.over_ns is None or one.over_ns >= limit_ns]
        self._voices.append(voice)
        return voice

    def figures(
        self, now_ns: int, window_start_ns: int | None, window_end_ns: int | None, options: PlayerOptions
    ) -> Figures:
        """Of the window until now; nothing before it begins."""
        if window_start_ns is None or window_end_ns is None or now_ns <= window_start_ns:
            return Figures()
        span = Span(start_ns=window_start_ns, until_ns=min(now_ns, window_end_ns))
        fell_due = [one for one in self._voices if span.start_ns <= one.due_ns < span.until_ns]
        self._served |= {one.listener_key for one in fell_due}
        self._voices = [
            one for one in self._voices if one not in fell_due and one.listener_key not in self._served
        ]
        found = under_way(self._voices, self._served, span)
        heard = [one for one in found if one.arrival_ns]
        silences = _silences(heard, now_ns, options) if heard else ()
        return Figures(
            streams=len(found),
            failed=sum(one.failed for one in found),
            underruns=sum(silences_within(each, span) for each in silences),
        )


def _silences(
    voices: Sequence[LiveVoice], now_ns: int, options: PlayerOptions
) -> Iterable[Sequence[tuple[int, int]]]:
    """Of each voice, in one pass: the load process has little time for this."""
    counts = [len(one.arrival_ns) for one in voices]
    done = np.array([now_ns if one.done_ns is None else one.done_ns for one in voices], dtype=np.int64)
    last = np.array([one.arrival_ns[-1] for one in voices], dtype=np.int64)
    done = np.maximum(done, last)
    arrivals = Arrivals(
        offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        arrival_ns=np.concatenate([np.array(one.arrival_ns, dtype=np.int64) for one in voices]),
        media_ns=np.concatenate([np.array(one.media_ns, dtype=np.int64) for one in voices]),
        done_ns=done,
        ended=np.array([one.whole for one in voices], dtype=np.bool_),
        give_up_ns=done,
    )
    events = play_fleet(arrivals, options).events
    return [
        list(zip(events.start_ns[mine].tolist(), events.duration_ns[mine].tolist(), strict=True))
        for mine in (events.stream == number for number in range(len(voices)))
    ]
