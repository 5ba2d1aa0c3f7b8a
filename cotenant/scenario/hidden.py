"""What is a secret in a scenario and in what services say: by its name, its form or its value. Pure."""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from cotenant.secret_forms import (
    HIDDEN,
    NAME,
    QUERY_RE,
    USER_RE,
    Span,
    all_spans,
    by_form,
    form_spans,
    hide,
    is_secret,
    plain,
    replaced,
)

# A shorter value may stand anywhere by chance; it is hidden by its name alone.
SHORTEST: Final = 8
_HEADERS_RE: Final = re.compile(r"header", re.IGNORECASE)
_OPEN_HEADERS: Final = frozenset({
    "accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-type",
    "user-agent",
})  # fmt: skip
_HEADER_OPTIONS: Final = ("--header", "--headers", "--extra-header", "--extra-headers")
_HEADER_RE: Final = re.compile(r"\A[A-Za-z0-9-]+:\s*(?:(?:Bearer|Basic)\s+)?(.+)\Z", re.IGNORECASE)
_PATH_RE: Final = re.compile(r"(?:~|\.{0,2})/[^\s=]*")
_OPTION_RE: Final = re.compile(r"-{0,2}[A-Za-z0-9_.-]+")
_IN_TEXT_RE: Final = re.compile(
    rf"(?:{NAME})[A-Za-z0-9_.-]*[\"']?\s*[=:\s]\s*[\"']?([^\s\"',;]{{{SHORTEST},}})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Secrets:
    """The values that must stand nowhere, the longest first, in whatever way they are written."""

    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: Iterable[str]) -> "Secrets":
        """Of all that was found; what is too short to be told from any text is left out."""
        forms = {form.strip() for value in found for form in (value, unquote(value))}
        kept = [form for form in forms if len(form) >= SHORTEST and HIDDEN not in form]
        return cls(tuple(sorted(kept, key=lambda one: (-len(one), one))))

    def text(self, text: str, hidden: str = HIDDEN) -> str:
        """A text without them, without keys that are known by their form, and without users in addresses."""
        return hide(text, self._spans, hidden)

    def mask(self, text: str) -> str:
        """Lines of a log, a byte a character, with stars for each character of a secret."""
        return replaced(text, all_spans(text, self._spans), lambda length: "*" * length)

    def _spans(self, text: str) -> Iterator[Span]:
        for needle in needles(self.values):
            at = text.find(needle)
            while at >= 0:
                yield at, at + len(needle)
                at = text.find(needle, at + 1)
        yield from form_spans(text)

    def within(self, value: Any) -> Any:
        """Plain data without them; its keys stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.within(inner) for key, inner in value.items()}
        return [self.within(inner) for inner in value] if isinstance(value, list | tuple) else value


NO_SECRETS: Final = Secrets()


@lru_cache(maxsize=8)
def needles(values: tuple[str, ...]) -> tuple[str, ...]:
    """What to look for in UTF-8's bytes as Latin-1: the values, as they are and with their escapes read, and
    their base64 wherever in a longer text (`user:KEY`) they were encoded."""
    found: dict[str, None] = {}
    for value in values:
        data = value.encode(errors="replace")
        told = data.decode("latin-1")
        found |= dict.fromkeys([told, plain(told), told.replace(" ", "+")])
        whole = base64.b64encode(data).decode()
        for text in (whole, whole.rstrip("="), *(_inner_base64(data, shift) for shift in range(3))):
            found |= dict.fromkeys([text, text.replace("+", "-").replace("/", "_")])
    return tuple(found)


def _inner_base64(data: bytes, shift: int) -> str:
    """The characters that stand in the base64 of any text with `data` at a byte number 3n + `shift`."""
    text = base64.b64encode(b"\0" * shift + data).decode()
    whole = (shift + len(data)) * 8 // 6
    return text[(shift * 8 + 5) // 6 : whole]


def hide_secrets(value: Any) -> Any:
    """Plain data without the values whose names or forms are a secret's; nor is any header but common ones
    shown."""
    if isinstance(value, str):
        return by_form(value)
    if isinstance(value, dict):
        return {key: _under(str(key), inner) for key, inner in value.items()}
    return [hide_secrets(inner) for inner in value] if isinstance(value, list) else value


def _under(key: str, value: Any) -> Any:
    if is_secret(key) or USER_RE.search(key):
        return HIDDEN
    if not _HEADERS_RE.search(key) or not isinstance(value, str | list | dict):
        return hide_secrets(value)
    if not isinstance(value, dict):
        return HIDDEN
    return {name: inner if str(name).lower() in _OPEN_HEADERS else HIDDEN for name, inner in value.items()}


def _unopened(key: str, value: Any) -> Any:
    """Headers without those that are no secret."""
    if not (_HEADERS_RE.search(key) and isinstance(value, dict)):
        return value
    return {name: inner for name, inner in value.items() if str(name).lower() not in _OPEN_HEADERS}


def hide_options(command: Sequence[str]) -> list[str]:
    """Arguments without what may be a secret: one that looks like it, and whatever follows one.

    `--api-key X` and `--api-key=X` lose X, `-kX` and `--header "A: X"` too; `sh -c "serve --api-key X"`
    loses all of the text. Rather too much than too little: who follows a switch like `--no-auth` is hidden
    as well. A path alone is no name of a secret, whatever its folders are called.
    """
    hidden: list[str] = []
    follows = False
    for argument in command:
        option, sign, _ = argument.partition("=")
        named = _OPTION_RE.fullmatch(option) is not None
        before, follows = follows, False
        if argument.startswith("-k"):
            hidden.append("-k" + (HIDDEN if argument != "-k" else ""))
            follows = argument == "-k"
        elif option in _HEADER_OPTIONS:
            hidden.append(f"{option}={HIDDEN}" if sign else argument)
            follows = not sign
        elif by_form(argument) == argument and (_PATH_RE.fullmatch(argument) or not is_secret(argument)):
            hidden.append(HIDDEN if before else argument)
        elif sign and named:
            hidden.append(f"{option}={HIDDEN}")
        else:
            option_alone = named and argument.startswith("-") and (not before or argument.startswith("--"))
            hidden.append(argument if option_alone else HIDDEN)
            follows = True
    return hidden


def hide_query(url: str) -> str:
    """An address without the values of its query that look like secrets by their names."""
    return QUERY_RE.sub(
        lambda pair: f"{pair[1]}{pair[2]}={HIDDEN}" if is_secret(unquote(pair[2])) else pair[0], url
    )


def values_in(value: Any, *, named: bool = False) -> list[str]:
    """The secrets in plain data, by the names they have and the forms they are of."""
    if isinstance(value, Mapping):
        return [
            secret
            for key, inner in value.items()
            for secret in values_in(_unopened(key, inner), named=named or _under(str(key), "") == HIDDEN)
        ]
    if isinstance(value, list | tuple):
        return [secret for inner in value for secret in values_in(inner, named=named)]
    if not isinstance(value, str):
        return [str(value)] if named and value is not None else []
    found = [value] if named else []
    # Of a user and a password the password alone: users stand everywhere.
    found += [match[0][3:-1].rpartition(":")[2] for match in USER_RE.finditer(value)]
    users = [match.span() for match in USER_RE.finditer(value)]
    return found + [
        value[start:end]
        for start, end in form_spans(value)
        if start < end and not any(left < start < right for left, right in users)
    ]


def values_in_options(command: Sequence[str]) -> list[str]:
    """The secrets in arguments: what `hide_options` hides, without what is around it."""
    found = []
    for before_it, argument, shown in zip(["", *command], command, hide_options(command), strict=False):
        # Hidden for what stands before it, but another option's name.
        if argument == shown or (argument.startswith("--") and _OPTION_RE.fullmatch(argument) is not None):
            continue
        before = shown.partition(HIDDEN)[0]
        rest = argument.removeprefix(before)
        # A whole command line or a header: the values in it, else what was hidden.
        inner = [*values_in(rest), *(match[1] for match in _IN_TEXT_RE.finditer(rest))]
        inner += [header[1] for header in _HEADER_RE.finditer(rest)]
        whole = before_it if shown == HIDDEN else before
        told_by_name = whole.startswith("-") and is_secret(whole)
        found += [rest, *inner] if told_by_name or not any(c.isspace() for c in rest) else inner
    return found
