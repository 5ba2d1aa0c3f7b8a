"""One cause as it stands in the summary, and what causes need to know of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.verdict.causes.blame import (
    Blame,
)
from cotenant.verdict.causes.evidence import evidence_of
from cotenant.verdict.causes.ratio import RiskRatio
from cotenant.verdict.causes.work import Work
from cotenant.verdict.columns import Bools
from cotenant.verdict.facts import Facts
from cotenant.verdict.stages import StageFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the causes of a stage need to know of the others."""

    facts: Facts
    stages: Sequence[StageFacts]
    again: StageFacts | None
    withheld: str


def entry_of(
    run: Run,
    found: StageFacts,
    blame: Blame,
    what: str,
    who: str | None,
    chosen: Bools,
    text: str,
    *,
    ratio: RiskRatio | None = None,
    control: float | None = None,
) -> dict[str, Any]:
    late = np.zeros(len(blame.units.start_ns), dtype=np.bool_)
    late[blame.events.unit[chosen & (blame.events.unit >= 0)]] = True
    works: list[Work] = [one.work for one in blame.beside]
    evidence, why = evidence_of(run.facts, found.plan, blame.units, late, works)
    total = int(blame.events.duration_ns.sum())
    share = float(blame.events.duration_ns[chosen].sum()) / total if total else None
    reasons = {f"evidence.{name}": reason for name, reason in why.items()}
    if ratio is None:
        reasons["risk_ratio"] = "it is no co-tenant that comes and goes"
    if control is None:
        reasons["control_share"] = "it is no co-tenant that comes and goes"
    return {
        "what": what,
        "who": who,
        "of": blame.of,
        "text": text,
        "stalls": int(np.count_nonzero(chosen)),
        "share": None if share is None else round(share, 6),
        "control_share": None if control is None else round(control, 6),
        "risk_ratio": None if ratio is None else ratio.entry(),
        "evidence": evidence,
        "why": reasons,
    }


def control_share(blame: Blame, beside: Bools) -> float | None:
    in_time = ~blame.units.late
    return float(beside[in_time].mean()) if in_time.any() else None
