"""The same recording at every lookahead: what would be clean, what would stall, when it would start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS, BoolArray, Int64Array, as_int64
from cotenant.playback.blocks import Arrivals, Block, Records, blocks_of, records_of
from cotenant.playback.drop_curve import drop_curve
from cotenant.playback.fleet import play_fleet
from cotenant.playback.fleet_starts import starts_of
from cotenant.playback.options import CLEAN_STALL_NS, AfterUnderrun, PlayerOptions, Start
from cotenant.playback.refill_curve import refill_stalls
from cotenant.playback.resume_curve import latest_need, least_lookahead, resume_curve
from cotenant.playback.slowness import slower_than_real_time
from cotenant.playback.weighted import nearest_rank

POLICIES: Final[tuple[AfterUnderrun, ...]] = ("resume", "refill", "drop")
MOST_LOOKAHEAD_NS: Final = 5_000_000_000
_STEP_NS: Final = 10_000_000
# Above this many (stream, lookahead) pairs the default grid is made five times as coarse.
_MANY_PAIRS: Final = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """One policy, a value a lookahead: clean streams, underruns and stall over all streams that played.

    `clean_by_group` [lookahead, group]: the clean ones of each group, where groups were asked for.
    """

    clean: Int64Array
    underruns: Int64Array
    stall_total_ns: Int64Array
    clean_by_group: Int64Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WhatIf:
    """A run at every lookahead, with its own start rule.

    `streams` counts all, those without audio too: a share is curve.clean / streams. `playback_p50_ns`,
    `_p95_ns`: nearest rank of start - due (PLUS_INF_NS: never began). Per stream, PLUS_INF_NS where there
    is none: `clean_lookahead_ns` the least lookahead that makes it clean under the run's own player (None
    where more lookahead can do harm: refill, a quantum, resync), `required_lookahead_ns` R, of the delay
    form, `required_prefill_ns` the least prefill without any underrun. `slower` marks streams made slower
    than real time.
    """

    streams: int
    start: Start
    after_underrun: AfterUnderrun
    lookahead_ns: Int64Array
    curves: Mapping[AfterUnderrun, Curve]
    playback_p50_ns: Int64Array
    playback_p95_ns: Int64Array
    clean_lookahead_ns: Int64Array | None
    required_lookahead_ns: Int64Array
    required_prefill_ns: Int64Array
    slower: BoolArray

    @property
    def slower_share(self) -> float | None:
        """Share of the streams that were made slower than real time; None without streams."""
        return float(self.slower.mean()) if self.streams else None


def default_lookaheads(streams: int) -> Int64Array:
    """0 to 5 s in steps of 10 ms, of 50 ms for very many streams."""
    coarse = streams * (MOST_LOOKAHEAD_NS // _STEP_NS) > _MANY_PAIRS
    return np.arange(0, MOST_LOOKAHEAD_NS + 1, _STEP_NS * (5 if coarse else 1), dtype=np.int64)


def what_if(
    arrivals: Arrivals,
    options: PlayerOptions,
    due_ns: Int64Array,
    *,
    lookaheads_ns: Int64Array | None = None,
    policies: Sequence[AfterUnderrun] = POLICIES,
    groups: Int64Array | None = None,
) -> WhatIf:
    """Play a run at every lookahead (rising) under each policy; `options` is the rest of the player.

    `refill` waits for the lookahead unless `options.refill_ns` is set. `due_ns`: a value a stream, as
    `groups` (numbers from 0 by which clean streams are counted apart). With a quantum or resync each
    lookahead is played by itself: give few of them. Raises ValueError where sizes do not match.
    """
    grid = (
        default_lookaheads(arrivals.streams)
        if lookaheads_ns is None
        else as_int64(lookaheads_ns, "lookaheads")
    )
    due = as_int64(due_ns, "due_ns")
    if due.size != arrivals.streams or (np.diff(grid) <= 0).any() or (grid < 0).any():
        raise ValueError("every stream needs a due time, and lookaheads must rise from 0 or more")
    if groups is not None and groups.size != arrivals.streams:
        raise ValueError("every stream needs a group")
    run = _Run(arrivals, options, grid, policies, groups)
    for block in blocks_of(arrivals):
        run.add(block)
    if run.by_playing:
        for policy in policies:
            run.play(policy)
    p50, p95 = (_quantile(run.start_ns, due, percent) for percent in (50, 95))
    return WhatIf(
        streams=arrivals.streams,
        start=options.start,
        after_underrun=options.after_underrun,
        lookahead_ns=grid,
        curves={
            policy: Curve(**sums, clean_by_group=run.clean[policy], clean=run.clean[policy].sum(axis=1))
            for policy, sums in run.sums.items()
        },
        playback_p50_ns=p50,
        playback_p95_ns=p95,
        clean_lookahead_ns=run.own_clean(),
        required_lookahead_ns=run.required_ns,
        required_prefill_ns=run.prefill_ns,
        slower=slower_than_real_time(arrivals),
    )


def smallest_lookahead(result: WhatIf, percent: int, policy: AfterUnderrun) -> int | None:
    """The least lookahead with which at least `percent` % of the streams are clean; None if there is none.

    Exact (and perhaps beyond the grid) for the run's own policy where `clean_lookahead_ns` is there;
    otherwise the first on the grid.
    """
    if result.streams == 0:
        return None
    if result.clean_lookahead_ns is not None and policy == result.after_underrun:
        value = nearest_rank(result.clean_lookahead_ns, percent)
        return None if value is None or value >= PLUS_INF_NS else value
    enough = np.flatnonzero(100 * result.curves[policy].clean >= percent * result.streams)
    return int(result.lookahead_ns[enough[0]]) if enough.size else None


def _quantile(start_ns: Int64Array, due: Int64Array, percent: int) -> Int64Array:
    values = np.full(start_ns.shape[0], PLUS_INF_NS, np.int64)
    for i, row in enumerate(start_ns):
        value = nearest_rank(np.where(row == PLUS_INF_NS, PLUS_INF_NS, row - due), percent)
        values[i] = PLUS_INF_NS if value is None else value
    return values


class _Run:
    """Sums over blocks: a matrix of starts, and for each policy what the streams that stall add up to."""

    def __init__(
        self,
        arrivals: Arrivals,
        options: PlayerOptions,
        grid: Int64Array,
        policies: Sequence[AfterUnderrun],
        groups: Int64Array | None,
    ) -> None:
        self.arrivals, self.options, self.grid = arrivals, options, grid
        self.by_playing = options.quantum_ns > 0 or options.resync_after_ns is not None
        self.start_ns = np.full((grid.size, arrivals.streams), PLUS_INF_NS, np.int64)
        self.required_ns, self.prefill_ns = (
            np.full(arrivals.streams, PLUS_INF_NS, np.int64) for _ in range(2)
        )
        self.clean_ns = np.full(arrivals.streams, PLUS_INF_NS, np.int64)
        self.group = np.zeros(arrivals.streams, np.int64) if groups is None else groups
        self.groups = int(self.group.max(initial=0)) + 1
        self.clean = {policy: np.zeros((grid.size, self.groups), np.int64) for policy in policies}
        names = ("underruns", "stall_total_ns")
        self.sums = {policy: {name: np.zeros(grid.size, np.int64) for name in names} for policy in policies}

    def own_clean(self) -> Int64Array | None:
        """Exact thresholds of cleanliness, where they exist."""
        return None if self.by_playing or self.options.after_underrun == "refill" else self.clean_ns

    def play(self, policy: AfterUnderrun) -> None:
        """One lookahead after the other."""
        for i, lookahead in enumerate(self.grid.tolist()):
            options = replace(self.options, lookahead_ns=lookahead, after_underrun=policy)
            result = play_fleet(self.arrivals, options)
            self.clean[policy][i] = self._by_group(self.group[result.clean])
            self.sums[policy]["underruns"][i] = result.underruns.sum()
            self.sums[policy]["stall_total_ns"][i] = result.stall_total_ns[result.began].sum()

    def add(self, block: Block) -> None:
        """Take in a block."""
        delays = np.empty((self.grid.size, block.first.size), np.int64)
        for i, lookahead in enumerate(self.grid.tolist()):
            delays[i] = starts_of(block, replace(self.options, lookahead_ns=lookahead))[0]
        limit_ns = np.where(block.truncated, block.limit_ns - block.first_ns, PLUS_INF_NS - 1)
        delays[delays > limit_ns] = PLUS_INF_NS
        began = delays < PLUS_INF_NS
        self.start_ns[:, block.stream] = np.where(began, delays + block.first_ns, PLUS_INF_NS)
        latest = latest_need(block)
        self.required_ns[block.stream] = latest
        self.prefill_ns[block.stream] = least_lookahead(block, "prefill", latest)
        if self.by_playing:
            return
        column, owner = np.nonzero(began & (delays < latest))
        start, records = delays[column, owner], records_of(block)
        ended = ~block.truncated
        owners = self.group[block.stream]
        good = (began & ended).sum(axis=1)[:, np.newaxis]
        if self.groups > 1:
            good = np.stack([self._by_group(owners[row]) for row in began & ended])
        for policy, sums in self.sums.items():
            count, total, dirty, clean_from = self._stalls(policy, block, records, column, owner, start)
            sums["underruns"] += _per(column, count, self.grid.size)
            sums["stall_total_ns"] += _per(column, total, self.grid.size)
            dirty &= ended[owner]
            place = column[dirty] * good.shape[1] + owners[owner[dirty]]
            self.clean[policy] += good - np.bincount(place, minlength=good.size).reshape(good.shape)
            if policy == self.options.after_underrun and clean_from is not None:
                least = least_lookahead(block, self.options.start, clean_from)
                self.clean_ns[block.stream] = np.where(ended, least, PLUS_INF_NS)

    def _by_group(self, groups: Int64Array) -> Int64Array:
        return np.bincount(groups, minlength=self.groups)

    def _stalls(
        self,
        policy: AfterUnderrun,
        block: Block,
        records: Records,
        column: Int64Array,
        owner: Int64Array,
        start: Int64Array,
    ) -> tuple[Int64Array, Int64Array, BoolArray, Int64Array | None]:
        """Of each pair that stalls: underruns, total, unclean or not; per stream where clean begins."""
        if policy == "refill":
            waits = (
                self.grid[column]
                if self.options.refill_ns is None
                else np.full_like(start, self.options.refill_ns)
            )
            count, total, longest = refill_stalls(block, records, owner, start, waits)
            return count, total, longest > CLEAN_STALL_NS, None
        curve = drop_curve(block) if policy == "drop" else resume_curve(block, records)
        dirty = start < curve.clean_from[owner]
        return curve.count(owner, start), curve.silent(owner, start), dirty, curve.clean_from


def _per(column: Int64Array, values: Int64Array, size: int) -> Int64Array:
    sums = np.zeros(size, np.int64)
    np.add.at(sums, column, values)
    return sums
