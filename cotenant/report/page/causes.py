"""What each stall of an utterance waited for, in a sentence."""

from collections.abc import Mapping
from typing import Any, Final

from cotenant.report.page.base import Base, ms
from cotenant.verdict.causes.stalls import Stall, stalls

# The longest ones; the rest are on the time axis.
MOST_CAUSES: Final = 20


def causes_by_stream(base: Base, summary: Mapping[str, Any]) -> dict[int, list[dict[str, Any]]]:
    """Stream -> its stalls that have something to say, the longest first."""
    told = {stage["name"]: stage.get("causes") or [] for stage in summary["stages"]}
    due = dict(
        zip(base.facts.voices.streams.stream.tolist(), base.facts.voices.streams.due.tolist(), strict=True)
    )
    found: dict[int, list[Stall]] = {}
    for stage in base.stages:
        for stall in stalls(base.facts, stage, told.get(stage.name, [])):
            if stall.of == "voice":
                found.setdefault(stall.stream, []).append(stall)
    return {
        stream: [
            {
                "what": stall.what,
                "who": stall.who,
                "text": stall.text,
                "start_ms": ms(stall.start_ns - due[stream]),
                "duration_ms": ms(stall.duration_ns),
            }
            for stall in sorted(mine, key=lambda one: (-one.duration_ns, one.start_ns))[:MOST_CAUSES]
        ]
        for stream, mine in found.items()
    }
