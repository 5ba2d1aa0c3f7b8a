"""LLMs that gave nothing while a stage was measured: a voice that is good beside one shows nothing.

A server that hangs takes connections and answers none of them: its load is in flight all the time, delivered
by all that is known of it, and the device is free. So a stage in which a tenant gave no token at all, though
it was asked for some, can fail and never passes by that.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from cotenant.units import counted
from cotenant.verdict import columns
from cotenant.verdict.caveats import Caveat, caveat
from cotenant.verdict.columns import NULL
from cotenant.verdict.facts import Facts
from cotenant.verdict.plan import StagePlan, within


def silent_llms(facts: Facts, stage: StagePlan) -> dict[str, int]:
    """Tenant -> how many requests it had in the stage's measure windows, where none of its loads got a token
    in them. One of which nothing was asked there is none, and a solo window has nothing beside it."""
    windows = () if stage in facts.plan.solos else facts.plan.measured.get(stage.name, ())
    by_tenant: dict[str, list[str]] = {}
    for load in facts.plan.of_kind(stage, "completions"):
        by_tenant.setdefault(facts.plan.scenario.load[load.name].tenant, []).append(load.name)
    found = {}
    for tenant, loads in by_tenant.items():
        mine = (facts.tokens.streams.stage == stage.name) & np.isin(facts.tokens.streams.load, loads)
        rows = np.flatnonzero(mine)
        streams = facts.tokens.streams.take(rows)
        arrival_ns = facts.tokens.arrival_ns[columns.rows_of(facts.tokens.offsets, rows)]
        asked = within(streams.due, windows)
        for window in windows:
            over = (streams.done != NULL) & (streams.done <= window.start_ns)
            asked |= (streams.sent != NULL) & (streams.sent < window.end_ns) & ~over
        if asked.any() and not within(arrival_ns, windows).any():
            found[tenant] = int(np.count_nonzero(asked))
    return found


def why_nothing_shown(silent: Mapping[str, int]) -> str:
    """Why no gate of the stage passes; `""` where each LLM gave something."""
    if not silent:
        return ""
    who, whose = " and ".join(silent), "its log" if len(silent) == 1 else "their logs"
    return (
        f"{who} gave nothing while this was measured, so nothing was shown beside "
        f"{'it' if len(silent) == 1 else 'them'}; measure longer than a prompt takes, or look at {whose}"
    )


def silent_llm_caveats(silent: Mapping[str, int]) -> Iterator[Caveat]:
    """One of each such tenant."""
    for tenant, requests in silent.items():
        yield caveat(
            "llm-silent",
            f"{tenant} gave no token while this was measured, of {counted(requests, 'request')} that it had",
            "what passes beside it is left undecided: measure longer than a prompt takes "
            "(--set timing.measure=...), or look at its log",
            requests=requests,
        )
