"""A server's address: what is one, what is wrong with what is none, without a secret repeated. Pure."""

import re
from typing import Final
from urllib.parse import urlsplit

from cotenant.secret_forms import by_form

_URL_RE: Final = re.compile(r"[!-~]*")
# A host with a port, or one that is no single word.
_HOST_RE: Final = re.compile(
    r"(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*|\[[0-9A-Fa-f:]+\]):[1-9][0-9]{0,4}(?:/[A-Za-z0-9._/-]*)?"
    r"|(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)(?:/[A-Za-z0-9._/-]*)?"
)
_LAST_PORT: Final = 65_535


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def check_url(value: str) -> str:
    """A server's address as it is. Raises ValueError for one that is none, or holds a password."""
    if _URL_RE.fullmatch(value) is None:
        raise ValueError(
            f"{_shown(by_form(value))} has a character that no address may have (a space, a line end, none "
            "of ASCII); write it as http://127.0.0.1:8091, others as %20"
        )
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname or port == 0:
        known = by_form(value if "://" in value else f"://{value}").removeprefix("://")
        raise ValueError(
            f"{_shown(known)} is not a server's address; write it as {_with_scheme(value, known)}"
        )
    if parts.username is not None or parts.password is not None:
        raise ValueError("a password in an address would be recorded; name a variable in api_key_env")
    return value


def _with_scheme(value: str, known: str) -> str:
    """The address that was probably meant, where it lacks only its scheme and holds no secret; else one."""
    port = value.partition("/")[0].rpartition(":")[2]
    lacks = _HOST_RE.fullmatch(value) is not None and known == value
    lacks = lacks and not (port.isdecimal() and int(port) > _LAST_PORT)
    return f"http://{value}" if lacks else "http://127.0.0.1:8091"
