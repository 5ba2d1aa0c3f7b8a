"""What others say, as it may be stored: without secrets and control characters, and short."""

import itertools
from collections.abc import Iterable
from typing import Final

_LIMIT: Final = 500  # characters
_HIDDEN: Final = "***"
# So many characters of a secret in a row are hidden also where the rest of it is missing.
_PART: Final = 8


def storable(text: str, secrets: Iterable[str]) -> str:
    """At most 500 characters that can be printed; secrets and parts of them are `***`."""
    for secret in secrets:
        text = _without(text, secret)
    return "".join(c if c.isprintable() else " " for c in text[:_LIMIT]).strip()


def _without(text: str, secret: str) -> str:
    if len(secret) <= _PART:
        return text.replace(secret, _HIDDEN) if secret else text
    parts = {secret[i : i + _PART] for i in range(len(secret) - _PART + 1)}
    hidden = bytearray(len(text))
    for i in range(len(text) - _PART + 1):
        if text[i : i + _PART] in parts:
            hidden[i : i + _PART] = b"\1" * _PART
    groups = itertools.groupby(zip(text, hidden, strict=True), key=lambda pair: pair[1])
    return "".join(_HIDDEN if hide else "".join(c for c, _ in run) for hide, run in groups)
