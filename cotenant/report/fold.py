"""Text folded to the columns of a terminal: no word is lost, one that fits into a line is not cut."""

import textwrap
from collections.abc import Sequence
from typing import Final

_UNBROKEN: Final = "\N{NO-BREAK SPACE}"
# Folded to fewer, words would be cut.
LEAST_WIDTH: Final = 40


def folded(text: str, width: int | None, first: str = "", rest: str | None = None) -> list[str]:
    """Lines of at most `width` columns that begin with `first`, and with `rest` (None: as many spaces) from
    the second on; one line where `width` is None. A line break in `text` stays."""
    indent = " " * len(first) if rest is None else rest
    if width is None:
        return (first + text.replace("\n", "\n" + indent)).rstrip().split("\n")
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lines += textwrap.wrap(
            paragraph,
            max(width, LEAST_WIDTH),
            initial_indent=indent if lines else first,
            subsequent_indent=indent,
            break_on_hyphens=False,
        ) or [(indent if lines else first).rstrip()]
    return lines


def folded_parts(parts: Sequence[str], width: int | None, first: str = "") -> list[str]:
    """The parts with commas between them, none of them broken where it fits into a line."""
    whole = ", ".join(part.replace(" ", _UNBROKEN) for part in parts)
    return [line.replace(_UNBROKEN, " ") for line in folded(whole, width, first)]


def longest_word(texts: Sequence[str]) -> int:
    """Columns of the longest word in any of them."""
    return max((len(word) for text in texts for word in text.split()), default=0)
