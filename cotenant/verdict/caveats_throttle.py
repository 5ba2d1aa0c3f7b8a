"""What held the GPU's clocks down in a stage: the power cap, heat, the hardware, another GPU."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant.verdict.caveats import Caveat, caveat

# Under one part in a hundred of the time, no share and no p95 of a stage would show it.
SEEN_SHARE: Final = 0.01

# Reason -> its metrics: counters of time, and samples for where there are no counters.
_REASONS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "power": (("throttle_power_cap_share",), ("clock_event_power_cap",)),
    "thermal": (
        ("throttle_sw_thermal_share", "throttle_hw_thermal_share"),
        ("clock_event_sw_thermal", "clock_event_hw_thermal"),
    ),
    # A slowdown by an outside signal has no counter.
    "hw": (
        ("throttle_hw_power_brake_share", "clock_event_hw_slowdown"),
        ("clock_event_hw_power_brake", "clock_event_hw_slowdown"),
    ),
    "sync-boost": (("throttle_sync_boost_share",), ("clock_event_sync_boost",)),
}
# Kinds of caveat that a healthy card never has, whatever runs on it.
SPOILING: Final = ("throttle-thermal", "throttle-hw")
_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "power": (
        "the power cap held the clocks down for {share} of the time",
        "a part of what sharing this card costs; a higher power limit, where there is one, eases it",
    ),
    "thermal": (
        "the GPU was too hot and held its clocks down for {share} of the time",
        "let it cool down, mend its cooling or lower its power limit, then run again",
    ),
    "hw": (
        "the hardware slowed the GPU down for {share} of the time (power brake or overheating)",
        "check its power supply, cables and cooling, then run again",
    ),
    "sync-boost": (
        "another GPU of its sync boost group held the clocks down for {share} of the time",
        "take it out of the group (nvidia-smi boost-slider), then run again",
    ),
}


def throttle_share(gpu: Mapping[str, Any], reason: str) -> float | None:
    """The share of the time in which the clocks were held down for this reason; None where unknown."""
    for names in _REASONS[reason]:
        known = [share for name in names if (share := mean_of(gpu, name)) is not None]
        if known:
            return min(1.0, max(known))
    return None


def throttled(gpu: Mapping[str, Any]) -> Iterator[Caveat]:
    """A caveat for each reason that held the clocks down for long enough to be seen."""
    for reason, (text, advice) in _WORDS.items():
        share = throttle_share(gpu, reason)
        if share is not None and share >= SEEN_SHARE:
            clock = mean_of(gpu, "sm_clock_mhz")
            said = text.format(share=percent(share))
            said += "" if clock is None else f" (SM clock {clock:.0f} MHz on average)"
            yield caveat(f"throttle-{reason}", said, advice, throttled_share=share, sm_clock_mhz=clock)


def mean_of(gpu: Mapping[str, Any], name: str) -> float | None:
    """The mean of a metric of a stage's `gpu` entry; None where it is unknown."""
    value = gpu.get(name, {}).get("mean")
    return None if value is None else float(value)


def percent(share: float) -> str:
    """A share of the time, with a digit more where it is small."""
    return f"{100 * share:.0f} %" if share >= 0.1 or not share else f"{100 * share:.1f} %"
