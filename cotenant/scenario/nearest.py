"""What was probably meant by a word that is none of those to choose from. Pure."""

import itertools
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from cotenant.plain import one_line

SUGGESTIONS: Final = 20
_CHOICES: Final = 40


def nearest(word: object, choices: Iterable[str], *, number: int = 0) -> str:
    """`did you mean 'voices'? (a, b, voices)`, or the choices alone where none is near.

    `number` of the same kind were told before: from SUGGESTIONS on none is searched, for that takes long.
    """
    known = [one_line(choice) for choice in itertools.islice(choices, _CHOICES + 1)]
    if not known:
        return "there are none to choose from; add one"
    shown = ", ".join(known[:_CHOICES]) + (", ..." if len(known) > _CHOICES else "")
    close = get_close_matches(str(word)[:64], known, n=1, cutoff=0.6) if number < SUGGESTIONS else []
    return f"did you mean {close[0]!r}? ({shown})" if close else f"use one of: {shown}"
