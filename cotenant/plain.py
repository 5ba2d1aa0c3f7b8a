"""Text that cannot steer a terminal: what a user, a file or a service wrote, safe to print as it is."""

import unicodedata
from typing import Final

# Directions that reorder what follows them on a line: as dangerous to a reader as control characters.
REORDERING: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def without_controls(text: str) -> str:
    """The text with `?` for every control character, escape and direction mark; tabs and line breaks stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if character in "\n\t" or is_plain(character) else "?" for character in text)


def one_line(text: object) -> str:
    """A name or a path for a sentence: a line break as `\\n`, a tab as `\\t`, `?` for controls."""
    shown = str(text).replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return without_controls(shown)


def is_plain(character: str) -> bool:
    """Whether a character shows itself and nothing else: no control, format, private or lone surrogate."""
    return not unicodedata.category(character).startswith("C") and character not in REORDERING
