"""What others say, as it may be stored: without secrets and control characters, and short."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from cotenant.scenario.hidden import needles
from cotenant.secret_forms import Span, form_spans, hide

_LIMIT: Final = 500  # characters
_HIDDEN: Final = "***"
# So many characters of a secret in a row are hidden also where the rest of it is missing.
_PART: Final = 8
# Far more is looked at than is stored, so that what is cut has been hidden before. Of what was looked at the
# end may be half a secret.
_LOOKED_AT: Final = 4096
_UNSURE: Final = 1024


def storable(text: str, secrets: Sequence[str]) -> str:
    """At most 500 characters that can be printed; `secrets`, parts of them and what is one by its form are
    `***`.

    A service may refuse a thousand requests a second with the same words: they are looked at once.
    """
    return _storable(text[: _LOOKED_AT + 1], tuple(secrets))


@lru_cache(maxsize=64)
def _storable(text: str, secrets: tuple[str, ...]) -> str:
    whole = len(text) <= _LOOKED_AT
    exact, parts = _sought(secrets)

    def find(told: str) -> Iterator[Span]:
        yield from form_spans(told)
        for secret in exact:
            at = told.find(secret)
            while at >= 0:
                yield at, at + len(secret)
                at = told.find(secret, at + len(secret))
        begin = end = -1
        for at in range(len(told) - _PART + 1 if parts else 0):
            if told[at : at + _PART] in parts:
                if at > end:
                    if end > 0:
                        yield begin, end
                    begin = at
                end = at + _PART
        if end > 0:
            yield begin, end

    hidden = hide(text, find, _HIDDEN)
    if not whole:
        hidden = hidden[: max(0, len(hidden) - _UNSURE)]
    return "".join(c if c.isprintable() else " " for c in hidden[:_LIMIT]).strip()


@lru_cache(maxsize=8)
def _sought(secrets: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Those that are looked for as they are, and the parts of the longer ones."""
    short = sorted((secret for secret in secrets if 0 < len(secret) <= _PART), key=len, reverse=True)
    longer = needles(tuple(secret for secret in secrets if len(secret) > _PART))
    parts = {text[i : i + _PART] for text in longer for i in range(len(text) - _PART + 1)}
    return tuple(short), frozenset(parts)
