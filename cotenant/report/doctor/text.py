"""Findings as a list for people: topic, a word, the text; what mends it below. Folds to the width."""

from collections.abc import Sequence
from typing import Final

from cotenant.report.doctor.finding import Finding
from cotenant.report.fold import folded
from cotenant.report.text import safe

_WIDE: Final = 80
_NARROW: Final = 60
_TOPIC_WIDTH: Final = 10
_NARROW_INDENT: Final = 2
_WORD_WIDTH: Final = 9
_LONGEST: Final = 600


def render(heading: str, found: Sequence[Finding], width: int) -> str:
    """The heading, a line or more a finding. A topic that is too long for its column, or any where columns
    are few, has a line of its own."""
    lines = folded(safe(heading, _LONGEST), width)
    names = [safe(one.topic) for one in found]
    topics = max((len(name) for name in names if len(name) <= _TOPIC_WIDTH), default=0)
    column = topics + 2 if width >= _NARROW else _NARROW_INDENT
    last = ""
    for one, name in zip(found, names, strict=True):
        topic = "" if name == last else name
        last = name
        if len(topic) > column - 2:
            lines += folded(topic, width)
            topic = ""
        first = f"{topic:<{column}}{one.word:<{_WORD_WIDTH}}"
        lines += folded(safe(one.text, _LONGEST), width, first)
        if one.advice:
            indent = " " * (len(first) if width >= _WIDE else _NARROW_INDENT)
            lines += folded(safe(one.advice, _LONGEST), width, indent + "-> ")
    return "\n".join(lines) + "\n"
