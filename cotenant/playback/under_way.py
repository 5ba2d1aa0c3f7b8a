"""Utterances that were due before a measure window and keep their listeners waiting in it, as far as a window
that still goes on can tell; the verdict's rule (`cotenant.verdict.under_way`), looked at until now.

It is what the verdict would judge if the window ended at that instant: one that has kept its listener so far
is out again as soon as the next falls due. Once the window is over the two are the same, but for this: where
nothing fell due for anybody the verdict looks at all rounds of a stage, and here one is known.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from cotenant.playback.options import COUNTED_SILENCE_NS
from cotenant.units import NS_PER_S

# What a listener may have to wait for the first sound, by the convention of voice agents: a silence of less
# than this says nothing yet.
SILENT_NS: Final = NS_PER_S

Listener = tuple[str, int]  # the load and the listener's number


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The part of a measure window that is over, [start, until)."""

    start_ns: int
    until_ns: int


class Utterance(Protocol):
    """What is known of one. `began_ns`: its playback began; `over_ns`: it was heard, and had ended; None: not
    yet."""

    @property
    def listener_key(self) -> Listener: ...

    @property
    def due_ns(self) -> int: ...

    @property
    def pause_ns(self) -> int: ...

    @property
    def began_ns(self) -> int | None: ...

    @property
    def over_ns(self) -> int | None: ...


_U = TypeVar("_U", bound=Utterance)


def under_way(utterances: Iterable[_U], served: Collection[Listener], span: Span) -> list[_U]:
    """Those of `utterances` (of one stage) by which the span is judged although they were due before it.

    `served`: the listeners for whom something fell due in the span.
    """
    found = []
    for one in utterances:
        if one.due_ns >= span.start_ns or one.listener_key in served:
            continue
        over_ns = span.until_ns if one.over_ns is None else one.over_ns
        if over_ns <= span.start_ns or (served and over_ns + one.pause_ns < span.until_ns):
            continue
        began = one.began_ns is not None and one.began_ns < span.until_ns
        if began or min(over_ns, span.until_ns) - one.due_ns >= SILENT_NS:
            found.append(one)
    return found


def silences_within(silences: Sequence[tuple[int, int]], span: Span) -> int:
    """How many silences, each (start, duration) in ns, count in the span: by what of them is in it."""
    inside = (
        min(start + duration, span.until_ns) - max(start, span.start_ns) for start, duration in silences
    )
    return sum(length_ns >= COUNTED_SILENCE_NS for length_ns in inside)
