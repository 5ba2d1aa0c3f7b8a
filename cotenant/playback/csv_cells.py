"""One cell of a CSV table: its exact nanoseconds, or the words for what is wrong with it."""

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from cotenant.errors import UserError
from cotenant.units import NS_PER_MS

# Arrivals and sums of durations are kept below this, so that no later sum leaves int64.
LARGEST_NS: Final = 2**61

_NUMBER: Final = re.compile(r"\+?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_PLAIN: Final = re.compile(r"\d{1,13}(\.\d{0,6})?", re.ASCII)
_DECIMALS: Final = Context(prec=60, rounding=ROUND_HALF_EVEN)


def exact_ns(text: str, name: str, where: str) -> int:
    """Decimal milliseconds -> ns, exactly; digits below a nanosecond are rounded half to even.

    Raises UserError, with the column's name and `where` the cell stands, for what is no such time.
    """
    if _PLAIN.fullmatch(text):
        whole, _, part = text.partition(".")
        value_ns = int(whole) * NS_PER_MS + int(part.ljust(6, "0"))
    elif _NUMBER.fullmatch(text):
        rough_ns = float(text) * NS_PER_MS
        if rough_ns == 0 or rough_ns > LARGEST_NS:
            value_ns = 0 if rough_ns == 0 else LARGEST_NS + 1
        else:
            value_ns = int(_DECIMALS.to_integral_value(_DECIMALS.multiply(Decimal(text), Decimal(NS_PER_MS))))
    else:
        raise UserError(f"{where}: {name} is {shown(text)}{_wrong_number(text)}")
    if value_ns > LARGEST_NS:
        raise UserError(f"{where}: {name} is {shown(text)}; more than 73 years of milliseconds is no time")
    return value_ns


def _wrong_number(text: str) -> str:
    bare = text.lower().lstrip("+-")
    if bare in ("nan", "inf", "infinity"):
        return "; a finite number of milliseconds is needed"
    if text.startswith("-") and (_NUMBER.fullmatch(text[1:])):
        return "; a time cannot be negative"
    return "; a number of milliseconds is needed, as in 12.5"


def choices(allowed: frozenset[str] | None) -> str:
    """What a word may be, as the end of a sentence; None: anything."""
    if allowed is None:
        return "; a name is needed"
    return f"; it is one of {', '.join(sorted(allowed - {''}))}"


def is_text(word: str) -> bool:
    """Whether all of it was UTF-8: what was not stands there as lone surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in word)


def shown(text: str) -> str:
    """A cell as a message quotes it."""
    return "empty" if not text else ascii(text if len(text) <= 40 else text[:40] + "...")
