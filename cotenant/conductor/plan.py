"""The ladder as arithmetic: which windows a run walks through, in which order, and how long that takes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.records import AGAIN_SUFFIX, SOLO_PREFIX
from cotenant.scenario.schema import Scenario, Stage
from cotenant.scenario.values import settled

# How often a stage that may be extended is judged while it goes on, its planned end included.
LOOKS = 4
# What a window takes beside settle and measure, at least: the commands' lead, the last utterance, the drain.
LEAST_TAIL_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One measured window of a run: a stage, a solo reference, or the baseline once more.

    `looks_ns`: how long it has been measured at each look; it goes on to the next while a gate is undecided.
    """

    stage: str
    round: int
    loads: tuple[str, ...]
    looks_ns: tuple[int, ...]
    settle_ns: int

    @property
    def measure_ns(self) -> int:
        return self.looks_ns[0]

    @property
    def planned_ns(self) -> int:
        """How long it settles and measures, if no load is late and nothing is extended."""
        return self.settle_ns + self.measure_ns


def used_loads(scenario: Scenario) -> tuple[str, ...]:
    """The loads that at least one stage runs, in the order of the scenario."""
    wanted = {load for stage in scenario.stages for load in stage.load}
    return tuple(name for name in scenario.load if name in wanted)


def used_tenants(scenario: Scenario) -> tuple[str, ...]:
    """The tenants that at least one used load talks to, in the order of the scenario."""
    wanted = {scenario.load[load].tenant for load in used_loads(scenario)}
    return tuple(name for name in scenario.tenants if name in wanted)


def windows(scenario: Scenario) -> tuple[Window, ...]:
    """Solo references, then every round of stages (`shuffled`: seeded), then the baseline again.

    Takes a resolved scenario (no `auto` left in it).
    """
    timing = scenario.timing

    def window(stage: str, round_: int, loads: Sequence[str], *looks_ns: int) -> Window:
        return Window(
            stage=stage, round=round_, loads=tuple(loads), looks_ns=looks_ns, settle_ns=timing.settle_ns
        )

    solo_ns, measure_ns = settled(timing.solo_ns), settled(timing.measure_ns)
    plan = [
        window(SOLO_PREFIX + load, 0, [load], solo_ns)
        for load in used_loads(scenario)
        if scenario.load[load].kind != "voices" and solo_ns > 0
    ]
    for round_ in range(timing.rounds):
        plan += [window(s.name, round_, s.load, *looks_ns(scenario)) for s in _ordered(scenario, round_)]
    baseline = next((stage for stage in scenario.stages if stage.baseline), None)
    if baseline is not None:
        plan.append(window(baseline.name + AGAIN_SUFFIX, 0, baseline.load, measure_ns))
    return tuple(plan)


def looks_ns(scenario: Scenario) -> tuple[int, ...]:
    """How long a stage has been measured at each of its looks: `measure`, then evenly up to `extend` more.

    Fixed beforehand, so that the error level can be split over them. One look where nothing is extended: for
    point estimates every gate with a value is decided.
    """
    measure_ns, extend_ns = settled(scenario.timing.measure_ns), settled(scenario.timing.extend_ns)
    if not extend_ns or scenario.decision != "interval":
        return (measure_ns,)
    return tuple(measure_ns + extend_ns * step // (LOOKS - 1) for step in range(LOOKS))


def _ordered(scenario: Scenario, round_: int) -> list[Stage]:
    stages = list(scenario.stages)
    if scenario.timing.order == "shuffled":
        random.Random(f"{scenario.seed}/{round_}").shuffle(stages)
    return stages
