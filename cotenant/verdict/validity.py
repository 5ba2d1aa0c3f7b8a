"""Whether a stage was measured as planned: INVALID apart from pass or fail, and the caveats of a stage."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np

from cotenant.records import Recording
from cotenant.units import NS_PER_MS, NS_PER_S, counted
from cotenant.verdict import columns
from cotenant.verdict.caveats import Caveat, caveat
from cotenant.verdict.columns import NULL
from cotenant.verdict.left_out import waited_text, with_reason
from cotenant.verdict.observed import told_by
from cotenant.verdict.plan import Plan, StagePlan
from cotenant.verdict.timing import LIMIT_NS, TimingError

NOTHING_DUE: Final = (
    "no utterance fell due while it was measured, the ones before were still spoken; measure longer "
    "(--set timing.measure=...)"
)
NOT_MEASURED: Final = "it was not measured"
_FOLLOWING = ("drain", "idle")
# Longer than any player waits; a busy machine's hiccups are the timing error's matter.
STOOD_STILL_NS: Final = NS_PER_S


def invalid_because(
    recording: Recording,
    plan: Plan,
    stage: StagePlan,
    errors: Mapping[str, TimingError],
    llm: Mapping[str, Any],
    voices: int,
    *,
    silent: bool,
) -> list[str]:
    """Why the figures of a stage are not those of what was planned; empty where they are.

    `voices`: how many were measured; a baseline without any is no baseline. `silent`: all that did not settle
    are listeners who heard nothing good in the window either.
    """
    found = []
    if stage.baseline and not voices:
        reason = with_reason(NOT_MEASURED, plan, stage.name)
        reason = NOTHING_DUE if stage.name in plan.measured else reason
        found.append(f"the baseline is missing: {reason}")
    for load, error in errors.items():
        if error.spoils(plan.loads[load].kind):
            p99_ns = error.judged_ns(plan.loads[load].kind) or 0
            found.append(
                f"{load}: our own timing error is {p99_ns / NS_PER_MS:.1f} ms at p99, "
                f"over {LIMIT_NS // NS_PER_MS} ms"
            )
    for load, entry in llm.items():
        if entry.get("delivered") is False:
            share = 100 * float(entry["delivered_share"])
            found.append(f"{load}: the load was not delivered ({_delivery(plan, load, share)})")
    found += [
        f"our own load process {name} stood still for {still_ns / NS_PER_S:.1f} s, and sent nothing meanwhile"
        for name, still_ns in _stood_still(recording, plan, stage).items()
    ]
    for kind, name, inside in _faults_of(plan, stage):
        if kind == "settle" and name == stage.name and not silent:
            found.append(f"not every load had its first output {waited_text(plan, stage)}")
        elif kind == "follow" and name == stage.name:
            found.append("the last utterances had not ended when they were given up")
        elif kind == "load" and inside:
            found.append(
                f"our own load process {name} ended" if name else "one of our own load processes ended"
            )
    return found


def _stood_still(recording: Recording, plan: Plan, stage: StagePlan) -> dict[str, float]:
    """Load process -> the longest time, ns, that its loop stood still in the stage, where it is too long.

    A process that is stopped sends late and gives up on what it did not read: not the service's doing.
    """
    rows = columns.table(recording, "host")
    still_ns, told = columns.floats(rows, "value"), columns.ints(rows, "t")
    # It is written 20 times a second, and after a longer halt at once.
    began = told - np.nan_to_num(still_ns).astype(np.int64)
    long = (columns.texts(rows, "metric") == "loop_lag_ns") & (still_ns > STOOD_STILL_NS) & (told != NULL)
    inside = np.zeros(len(told), dtype=np.bool_)
    for window in plan.lived.get(stage.name, ()):
        inside |= (told > window.start_ns) & (began < window.end_ns)
    found: dict[str, float] = {}
    for index in np.flatnonzero(long & inside):
        name = str(columns.texts(rows, "source")[index])
        found[name] = max(found.get(name, 0.0), float(still_ns[index]))
    return found


def caveats(
    recording: Recording, plan: Plan, stage: StagePlan, errors: Mapping[str, TimingError], reordered: int
) -> list[Caveat]:
    """What limits the figures of a stage without making them invalid."""
    found = []
    for load, error in errors.items():
        if error.p99_ns is None and error.arrivals + error.sends:
            share = 100 * error.unknown_share
            found.append(
                caveat(
                    "timing-unknown",
                    f"{load}: our own timing error is unknown for {share:.1f} % of the stamps",
                    unknown_share=error.unknown_share,
                )
            )
    for kind, name, inside in _faults_of(plan, stage):
        if kind == "tenant" and inside:
            tenant = plan.scenario.tenants.get(name)
            log = f"{name}@*.log" if tenant is not None and tenant.replicas > 1 else f"{name}.log"
            found.append(caveat("tenant-ended", f"the tenant {name} ended in this stage", f"see logs/{log}"))
        elif kind == "refused" and inside:
            text = f"nothing listened at {name} any more: it refused every connection"
            found.append(caveat("tenant-refused", text, "see its log; what it is started by may say why"))
        elif kind == "observer" and inside:
            said = str(told_by(recording, name).get("said") or "")
            text = f"the observer {name} ended in this stage" + (f" ({said})" if said else "")
            found.append(caveat("observer-ended", text, f"see logs/own/observer-{name}.log"))
        elif kind in _FOLLOWING and name != stage.name and _follows(plan, stage, name):
            text = f"a tenant was still at work from {name} when this stage began"
            found.append(caveat("not-idle", text))
    if reordered:
        text = f"{counted(reordered, 'stream')} of this run had rows out of order; they were sorted"
        found.append(caveat("reordered", text, streams=reordered))
    return found


def _delivery(plan: Plan, load: str, share: float) -> str:
    if plan.loads[load].mode == "rate":
        return f"{share:.1f} % of the requests were sent within 100 ms of due, 95 % are asked"
    return f"its streams were in flight {share:.1f} % of the time, 95 % are asked"


def _faults_of(plan: Plan, stage: StagePlan) -> list[tuple[str, str, bool]]:
    """(Kind, of what, whether it fell into the stage) of every fault of the run."""
    lived = plan.lived.get(stage.name, ())
    found = []
    for t_ns, text in plan.faults:
        kind, _, name = text.partition(":")
        found.append((kind, name, any(span.start_ns <= t_ns <= span.end_ns for span in lived)))
    return list(dict.fromkeys(found))


def _follows(plan: Plan, stage: StagePlan, former: str) -> bool:
    """Whether any window of the stage is the next after one of `former`."""
    spans = sorted((span.start_ns, name) for name, windows in plan.lived.items() for span in windows)
    return any(one == former and other == stage.name for (_, one), (_, other) in pairwise(spans))
