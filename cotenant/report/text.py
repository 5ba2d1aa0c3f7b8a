"""Words and numbers of a summary as plain text: safe to print, whatever a scenario or a server put into
them."""

import re
from collections.abc import Mapping
from typing import Any, Final

from cotenant.plain import without_controls
from cotenant.units import format_share
from cotenant.verdict.left_out import NOT_MEASURED
from cotenant.verdict.sample import look_up
from cotenant.verdict.summary import exit_code, failed_unmeasured

_LONGEST: Final = 300
# It ends with what to do.
_LONGEST_ERROR: Final = 900


def safe(text: object, longest: int = _LONGEST) -> str:
    """One line without control characters, escapes and direction marks, at most `longest` characters."""
    line = re.sub(r"\s+", " ", str(text)).strip()
    shown = without_controls(line)
    return shown if len(shown) <= longest else shown[: longest - 3] + "..."


def number(entry: Mapping[str, Any], path: str) -> float | None:
    """The number at a dotted path of a stage's entry, infinities restored; None where there is none."""
    return look_up(entry, path)[0]


def run_word(summary: Mapping[str, Any]) -> str:
    """The verdict on a run: PASS, FAIL, INCONCLUSIVE, INVALID or COULD NOT RUN, that of its exit code."""
    return exit_code(summary).name.replace("_", " ")


def could_not_run(summary: Mapping[str, Any]) -> bool:
    """Whether the run failed before anything was measured: its error is all there is to tell."""
    return failed_unmeasured(summary)


def error_text(summary: Mapping[str, Any]) -> str:
    """What a run that failed ended by, on one line; `""` for one that did not."""
    return safe(summary.get("error") or "", _LONGEST_ERROR)


def not_measured(stage: Mapping[str, Any]) -> bool:
    """Whether a stage has no measure window."""
    return str((stage.get("why") or {}).get("verdict") or "").startswith(NOT_MEASURED)


def stalled_text(entry: Mapping[str, Any]) -> str:
    """The stall ratio of a stage with one digit."""
    value = number(entry, "speech.stall_ratio")
    if value is not None and value == float("inf"):
        return "inf"
    return format_share(value, 1) if value else "-" if value is None else "0.0 %"
