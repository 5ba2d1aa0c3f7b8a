"""Causes: what the stalls and freezes of a stage are blamed on, how surely, and what is left without a cause.

The first form, from one recording: what was at work while a late chunk was being made, against what was at
work while chunks that came in time were. Nothing is named from overlap alone.
"""

from typing import Any, Final

import numpy as np

from cotenant.units import NS_PER_MS
from cotenant.verdict.causes.against import rtf_of
from cotenant.verdict.causes.blame import (
    ALONE,
    UNATTRIBUTED,
    VOICE,
    WHOLE,
    Blame,
    blame_faces,
    blame_voices,
    was_beside,
)
from cotenant.verdict.causes.entry import Run, control_share, entry_of
from cotenant.verdict.causes.faces import slow_alone, usual_alone
from cotenant.verdict.causes.ratio import RiskRatio
from cotenant.verdict.causes.slow import Slower, added_by, costs_alone
from cotenant.verdict.causes.text import (
    as_often_text,
    beside_text,
    count_text,
    drawn_text,
    listed,
    not_alone_text,
    slow_text,
    times,
)
from cotenant.verdict.causes.veto import NO_HOST, NO_TIMING
from cotenant.verdict.columns import Bools
from cotenant.verdict.stages import StageFacts, a_a_ratios

NO_STALL: Final = "no stall"
WITHIN: Final = "it was at work in all of this stage"
VOICE_TEXT: Final = "{} waited for the voice: its sound came late or stood still"
VETO_TEXT: Final = {
    "own_load": "{} began while our own load process stood still (up to {:.0f} ms)",
    "host": "{} began while the host woke a sleeper late (by up to {:.0f} ms, a large part of the delay)",
}
STARVED_TEXT: Final = "{} began while the tenants used all of their cores"


def causes_of(run: Run, found: StageFacts) -> tuple[list[dict[str, Any]], str]:
    """(The causes of a stage, strongest first, and why there are none)."""
    every = []
    for blame in blames_of(run, found):
        every += _entries(run, found, blame)
    if not every:
        return [], NO_STALL
    every.sort(key=lambda cause: (cause["what"] == UNATTRIBUTED, -(cause["share"] or 0.0)))
    return every, ""


def blames_of(run: Run, found: StageFacts) -> list[Blame]:
    """The stalls of a stage's voices and the freezes of its faces; empty where there are none."""
    ratio = a_a_ratios(run.again).get("rtf_p95")
    voices = blame_voices(run.facts, found, ratio, run.withheld)
    faces = blame_faces(run.facts, found)
    return [blame for blame in (voices, faces) if blame is not None]


def _entries(run: Run, found: StageFacts, blame: Blame) -> list[dict[str, Any]]:
    """A cause for each word that some stall is blamed on, and for each work that is named."""
    entries = []
    for word in ("own_load", "host"):
        if (chosen := blame.word == word).any():
            delays = blame.vetoes.own_ns if word == "own_load" else blame.vetoes.host_ns
            longest = float(np.nanmax(np.append(delays[chosen], 0.0))) / NS_PER_MS
            starved = word == "host" and blame.vetoes.starved[chosen].all()
            told = STARVED_TEXT if starved else VETO_TEXT[word]
            text = told.format(count_text(blame.of, int(chosen.sum()), len(chosen)), longest)
            entries.append(entry_of(run, found, blame, word, None, chosen, text))
    if (chosen := blame.word == VOICE).any():
        follows = [load.follows for load in run.facts.plan.of_kind(found.plan, "faces")]
        text = VOICE_TEXT.format(count_text(blame.of, int(chosen.sum()), len(chosen)))
        entries.append(entry_of(run, found, blame, VOICE, follows[0], chosen, text))
    free = ~np.isin(blame.word, ("own_load", "host", VOICE)) & (blame.vetoes.word == "")
    for name in blame.named:
        one = next(one for one in blame.beside if one.work.name == name)
        chosen = was_beside(blame.events, one) & free
        ratio = blame.ratios[name]
        if not chosen.any() or isinstance(ratio, str):
            continue
        control = control_share(blame, one.beside & one.known)
        text = beside_text(blame.of, one.work.during, ratio, control)
        entries.append(
            entry_of(
                run, found, blame, one.work.what, one.work.who, chosen, text, ratio=ratio, control=control
            )
        )
    for word in (WHOLE, ALONE):
        if (chosen := blame.word == word).any():
            entries.append(_whole(run, found, blame, word, chosen))
    if (chosen := blame.word == UNATTRIBUTED).any():
        entries.append(_left(run, found, blame, chosen))
    return entries


def _whole(run: Run, found: StageFacts, blame: Blame, word: str, chosen: Bools) -> dict[str, Any]:
    """The co-tenants as a whole; or the voice or face that is too slow by itself."""
    if word == ALONE or isinstance(blame.slow, str):
        tenant, text = _face_alone(run, found) if blame.of == "face" else _voice_alone(run, found, blame)
        return entry_of(run, found, blame, ALONE, tenant, chosen, text)
    added = blame.added
    what, who = (_kind_of(blame, added[0]), added[0]) if len(added) == 1 else (WHOLE, None)
    if blame.of == "face":
        assert isinstance(blame.slow, Slower)
        entry = entry_of(run, found, blame, what, who, chosen, drawn_text(added, blame.slow))
        entry["evidence"] |= _bounds("slower_than_solo", blame.slow)
        entry["why"]["risk_ratio"] = f"{WITHIN}: the drawing is compared with the solo window's instead"
        return entry
    costs = costs_alone(run.facts, found, run.stages, a_a_ratios(run.again).get("rtf_p95"))
    cleared = [load for load in added_by(run.facts, found) if load not in added]
    text = slow_text(added, blame.slow, {load: cost for load, cost in costs.items() if load in added})
    if cleared:
        text += f"; {listed(cleared)} came and went within the stage, and stalls did not"
    entry = entry_of(run, found, blame, what, who, chosen, text)
    entry["evidence"] |= {f"slower_beside_{load}": float(f"{cost.value:.4g}") for load, cost in costs.items()}
    if isinstance(blame.slow, Slower):
        entry["evidence"] |= {
            **_bounds("slower_than_baseline", blame.slow),
            "pairs": blame.slow.pairs,
            "rtf": float(f"{blame.slow.rtf:.4g}"),
            "rtf_baseline": float(f"{blame.slow.rtf_baseline:.4g}"),
        }
        entry["why"]["risk_ratio"] = f"{WITHIN}: the making is compared with the baseline's instead"
    else:
        entry["risk_ratio"] = blame.slow.entry()
        entry["why"].pop("risk_ratio", None)
        entry["why"]["control_share"] = "compared with the baseline, where it was not at work"
    return entry


def _bounds(name: str, slow: Slower) -> dict[str, float]:
    """A ratio as evidence: its value under the name, `_low` and `_high` beside it."""
    told = slow.entry()
    return {name: told["value"], f"{name}_low": told["low"], f"{name}_high": told["high"]}


def _face_alone(run: Run, found: StageFacts) -> tuple[str, str]:
    """The tenant that draws too few frames by itself, and the sentence."""
    plan = run.facts.plan
    rates = ((load, slow_alone(run.facts, load.name)) for load in plan.of_kind(found.plan, "faces"))
    load, rate = next((load, rate) for load, rate in rates if rate is not None)
    tenant = plan.scenario.load[load.name].tenant
    return tenant, (
        f"{tenant} draws {rate:.0f} of {load.fps} frames a second with nothing beside it (solo window)"
    )


def _voice_alone(run: Run, found: StageFacts, blame: Blame) -> tuple[str, str]:
    """The tenant whose voice is slower than real time by itself, and the sentence."""
    plan = run.facts.plan
    tenant = plan.scenario.load[plan.of_kind(found.plan, "voices")[0].name].tenant
    return tenant, (
        f"{tenant} takes {rtf_of(found, blame.events):.2f} s to make a second of speech with nothing beside "
        "it: slower than real time"
    )


def _kind_of(blame: Blame, load: str) -> str:
    """What of the only added load was there most."""
    mine = [one for one in blame.beside if one.work.who == load]
    return max(mine, key=lambda one: int(one.beside.sum())).work.what if mine else WHOLE


def _left(run: Run, found: StageFacts, blame: Blame, chosen: Bools) -> dict[str, Any]:
    count = count_text(blame.of, int(chosen.sum()), len(chosen)).replace("all ", "any of the ")
    unknown = chosen & (blame.vetoes.word == "unknown")
    reason = blame.slow if isinstance(blame.slow, str) else ""
    if blame.of == "face":
        reason = not_alone_text(run.facts.plan, found.plan) or reason
    if unknown.any():
        reason = NO_HOST if np.isnan(blame.vetoes.host_ns[unknown]).any() else NO_TIMING
    text = f"no cause is found for {count}" + (f": {reason}" if reason else "")
    if blame.of == "face" and (solo := usual_alone(run.facts, found.plan)):
        ratio_to_solo = blame.units.usual_ns / solo
        text += f"; frames take {times(ratio_to_solo)} times as long to draw as in the solo window"
    entry = entry_of(run, found, blame, UNATTRIBUTED, None, chosen, text)
    for one in blame.beside:
        ratio = blame.ratios.get(one.work.name)
        if isinstance(ratio, RiskRatio) and one.work.name not in blame.named:
            entry["evidence"][one.work.name] = as_often_text(blame.of, one.work.during, ratio)
        elif isinstance(ratio, str):
            entry["evidence"][one.work.name] = None
            entry["why"][f"evidence.{one.work.name}"] = ratio
    if isinstance(blame.slow, str) and blame.slow:
        entry["why"]["against_baseline"] = blame.slow
    entry["why"]["risk_ratio"] = "nothing is blamed"
    return entry
