"""What a secret looks like by its name and its form, however a text writes it. Pure."""

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

HIDDEN: Final = "(hidden)"
# vLLM's `pass_config` is about a compiler's passes.
NAME: Final = (
    r"key|token(?!s|iz)|secret|pass(?!_config|es)|pwd|credential|auth|bearer|cookie|signature|(?<![a-z])sig(?![a-z])"
    r"|jwt|psk(?![a-z])"
)
_NAME_RE: Final = re.compile(NAME, re.IGNORECASE)
# In free text a word is a name only where it can hardly be anything else.
_SURE_NAME: Final = (
    r"(?:api|access|private)[-_]?key|secret|passw(?:or)?d|passphrase|pwd|token(?!s|iz|_id)|credential"
    r"|authorization|cookie|signature"
)
USER_RE: Final = re.compile(r"(://)[^/?#\s@\"']*@")
QUERY_RE: Final = re.compile(r"([?&;#])([^?&;#=\s\"']+)=([^&;#\s\"']*)")
# What the makers of keys give them, so that they are found: OpenAI and many after it, Hugging Face, GitHub,
# GitLab, Slack, Google, AWS, JWT.
_FORM_RE: Final = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[a-z]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{30,}|AKIA[A-Z0-9]{16}"
    r"|eyJ[A-Za-z0-9_-]{8,2048}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"
)
_SCHEME_RE: Final = re.compile(
    r"\b(Bearer|Basic)(\s+|%20)(?=\S*[0-9=])([A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE
)
# `password=x`, `"token": "x"` and `X-Api-Key: x1` (with a digit, for "token: expected" is a sentence).
_PAIR_RE: Final = re.compile(
    rf"(?:{_SURE_NAME})[\w.-]{{0,40}}"
    r"(?:\s?=\s?\\*[\"']?(?!(?:None|null|true|false)\b)(?P<set>[^\s\"'\\,;&<>]{4,})"
    r"|\\*[\"']\s*:\s*\\*[\"'](?P<json>[^\s\"'\\,;&<>]{4,})"
    r"|:\s*(?!Bearer|Basic)(?=\S*[0-9])(?P<header>[^\s\"'\\,;&<>]{8,}))",
    re.IGNORECASE | re.ASCII,
)
# A character as URLs, JSON, HTML and Python write it, also twice over; and what a terminal does not show.
# All of it behind one class of characters, for the speed of a search that begins with one.
_WRITTEN_RE: Final = re.compile(
    r"[%\\&\0-\x08\x0b\x0c\x0e-\x1f\x7f](?:(?<=%)(?:25)*(?P<url>[0-9A-Fa-f]{2})"
    r"|(?<=\\)\\*(?:u(?P<json>[0-9A-Fa-f]{4})|x(?P<byte>[0-9A-Fa-f]{2})|(?P<same>[\"'/]))"
    r"|(?<=\\)(?P<slash>\\+)|(?<=&)(?P<html>(?:amp|quot|apos|lt|gt|#[0-9]{1,3}|#x[0-9A-Fa-f]{1,2});)"
    r"|(?<=\x1b)(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|(?<![%\\&]))"
)
_ENDING_RE: Final = re.compile(r"[\w+/=.~%-]*\Z")
_ROUNDS: Final = 3

Span = tuple[int, int]
Find = Callable[[str], Iterable[Span]]


def is_secret(name: str) -> bool:
    """Whether what has this name is hidden."""
    return _NAME_RE.search(name) is not None


def by_form(text: str) -> str:
    """A text without what is a secret by its form: known keys, `Bearer ...`, users and passwords in
    addresses, values of a query that are secret by their names, and values behind `password=` and the like.
    """
    return hide(text, form_spans)


def form_spans(text: str) -> Iterator[Span]:
    """Where in a text such secrets stand."""
    yield from (found.span() for found in _FORM_RE.finditer(text))
    yield from (found.span(3) for found in _SCHEME_RE.finditer(text))
    yield from ((found.end(1), found.end() - 1) for found in USER_RE.finditer(text))
    yield from (found.span(3) for found in QUERY_RE.finditer(text) if is_secret(unquote(found[2])))
    if "=" in text or ":" in text:
        yield from (found.span(found.lastgroup or 0) for found in _PAIR_RE.finditer(text))


def hide(text: str, find: Find, hidden: str = HIDDEN) -> str:
    """The text with `hidden` in place of all that `find` finds in it, as it is and as `plain` has it.

    `find` gets UTF-8's bytes as Latin-1, where the text has more than ASCII.
    """
    told = text if text.isascii() else text.encode(errors="replace").decode("latin-1")
    shown = replaced(told, all_spans(told, find), lambda _: hidden)
    if shown == told:
        return text
    return shown if shown.isascii() else shown.encode("latin-1").decode(errors="replace")


def replaced(text: str, spans: Iterable[Span], by: Callable[[int], str]) -> str:
    """The text with `by(length)` for each of the places."""
    parts, at = [], 0
    for start, end in _merged(spans):
        parts += [text[at:start], by(end - start)]
        at = end
    return "".join([*parts, text[at:]]) if parts else text


def cut(text: str, limit: int) -> str:
    """At most so many characters, and of what may be a secret all or nothing: half of one is not found."""
    return text if len(text) <= limit else _ENDING_RE.sub("", text[:limit])


def all_spans(text: str, find: Find) -> Iterator[Span]:
    """What `find` finds in a text as it is, and once its escapes are read, as places in the text."""
    yield from find(text)
    readings: list[_Reading] = []
    for _ in range(_ROUNDS):
        reading = _read(text)
        if reading is None:
            return
        text = reading.text
        readings.append(reading)
        for start, end in find(text):
            for one in reversed(readings):
                start, end = one.place(start), one.place(end - 1, end=True)
            yield start, end


def plain(text: str) -> str:
    """A text with its escapes read, and without what a terminal does not show."""
    for _ in range(_ROUNDS):
        text = _WRITTEN_RE.sub(_character, text)
    return text


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text whose escapes were read. `begins`: where in it each was put, `escapes`: where it stood."""

    text: str
    begins: list[int]
    widths: list[int]
    escapes: list[Span]

    def place(self, at: int, *, end: bool = False) -> int:
        """Where the character at `at` began, or ended, before."""
        number = bisect_right(self.begins, at) - 1
        if number < 0:
            return at + end
        over = at - self.begins[number] - self.widths[number]
        return self.escapes[number][1] + over + end if over >= 0 else self.escapes[number][end]


def _read(text: str) -> _Reading | None:
    """None where there is nothing to read."""
    parts, begins, widths, escapes = [], [], [], []
    at = length = 0
    for found in _WRITTEN_RE.finditer(text):
        start, stop = found.span()
        character = _character(found)
        length += start - at
        begins.append(length)
        widths.append(len(character))
        escapes.append((start, stop))
        parts += [text[at:start], character]
        at, length = stop, length + len(character)
    return _Reading("".join([*parts, text[at:]]), begins, widths, escapes) if escapes else None


def _character(found: re.Match[str]) -> str:
    kind, told = found.lastgroup, found[found.lastgroup or 0]
    if kind is None:
        return ""
    if kind in ("url", "byte"):
        return chr(int(told, 16))
    if kind == "json":
        return chr(int(told, 16)).encode(errors="replace").decode("latin-1")
    if kind == "html":
        return html.unescape(f"&{told}").encode(errors="replace").decode("latin-1")
    return told[0]


def _merged(spans: Iterable[Span]) -> list[Span]:
    """In order, those that overlap as one; empty ones are none."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
