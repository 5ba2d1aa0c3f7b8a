"""The `what_if` part of a stage's entry: the smallest lookahead that keeps 95 % and 99 % of its utterances
clean under each player, how sure that is, and what it costs in time to playback.

Lookaheads are whole milliseconds up to 5 s, in steps of 250 ms for a player that refills or has a quantum.
`start`: the run's own start rule, which all of it is under. `slower_share`: utterances that were made slower
than real time. `policies.POLICY.keep_95` and `.keep_99`: `lookahead_ms` with one-sided 95 % bounds `low_ms`
and `high_ms`, `time_to_playback_p95_ms` at that lookahead, `breaks` (the stage's gates on time to playback
that would not hold then) and `cures` (there is such a lookahead, and it breaks none). A null has its reason
in the stage's `why`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS
from cotenant.playback.blocks import Arrivals, part_of
from cotenant.playback.options import AfterUnderrun, PlayerOptions
from cotenant.playback.whatif import POLICIES, WhatIf, what_if
from cotenant.units import NS_PER_MS, ms_from_ns
from cotenant.verdict.bootstrap import MIN_BLOCKS, nearest_rank, numbered
from cotenant.verdict.columns import Bools, Floats, Ints
from cotenant.verdict.facts import Facts
from cotenant.verdict.gates import OPS, gate_text
from cotenant.verdict.mend import MOST_NS, MOSTLY, OTHER_STEP_NS, SLOWER
from cotenant.verdict.sample import Part, milliseconds, put
from cotenant.verdict.speech import NO_STREAM
from cotenant.verdict.stages import StageFacts
from cotenant.verdict.stats import quantile_bounds, share_bounds

LEVELS: Final = {"keep_95": 0.95, "keep_99": 0.99}
_PRICE: Final = "speech.time_to_playback_ms."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """The utterances of a stage: `whole` marks those that could be clean, neither cut nor too short."""

    arrivals: Arrivals
    due_ns: Ints
    blocks: Ints
    whole: Bools
    player: PlayerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Least:
    """A lookahead in ms with its bounds; infinite where none will do, None where it cannot be bounded."""

    lookahead_ms: float
    low_ms: float | None
    high_ms: float | None
    why: str = ""


def what_if_part(facts: Facts, found: StageFacts, gates: Sequence[Mapping[str, Any]]) -> Part:
    """The part of a stage that has voices; `gates` are its judged ones."""
    part = Part()
    own = None if found.paired is None else found.paired.own
    if own is None or not len(own.rows):
        part.why[""] = NO_STREAM
        return part
    arrivals = part_of(facts.voices.arrivals, own.rows)
    stage = _Stage(
        arrivals=arrivals,
        due_ns=facts.voices.streams.due[own.rows],
        blocks=own.blocks,
        whole=~facts.voices.failed[own.rows] & ~own.short,
        player=facts.player,
    )
    answers, slower = {}, 0.0
    for policy in POLICIES:
        result = _played(stage, policy)
        answers[policy] = _answers(stage, policy, result)
        slower = result.slower_share or 0.0
    part.entry["start"] = stage.player.start
    put(part, "slower_share", slower, "")
    asked = [gate for gate in gates if gate["metric"].startswith(_PRICE) and gate["level"] == "fail"]
    prices = _prices(stage, [least for found in answers.values() for least in found.values()])
    for policy, leasts in answers.items():
        for name, least in leasts.items():
            _put(
                part, f"policies.{policy}.{name}", least, prices, asked, _reason(stage, LEVELS[name], slower)
            )
    return part


def _played(stage: _Stage, policy: AfterUnderrun) -> WhatIf:
    """At every lookahead of a grid, or exactly where the policy allows that."""
    index, _ = numbered(stage.blocks)
    options = replace(stage.player, after_underrun=policy)
    exact = policy != "refill" and not options.quantum_ns
    grid = np.arange(0, 1 if exact else MOST_NS + 1, OTHER_STEP_NS, dtype=np.int64)
    # Those that cannot be clean count in a group of their own.
    groups = np.where(stage.whole, index, int(index.max()) + 1)
    return what_if(
        stage.arrivals, options, stage.due_ns, lookaheads_ns=grid, policies=(policy,), groups=groups
    )


def _answers(stage: _Stage, policy: AfterUnderrun, result: WhatIf) -> dict[str, _Least]:
    if result.clean_lookahead_ns is None:
        clean = result.curves[policy].clean_by_group
        return {name: _on_grid(stage, level, result.lookahead_ns, clean) for name, level in LEVELS.items()}
    none = ~stage.whole | (result.clean_lookahead_ns > MOST_NS)
    needed = milliseconds(np.where(none, np.inf, result.clean_lookahead_ns))
    return {name: _exact(needed, stage.blocks, level) for name, level in LEVELS.items()}


def _exact(needed_ms: Floats, blocks: Ints, level: float) -> _Least:
    # Whole milliseconds, up: a prefill of just what stalled is not enough.
    needed_ms = np.ceil(needed_ms)
    bounds = quantile_bounds(needed_ms, blocks, level)
    low = None if bounds.low is None else max(0.0, bounds.low)
    value = nearest_rank(needed_ms, level)
    return _Least(lookahead_ms=value, low_ms=low, high_ms=bounds.high, why=bounds.why)


def _on_grid(stage: _Stage, level: float, grid_ns: Ints, clean: Ints) -> _Least:
    """The first lookahead of the grid with enough clean ones; its bounds are the first that may have enough
    and the first that surely has."""
    index, count = numbered(stage.blocks)
    sizes = np.bincount(index, minlength=count)
    good = np.zeros((len(grid_ns), count), dtype=np.int64)
    common = min(count, clean.shape[1])
    good[:, :common] = clean[:, :common]
    steps = np.append(np.ceil(milliseconds(grid_ns)), np.inf)
    shares = good.sum(axis=1) / len(index)
    value = float(steps[_first(shares >= level - 1e-12)])
    if count < MIN_BLOCKS:
        why = quantile_bounds(np.zeros(len(index)), stage.blocks, level).why
        return _Least(lookahead_ms=value, low_ms=None, high_ms=None, why=why)
    blocks = np.repeat(np.arange(count), sizes)
    ends = np.cumsum(sizes)
    place = np.arange(len(blocks)) - np.repeat(ends - sizes, sizes)
    found = [share_bounds(place < row[blocks], blocks) for row in good]
    low, high = (
        float(steps[_first(np.array([getattr(bounds, side) for bounds in found]) >= level)])
        for side in ("high", "low")
    )
    return _Least(lookahead_ms=value, low_ms=min(low, value), high_ms=max(high, value))


def _first(holds: Bools) -> int:
    """The first place that holds, one past the end if none does."""
    return int(holds.argmax()) if holds.any() else len(holds)


def _prices(stage: _Stage, leasts: Sequence[_Least]) -> dict[float, dict[str, float]]:
    """Lookahead in ms -> quantiles of the time to playback in ms, of those that there are."""
    known = sorted({least.lookahead_ms for least in leasts if np.isfinite(least.lookahead_ms)})
    if not known:
        return {}
    grid = np.round(np.array(known) * NS_PER_MS).astype(np.int64)
    result = what_if(stage.arrivals, stage.player, stage.due_ns, lookaheads_ns=grid, policies=())
    found = {}
    for lookahead, p50, p95 in zip(known, result.playback_p50_ns, result.playback_p95_ns, strict=True):
        found[lookahead] = {
            name: np.inf if value >= PLUS_INF_NS else ms_from_ns(int(value))
            for name, value in (("p50", p50), ("p95", p95))
        }
    return found


def _put(
    part: Part,
    path: str,
    least: _Least,
    prices: Mapping[float, Mapping[str, float]],
    asked: Sequence[Mapping[str, Any]],
    reason: str,
) -> None:
    there = bool(np.isfinite(least.lookahead_ms))
    put(part, f"{path}.lookahead_ms", least.lookahead_ms if there else None, reason, digits=3)
    lacking = least.why or "no lookahead is long enough"
    for name, value in (("low_ms", least.low_ms), ("high_ms", least.high_ms)):
        put(part, f"{path}.{name}", value, lacking, digits=3)
    price = prices.get(least.lookahead_ms, {})
    put(part, f"{path}.time_to_playback_p95_ms", price.get("p95"), reason, digits=3)
    breaks = []
    for gate in asked if there else ():
        value = price.get(gate["metric"].removeprefix(_PRICE))
        if value is not None and not OPS[gate["op"]](value, gate["limit"]):
            breaks.append(gate_text(gate))
    place = part.entry
    for step in path.split("."):
        place = place[step]
    place["breaks"], place["cures"] = breaks, there and not breaks


def _reason(stage: _Stage, level: float, slower: float) -> str:
    """Why no lookahead keeps that many clean."""
    lost = float(np.count_nonzero(~stage.whole)) / len(stage.whole)
    if lost > 1 - level:
        return f"no lookahead helps: {100 * lost:.3g} % of the utterances were cut or too short"
    return SLOWER if slower >= MOSTLY else f"no lookahead up to {MOST_NS // NS_PER_MS} ms keeps so many clean"
