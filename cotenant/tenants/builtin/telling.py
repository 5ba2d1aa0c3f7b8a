"""What a user's code raised, told: nothing that such an object does when it is asked can hurt who asks."""

import logging
from typing import Any, Final

_LIMIT: Final = 2_000  # characters; a message may hold all that was worked on


def told(error: BaseException) -> str:
    """Its type and its message, in one text of bounded length; the type alone where it has no message."""
    name = _text(lambda: type(error).__name__) or "an exception without a name"
    message = _text(lambda: str(error))
    if message is None:
        return f"{name}, whose message cannot be read"
    return f"{name}: {_short(message)}" if message else name


def first_line(error: BaseException) -> str:
    """The same without the lines that follow the first."""
    return told(error).splitlines()[0].removesuffix(": ")


def shown(value: object) -> str:
    """A value as Python writes it, of bounded length; its type where it cannot be written."""
    text = _text(lambda: repr(value))
    return f"a {type(value).__name__} that cannot be shown" if text is None else _short(text)


def log_failure(log: logging.Logger, what: str, error: BaseException) -> None:
    """Logs it with its traceback, without one where that itself cannot be written."""
    try:
        log.error("%s", what, exc_info=error)
    except BaseException:  # noqa: BLE001 - of the user's code
        log.error("%s: %s", what, told(error))


def _short(text: str) -> str:
    return text if len(text) <= _LIMIT else f"{text[:_LIMIT]} ... ({len(text)} characters)"


def _text(made: Any) -> str | None:
    """A plain str of what is made, None where that fails, however it does."""
    try:
        return str.__str__(made()).strip()
    except BaseException:  # noqa: BLE001 - of the user's code
        return None
