"""The reason of a verdict in one short line, for where a whole sentence has no room."""

import re
from collections.abc import Mapping
from typing import Any, Final

from cotenant.report.text import run_word, safe
from cotenant.report.why import decisive, why_lines

_LONGEST: Final = 120
_INTERVAL: Final = re.compile(r"\s*\([^()]*\b(?:interval|pairs?)\b[^()]*\)")


def banner_line(summary: Mapping[str, Any]) -> str | None:
    """Of a failure its first cause, or that none was found; of what is left open what most gates lack; None
    where there is nothing to explain."""
    stage, _ = decisive(summary)
    word = run_word(summary)
    if stage is None:
        return None
    if word == "INCONCLUSIVE":
        lacking = _lacked_most(stage)
        return first_clause(lacking) if lacking else None
    lines = why_lines(summary) if word == "FAIL" else []
    return first_clause(lines[0].removeprefix(f"{safe(stage['name'])}: ")) if lines else None


def first_clause(text: str) -> str:
    """Up to the first semicolon, without the intervals in brackets; what is longer than a line ends at a
    word, with an ellipsis."""
    clause = _INTERVAL.sub("", text).split("; ")[0].strip()
    if len(clause) <= _LONGEST:
        return clause
    cut = clause[:_LONGEST]
    comma = cut.rfind(", ")
    end = comma if comma > _LONGEST / 2 else cut.rfind(" ")
    return f"{cut[:end] if end > 0 else cut} …"


def _lacked_most(stage: Mapping[str, Any]) -> str:
    """The reason that leaves most gates of a stage open; of as many, the one that came first."""
    counts: dict[str, int] = {}
    for gate in stage["gates"]:
        if gate["verdict"] == "inconclusive" and gate["level"] == "fail":
            why = gate["why"]
            reason = safe(why.get("verdict") or why.get("value") or "")
            counts[reason] = counts.get(reason, 0) + 1
    return max(counts, key=counts.__getitem__, default="")
