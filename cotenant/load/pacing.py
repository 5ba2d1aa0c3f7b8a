"""When the next request is due: seeded schedules and the turns of a talk. Arithmetic only."""

import random
from collections.abc import Iterator
from typing import Final

from cotenant.units import NS_PER_S

JITTER_SHARE: Final = 0.3
# After a failed request a closed loop waits this long, or it would send without end to a dead server.
FAILURE_PAUSE_NS: Final = NS_PER_S // 2


def schedule(key: str, start_ns: int, every_ns: int, *, index: int = 0, count: int = 1) -> Iterator[int]:
    """Due times without end for participant `index` of `count`, the same for the same `key`.

    Starts are staggered evenly over one period; each gap is `every_ns` with a uniform jitter of +-30 %, so
    that no beat locks onto another load's.
    """
    jitter = random.Random(f"{key}/{index}")
    due_ns = start_ns + every_ns * index // count
    while True:
        yield due_ns
        due_ns += round(every_ns * (1 + jitter.uniform(-JITTER_SHARE, JITTER_SHARE)))


def next_turn(scheduled_ns: int, previous_end_ns: int | None, pause_ns: int) -> tuple[int, int]:
    """When a turn is due and by how much it slipped: not before its time, nor before the last was heard."""
    if previous_end_ns is None:
        return scheduled_ns, 0
    due_ns = max(scheduled_ns, previous_end_ns + pause_ns)
    return due_ns, due_ns - scheduled_ns


def next_closed(done_ns: int, failed: bool) -> int:
    """When a closed loop sends again."""
    return done_ns + (FAILURE_PAUSE_NS if failed else 0)


def shows(due_ns: int, shown_until_ns: int, length_ns: int) -> bool:
    """Whether a head shows the utterance due then: what it took before lasts until `shown_until_ns`.

    A closed loop asks for the next utterance as soon as it has this one, which may be long before that is
    heard. A head shows one at a time: it passes over what would put it more than half an utterance of
    `length_ns` ahead. So a voice at ten times real time asks its head for 25 fps, not for 250.
    """
    return due_ns + length_ns // 2 >= shown_until_ns


def every_from_rate_ns(rate_per_s: float) -> int:
    """Mean gap of an open loop of this rate."""
    return max(1, round(NS_PER_S / rate_per_s))


def text_line(listener: int, utterance: int, lines: int) -> int:
    """Which line utterance k of listener v says: the same in every stage, neighbours far apart."""
    return (listener * 7 + utterance) % lines


def in_window(due_ns: int, start_ns: int | None, end_ns: int | None) -> bool:
    """Whether what is due then is measured."""
    return start_ns is not None and due_ns >= start_ns and (end_ns is None or due_ns < end_ns)
