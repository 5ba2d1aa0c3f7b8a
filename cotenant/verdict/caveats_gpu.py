"""What the GPU itself did to a stage: throttled, changed its clocks, served others, or was not watched."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant.records import Recording
from cotenant.verdict.caveats import Caveat, caveat
from cotenant.verdict.caveats_throttle import SPOILING, mean_of, percent, throttle_share, throttled
from cotenant.verdict.plan import Plan, Window
from cotenant.verdict.watched import (
    COVERAGE,
    Presence,
    canary_coverage,
    ever_known,
    known_until_s,
    presence,
    refuted_shares,
)

# A p95 can be made by a twentieth of the time: beyond it the figures are those of another GPU.
SPOILED_SHARE: Final = 0.05
# A boost step is 15 MHz, under 1 %; 3 % is more than temperature moves a healthy card between stages.
CLOCK_SHARE: Final = 0.03
# The same load at clocks a tenth apart: as large as the effects that the ladder is there to find.
CLOCK_SPOILED_SHARE: Final = 0.1

_WATCHED: Final[Mapping[str, str]] = {
    "sm_percent": "SM use",
    "dram_percent": "DRAM use",
    "sm_clock_mhz": "the SM clock",
    "memory_used_bytes": "memory",
}
_DOUBTED: Final[Mapping[str, str]] = {
    "sm_percent": "SM use",
    "sm_occupancy_percent": "SM occupancy",
    "dram_percent": "DRAM use",
    "nvml_utilization_percent": "NVML's utilization",
}
_LOG: Final = "see logs/own/observer-gpu.log in the run"


@dataclass(slots=True, kw_only=True)
class Findings:
    """Of one stage: why it is INVALID, and its caveats."""

    invalid: list[str] = field(default_factory=list)
    caveats: list[Caveat] = field(default_factory=list)

    def spoil(self, found: Caveat) -> None:
        """Takes a caveat that makes the stage INVALID."""
        self.invalid.append("; ".join(filter(None, (found["text"], found["advice"]))))
        self.caveats.append(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is known of a stage: the `gpu` part of its entry, and its measure windows."""

    gpu: Mapping[str, Any]
    windows: tuple[Window, ...]


def machine_findings(
    recording: Recording,
    plan: Plan,
    stage: Watched,
    baseline: Watched | None,
    *,
    drifted: bool,
    is_baseline: bool,
) -> Findings:
    """Of one stage against the baseline (None: there is none, or this is it).

    `drifted`: the two baselines had different clocks, so that this stage's cannot be laid to its load.
    """
    found = Findings()
    for item in throttled(stage.gpu):
        spoils = item["throttled_share"] > SPOILED_SHARE and item["kind"] in SPOILING
        (found.spoil if spoils else found.caveats.append)(item)
    if baseline is not None:
        for item in _clocks(stage.gpu, baseline.gpu):
            (found.spoil if drifted and item["kind"] == "clocks-drifted" else found.caveats.append)(item)
    _others(found, recording, plan, stage, stage if is_baseline else baseline)
    found.caveats += _coverage(recording, stage)
    return found


def clock_ratio(gpu: Mapping[str, Any], baseline: Mapping[str, Any]) -> float | None:
    """The mean SM clock over the baseline's; None where either is unknown."""
    own, reference = mean_of(gpu, "sm_clock_mhz"), mean_of(baseline, "sm_clock_mhz")
    return own / reference if own is not None and reference else None


def baselines_drifted(again: Mapping[str, Any], baseline: Mapping[str, Any]) -> str:
    """Why the clocks of the two baselines spoil what lies between them; "" where they do not."""
    ratio = clock_ratio(again, baseline)
    if ratio is None or abs(ratio - 1) <= CLOCK_SPOILED_SHARE:
        return ""
    return (
        f"the SM clock of the closing baseline was {ratio:.2f} times that of the first "
        f"({mean_of(again, 'sm_clock_mhz'):.0f} against {mean_of(baseline, 'sm_clock_mhz'):.0f} MHz)"
    )


def _clocks(gpu: Mapping[str, Any], baseline: Mapping[str, Any]) -> Iterator[Caveat]:
    ratio = clock_ratio(gpu, baseline)
    if ratio is None or abs(ratio - 1) <= CLOCK_SHARE:
        return
    own, reference = mean_of(gpu, "sm_clock_mhz"), mean_of(baseline, "sm_clock_mhz")
    numbers = {"sm_clock_ratio": ratio, "sm_clock_mhz": own, "baseline_sm_clock_mhz": reference}
    said = f"the SM clock was {ratio:.2f} times the baseline's ({own:.0f} against {reference:.0f} MHz)"
    # Held down for a share of the time, a mean cannot fall by more than that share.
    if 1 - ratio <= (throttle_share(gpu, "power") or 0.0) and ratio < 1:
        yield caveat(
            "clocks-power",
            f"{said}: the stage's own load lowered it, by the power cap",
            "a part of what sharing this card costs",
            **numbers,
        )
        return
    why = (
        "lower, and not by the power cap" if ratio < 1 else "higher: the baseline was slower than it could be"
    )
    yield caveat(
        "clocks-drifted",
        f"{said}, {why}",
        "lock the clocks (nvidia-smi --lock-gpu-clocks, as administrator), or warm the GPU up, and run again",
        **numbers,
    )


def _others(
    found: Findings, recording: Recording, plan: Plan, stage: Watched, reference: Watched | None
) -> None:
    """Processes on the GPU that are none of this run's."""
    own = presence(recording, stage.windows)
    if own is None:
        return
    expected = presence(recording, reference.windows) if reference is not None else None
    if own.most:
        found.caveats.append(_foreign(own, plan))
    if expected is None:
        return
    share = own.share_unlike(expected.usual)
    if not share and not own.swapped:
        return
    item = caveat(
        "foreign-came-or-went",
        f"processes that are none of this run's came to the GPU or left it ({own.least} to {own.most} in "
        f"this stage, {expected.usual} in the baseline; {percent(share)} of the time differs)",
        "keep others off this GPU while the run lasts, then run again",
        processes_least=own.least,
        processes_most=own.most,
        baseline_processes=expected.usual,
        differing_share=share,
    )
    spoils = share > SPOILED_SHARE or own.swapped
    (found.spoil if spoils else found.caveats.append)(item)


def _foreign(own: Presence, plan: Plan) -> Caveat:
    size = "" if own.memory_bytes is None else f" with {own.memory_bytes / 2**30:.1f} GiB of its memory"
    one = own.most == 1
    text = f"{own.most} process{' that is' if one else 'es that are'} none of this run's held the GPU{size}"
    attached = [name for name, tenant in plan.scenario.tenants.items() if tenant.engine == "attach"]
    if attached:
        text += f"; attached services are counted with them ({', '.join(attached)})"
    return caveat(
        "foreign-process",
        text,
        "they take part in what was measured: end them, or choose another GPU",
        processes=own.most,
        memory_bytes=own.memory_bytes,
    )


def _coverage(recording: Recording, stage: Watched) -> Iterator[Caveat]:
    if not stage.windows:
        return
    refuted = refuted_shares(recording, tuple(_DOUBTED), stage.windows)
    if refuted:
        told = ", ".join(f"{_DOUBTED[name]} for {percent(share)}" for name, share in refuted.items())
        yield caveat(
            "implausible-zeros",
            f"the driver reported exactly 0 while the GPU was at work: {told} of the time; these zeros count "
            "as missing",
            "go by the canary and what was heard, not by these readings; another driver may count them",
            **{f"{name}_share": share for name, share in refuted.items()},
        )
    known = ever_known(recording) - refuted.keys()
    shares = {
        name: float(stage.gpu.get(name, {}).get("coverage") or 0.0) for name in _WATCHED if name in known
    }
    low = {name: share for name, share in shares.items() if share < COVERAGE}
    if low and len(low) == len(shares):
        until = known_until_s(recording, tuple(low), stage.windows)
        when = "" if until is None else f" (the last one {until:.1f} s into the run)"
        share = max(low.values())
        yield caveat(
            "gpu-observer-lost",
            f"the GPU's readings are there for {percent(share)} of the time only{when}",
            _LOG,
            coverage=share,
        )
    elif low:
        told = ", ".join(f"{_WATCHED[name]} for {percent(share)}" for name, share in low.items())
        yield caveat(
            "gpu-coverage", f"known only for a part of the time: {told}", _LOG, coverage=min(low.values())
        )
    ran = canary_coverage(recording, stage.windows)
    if ran is not None and ran < COVERAGE:
        yield caveat(
            "canary-lost",
            f"the GPU canary ran in {percent(ran)} of the seconds only",
            "see logs/own/observer-gpu-canary.log in the run",
            coverage=ran,
        )
