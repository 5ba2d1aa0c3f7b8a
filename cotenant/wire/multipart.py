"""What a multipart/x-mixed-replace answer says of its parts: the boundary, each one's length and type."""

import re
from collections.abc import Mapping
from typing import Final

from cotenant.errors import ServiceError

_TYPE: Final = "multipart/x-mixed-replace"
_BOUNDARY_RE: Final = re.compile(r';\s*boundary\s*=\s*(?:"([^"]*)"|([^;]*))', re.IGNORECASE)
_LENGTH_DIGITS: Final = 11


def boundary_of(content_type: str) -> str:
    """The boundary that a Content-Type names, "" for none. Raises ServiceError for another type of answer."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind != _TYPE:
        raise ServiceError("protocol", f"the answer is {kind or 'of no type'}, not {_TYPE}", offset=0)
    found = _BOUNDARY_RE.search(content_type)
    return (found[1] if found[1] is not None else found[2]).strip() if found else ""


def patterns(name: str) -> tuple[re.Pattern[bytes], re.Pattern[bytes] | None]:
    """A whole delimiter line, and what ends a picture; of an unknown boundary any line with two dashes."""
    if not name:
        return re.compile(rb"--(?P<core>[^\r\n]{1,200}?)(?P<close>--)?[ \t]*\r?"), None
    core = re.escape((name.lstrip("-") or name).encode("latin-1", "replace"))
    line = rb"-{2,8}(?P<core>" + core + rb")(?P<close>--)?[ \t]*"
    return re.compile(line + rb"\r?"), re.compile(line + rb"\r?(?:\n|$)")


def length_of(head: Mapping[str, str], *, most: int) -> int | None:
    """The bytes of a part by its header (names in lower case), None where that does not tell.

    Raises ServiceError for what is no length, or more than `most`.
    """
    told = head.get("content-length")
    if told is None:
        return None
    if not (told.isascii() and told.isdecimal() and len(told) <= _LENGTH_DIGITS) or int(told) > most:
        raise ServiceError("protocol", f"a part's Content-Length is {told[:40]!r}")
    return int(told)


def type_of(head: Mapping[str, str]) -> str:
    """A part's type, that of a JPEG where it does not tell."""
    return head.get("content-type", "image/jpeg").partition(";")[0].strip().lower()
