"""Words and numbers of a summary as plain text: safe to print, whatever a scenario or a server put into
them."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from cotenant.units import format_share
from cotenant.verdict.sample import look_up
from cotenant.verdict.summary import exit_code

_LONGEST: Final = 300
# Directions that reorder what follows them on a line: as dangerous to a reader as control characters.
_REORDERING: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def safe(text: object, longest: int = _LONGEST) -> str:
    """One line without control characters, escapes and direction marks, at most `longest` characters."""
    line = re.sub(r"\s+", " ", str(text)).strip()
    shown = "".join(
        "?" if unicodedata.category(character).startswith("C") or character in _REORDERING else character
        for character in line
    )
    return shown if len(shown) <= longest else shown[: longest - 3] + "..."


def number(entry: Mapping[str, Any], path: str) -> float | None:
    """The number at a dotted path of a stage's entry, infinities restored; None where there is none."""
    return look_up(entry, path)[0]


def run_word(summary: Mapping[str, Any]) -> str:
    """The verdict on a run in one word: PASS, FAIL, INCONCLUSIVE or INVALID, that of its exit code."""
    return exit_code(summary).name


def stalled_text(entry: Mapping[str, Any]) -> str:
    """The stall ratio of a stage with one digit."""
    value = number(entry, "speech.stall_ratio")
    if value is not None and value == float("inf"):
        return "inf"
    return format_share(value, 1) if value else "-" if value is None else "0.0 %"
