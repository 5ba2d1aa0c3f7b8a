"""What is a secret in a scenario and in what services say: by its name, its form or its value. Pure."""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

HIDDEN: Final = "(hidden)"
# A shorter value may stand anywhere by chance; it is hidden by its name alone.
SHORTEST: Final = 8
# vLLM's `pass_config` is about a compiler's passes.
_NAME: Final = (
    r"key|token(?!s|iz)|secret|pass(?!_config|es)|pwd|credential|auth|bearer|cookie|signature|(?<![a-z])sig(?![a-z])"
    r"|jwt|psk(?![a-z])"
)
_NAME_RE: Final = re.compile(_NAME, re.IGNORECASE)
_USER_RE: Final = re.compile(r"(://)[^/?#\s@\"']*@")
_HEADERS_RE: Final = re.compile(r"header", re.IGNORECASE)
_OPEN_HEADERS: Final = frozenset({
    "accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-type",
    "user-agent",
})  # fmt: skip
_OPTION_RE: Final = re.compile(r"-{0,2}[A-Za-z0-9_.-]+")
_QUERY_RE: Final = re.compile(r"([?&;#])([^?&;#=\s\"']+)=([^&;#\s\"']*)")
# What the makers of keys give them, so that they are found: OpenAI and many after it, Hugging Face, GitHub,
# GitLab, Slack, Google, AWS, JWT.
_FORM_RE: Final = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[a-z]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{30,}|AKIA[A-Z0-9]{16}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"
)
_SCHEME_RE: Final = re.compile(
    r"\b(Bearer|Basic)(\s+|%20)(?=\S*[0-9=])([A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE
)
_IN_TEXT_RE: Final = re.compile(
    rf"(?:{_NAME})[A-Za-z0-9_.-]*[\"']?\s*[=:\s]\s*[\"']?([^\s\"',;]{{{SHORTEST},}})", re.IGNORECASE
)


def is_secret(name: str) -> bool:
    """Whether what has this name is hidden."""
    return _NAME_RE.search(name) is not None


@dataclass(frozen=True, slots=True)
class Secrets:
    """The values that must stand nowhere, the longest first; also as a URL and base64 have them."""

    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: Iterable[str]) -> "Secrets":
        """Of all that was found; what is too short to be told from any text is left out."""
        forms: set[str] = set()
        for value in found:
            for form in (value, unquote(value)):
                if len(form.strip()) >= SHORTEST and HIDDEN not in form:
                    forms |= _written(form.strip())
        return cls(tuple(sorted(forms, key=lambda one: (-len(one), one))))

    def text(self, text: str) -> str:
        """A text without them, without keys that are known by their form, and without users in addresses."""
        for value in self.values:
            if value in text:
                text = text.replace(value, HIDDEN)
        return by_form(text)

    def mask(self, text: str) -> str:
        """Lines of a log, a byte a character, with stars for each character of a secret."""
        for value in self.values:
            told = value.encode(errors="replace").decode("latin-1")
            text = text.replace(told, "*" * len(told))
        text = _FORM_RE.sub(lambda found: "*" * len(found[0]), text)
        return _SCHEME_RE.sub(lambda found: found[1] + found[2] + "*" * len(found[3]), text)

    def within(self, value: Any) -> Any:
        """Plain data without them; its keys stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.within(inner) for key, inner in value.items()}
        return [self.within(inner) for inner in value] if isinstance(value, list | tuple) else value


NO_SECRETS: Final = Secrets()


def _written(value: str) -> set[str]:
    data = value.encode(errors="replace")
    # JSON's escapes too: what is sent is quoted in logs.
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return {value, quote(value, safe=""), quote_plus(value), base64.b64encode(data).decode(), escaped}


def by_form(text: str) -> str:
    """A text without what is a secret by its form: known keys, `Bearer ...`, users and passwords in
    addresses, values of a query that are secret by their names."""
    text = _FORM_RE.sub(HIDDEN, text)
    text = _SCHEME_RE.sub(lambda found: f"{found[1]}{found[2]}{HIDDEN}", text)
    text = _USER_RE.sub(rf"\1{HIDDEN}@", text)
    return hide_query(text) if "=" in text else text


def hide_secrets(value: Any) -> Any:
    """Plain data without the values whose names or forms are a secret's; nor is any header but common ones
    shown."""
    if isinstance(value, str):
        return by_form(value)
    if isinstance(value, dict):
        return {key: _under(str(key), inner) for key, inner in value.items()}
    return [hide_secrets(inner) for inner in value] if isinstance(value, list) else value


def _under(key: str, value: Any) -> Any:
    if is_secret(key) or _USER_RE.search(key):
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

    `--api-key X` and `--api-key=X` lose X, `-kX` too; `sh -c "serve --api-key X"` loses all of the text.
    Rather too much than too little: who follows a switch like `--no-auth` is hidden as well.
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
        elif not (is_secret(argument) or by_form(argument) != argument):
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
    return _QUERY_RE.sub(
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
    found += [match[0] for match in _FORM_RE.finditer(value)]
    found += [match[3] for match in _SCHEME_RE.finditer(value)]
    found += [match[0][3:-1].rpartition(":")[2] for match in _USER_RE.finditer(value)]
    return found + [match[3] for match in _QUERY_RE.finditer(value) if is_secret(unquote(match[2]))]


def values_in_options(command: Sequence[str]) -> list[str]:
    """The secrets in arguments: what `hide_options` hides, without what is around it."""
    found = []
    for argument, shown in zip(command, hide_options(command), strict=True):
        if argument == shown:
            continue
        before = shown.partition(HIDDEN)[0]
        rest = argument.removeprefix(before)
        # A whole command line or a header: the values in it, else what was hidden.
        inner = [*values_in(rest), *(match[1] for match in _IN_TEXT_RE.finditer(rest))]
        found += inner if any(c.isspace() for c in rest) else [rest, *inner]
    return found
