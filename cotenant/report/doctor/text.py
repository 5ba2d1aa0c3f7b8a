"""Findings as a list for people: topic, a word, the text; what mends it below. Folds to the width."""

import textwrap
from collections.abc import Sequence
from typing import Final

from cotenant.report.doctor.finding import Finding
from cotenant.report.text import safe

_LEAST_WIDTH: Final = 40
_WIDE: Final = 80
_NARROW_INDENT: Final = 2
_WORD_WIDTH: Final = 9
_LONGEST: Final = 600


def render(heading: str, found: Sequence[Finding], width: int) -> str:
    """The heading, a line or more a finding, and how many of each word there are."""
    width = max(width, _LEAST_WIDTH)
    lines = _folded(heading, "", "", width)
    column = min(max((len(one.topic) for one in found), default=0) + 2, 12)
    last = ""
    for one in found:
        topic = "" if one.topic == last else safe(one.topic, column - 2)
        last = one.topic
        first = f"{topic:<{column}}{one.word:<{_WORD_WIDTH}}"
        lines += _folded(one.text, first, " " * len(first), width)
        if one.advice:
            indent = " " * (len(first) if width >= _WIDE else _NARROW_INDENT)
            lines += _folded(one.advice, indent + "-> ", indent + "   ", width)
    return "\n".join(lines) + "\n"


def _folded(text: str, first: str, rest: str, width: int) -> list[str]:
    return textwrap.wrap(
        safe(text, _LONGEST),
        width=width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=True,
        break_on_hyphens=False,
    ) or [first.rstrip()]
