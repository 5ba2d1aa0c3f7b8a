"""JSON as servers send it: objects, counts and error messages, whatever else they put in their place."""

import json
from typing import Any, Final

from cotenant.errors import ServiceError
from cotenant.secret_forms import by_form

# What the tables' int32 columns hold.
COUNT_LIMIT: Final = 2**31 - 1
# Far longer than any secret that may stand in it: whoever stores the text finds the whole secret, then cuts.
_TEXT_LIMIT: Final = 1 << 16
_LOOKED_AT: Final = 2048


def json_value(text: bytes | str) -> Any:
    """Whatever JSON a server sent. Raises nothing but ValueError, also for what is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def json_object(text: bytes | str, what: str) -> dict[str, Any]:
    """The object that `text` is. Raises ServiceError("protocol") that says it is no `what`."""
    try:
        value = json_value(text)
    except ValueError as error:
        raise ServiceError("protocol", f"no {what}: {error}") from None
    if not isinstance(value, dict):
        raise ServiceError("protocol", f"no {what}: no JSON object")
    return value


def count(value: Any, name: str) -> int:
    """A count that a server tells, 0 where it is null. Raises ServiceError("protocol") outside 0..2^31-1."""
    if value is None:
        return 0
    if type(value) not in (int, float) or not 0 <= value <= COUNT_LIMIT or value != int(value):
        raise ServiceError("protocol", f"{name} is {short(value)}, not a count")
    return int(value)


def error_text(value: Any) -> str:
    """The message in a JSON error of one of the usual forms."""
    if isinstance(value, dict):
        value = value.get("error") or value.get("message") or value.get("detail") or value
    if isinstance(value, dict):
        value = value.get("message") or value
    return told(value)[:_TEXT_LIMIT]


def short(value: Any) -> str:
    """A value as a few characters of text; what is a secret by its form is hidden before the rest is cut."""
    return by_form(told(value)[:_LOOKED_AT])[:80]


def told(value: Any) -> str:
    """A value as text, also one that is nested too deeply for that."""
    try:
        return str(value)
    except (RecursionError, ValueError):
        return f"a {type(value).__name__} that cannot be told"
