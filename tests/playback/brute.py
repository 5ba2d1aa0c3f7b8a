"""A player that lives through every tick: slow, dull, and written without a look at the real one.

All times are whole ticks. At each tick what arrives comes first, then the device asks for its next block.
"""

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Case:
    """One stream and one player. `chunks`: (arrival, duration > 0) in order. One of done, give_up is set."""

    chunks: list[tuple[int, int]]
    lookahead: int
    start: str
    policy: str
    quantum: int
    refill: int
    resync: int | None
    done: int | None
    give_up: int | None


@dataclass(slots=True)
class Heard:
    """What the listener met, in ticks; `start` None: nothing."""

    start: int | None = None
    end: int = 0
    silences: list[list[int]] = field(default_factory=list)  # [wall start, media position, length]
    open: bool = False
    heard_at: dict[int, int] = field(default_factory=dict)
    levels: list[int | None] = field(default_factory=list)

    def silent(self, t: int, media: int) -> None:
        """One tick of silence at t, where `media` should have been heard."""
        if self.silences and self.silences[-1][0] + self.silences[-1][2] == t:
            self.silences[-1][2] += 1
        else:
            self.silences.append([t, media, 1])


def simulate(case: Case) -> Heard:
    """Run one case to its end."""
    return _drop(case) if case.policy == "drop" else _wait(case)


def _ready(case: Case, t: int, got: int, finished: bool) -> bool:
    if case.start == "delay":
        return t >= case.chunks[0][0] + case.lookahead
    return got >= case.lookahead or finished


def _wait(case: Case) -> Heard:  # noqa: C901  one loop, to be read from top to bottom
    """resume and refill: silence moves everything that follows."""
    out = Heard()
    chunks, give_up = case.chunks, case.give_up
    first, block = chunks[0][0], max(case.quantum, 1)
    refill = max(case.refill, 1) if case.policy == "refill" else 1
    total = sum(d for _, d in chunks)
    arrived = got = pos = dry = 0
    state, filled, t = "waiting", 0, first
    while True:
        while arrived < len(chunks) and chunks[arrived][0] <= t:
            if state == "waiting":
                out.levels.append(None)
            else:
                out.levels.append(got - pos if got > pos or state == "playing" else dry - t)
            got += chunks[arrived][1]
            arrived += 1
        finished = case.done is not None and t >= case.done and arrived == len(chunks)
        if (t - first) % block == 0:
            if state == "waiting" and _ready(case, t, got, finished):
                state, out.start = "playing", t
            elif state == "stalled" and (got - pos >= refill or finished):
                state = "playing"
            filled = min(block, got - pos)
        if give_up is not None and t >= give_up:
            if state == "waiting":
                return Heard()
            if state == "stalled" and dry < give_up:
                out.open, out.end = True, give_up
                return out
        if state == "playing" and filled == 0:
            over = pos == total and case.done is not None
            if over or (give_up is not None and t >= give_up and got - pos < refill):
                out.end = t
                return out
            state, dry = "stalled", t
        if state == "playing":
            out.heard_at[pos] = t
            pos += 1
            filled -= 1
        elif state == "stalled":
            out.silent(t, pos)
        t += 1


def _drop(case: Case) -> Heard:  # noqa: C901  one loop, to be read from top to bottom
    """drop: the clock goes on, unless a chunk is so late that it is moved."""
    out = Heard()
    chunks, give_up = case.chunks, case.give_up
    first, block = chunks[0][0], max(case.quantum, 1)
    total = sum(d for _, d in chunks)
    arrived = got = pos = edge = 0
    fresh: list[int] = []  # where the chunks begin that the device has not seen yet
    past_end: list[tuple[int, int]] = []  # silence that counts only if something is played after it
    t = first
    while True:
        while arrived < len(chunks) and chunks[arrived][0] <= t:
            out.levels.append(None if out.start is None or (fresh and case.resync is not None) else got - pos)
            fresh.append(got)
            got += chunks[arrived][1]
            arrived += 1
        finished = case.done is not None and t >= case.done and arrived == len(chunks)
        if (t - first) % block == 0:
            if out.start is None and _ready(case, t, got, finished):
                out.start = t
            for begin in fresh if out.start is not None else []:
                if case.resync is not None and pos - begin > case.resync:
                    for wall, media in past_end:
                        out.silent(wall, media)
                    past_end, pos = [], begin
            fresh = []
            edge = got
        if out.start is None:
            if give_up is not None and t >= give_up:
                return Heard()
            t += 1
            continue
        if pos >= total and ((give_up is not None and t >= give_up) or _all_seen(case, arrived, fresh)):
            out.open = give_up is not None and pos > total
            out.end = t if out.open else t - (pos - total)
            return out
        if pos < edge:
            out.heard_at[pos] = t
        elif pos < total or give_up is not None:
            out.silent(t, pos)
        else:
            past_end.append((t, pos))
        pos += 1
        t += 1


def _all_seen(case: Case, arrived: int, fresh: list[int]) -> bool:
    """Every chunk has come and the device knows of it."""
    return case.done is not None and arrived == len(case.chunks) and not fresh
