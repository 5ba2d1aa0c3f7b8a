"""A user's own generator: found by `module:name`, checked, and told in one sentence what is wrong with it."""

import importlib
import inspect
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from cotenant.errors import CotenantError, CouldNotRun, UserError
from cotenant.tenants.builtin.source_examples import written_so
from cotenant.tenants.builtin.telling import first_line, log_failure, shown

log = logging.getLogger("cotenant.source")

# How each kind of server calls it, as names for its message.
PARAMETERS: Final = {"speech": ("text", "voice"), "face": ("audio", "fps")}
_BATCH: Final = ("texts", "voices")
_SHOWN: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What makes the pieces: `call` for one request, `batch` for several at once, None where it has none.

    `rate_hz` is what the object says of itself, None if it says nothing.
    """

    name: str
    call: Callable[..., Any]
    batch: Callable[..., Any] | None
    rate_hz: int | None


def load(target: str, kind: str, *, batched: bool) -> Source:
    """Imports `module:name`; a class is made into one object, without arguments.

    The working directory is searched first. Raises UserError for what is not there or cannot be called as
    `kind` needs it, CouldNotRun for whatever the user's code itself raised (its traceback is logged).
    """
    try:
        return _loaded(target, kind, batched=batched)
    except CotenantError:
        raise
    except BaseException as error:  # noqa: BLE001 - looking at an object runs its code
        log_failure(log, f"looking at {target} failed", error)
        raise CouldNotRun(f"--from {target}: looking at it failed: {first_line(error)}") from None


def _loaded(target: str, kind: str, *, batched: bool) -> Source:
    module_name, colon, path = target.partition(":")
    if not (colon and module_name and path) or module_name.endswith(".py") or "/" in module_name:
        raise UserError(f"--from {target}: write MODULE:NAME, as in my_module:generate for my_module.py")
    found = _attribute(_module(module_name), module_name, path)
    if inspect.isclass(found):
        found = _made(found, target)
    if not callable(found):
        raise UserError(
            f"--from {target}: it is {type(found).__name__}, which cannot be called; give a function, or "
            f"an object whose __call__ takes ({', '.join(PARAMETERS[kind])}): {written_so(kind)}"
        )
    _check_call(found, target, PARAMETERS[kind], written_so(kind))
    owner = _read(found, "__self__", target)
    batch = (_read(found, "batch", target) or _read(owner, "batch", target)) if batched else None
    if batched and not callable(batch):
        raise UserError(
            f"--from {target}: --batch needs a method batch({', '.join(_BATCH)}), and it has none; add "
            "it, or leave --batch out"
        )
    if batched and batch is not None:
        _check_call(
            batch,
            f"{target}.batch",
            _BATCH,
            "both are lists; yield lists of as many pieces, None for no piece",
        )
    return Source(name=target, call=found, batch=batch, rate_hz=_rate(found, owner, target))


def _module(name: str) -> Any:
    here = os.getcwd()  # noqa: PTH109 - as import's own path has it
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise UserError(
                f"there is no module {error.name!r}; {here} and the packages of {sys.prefix} were searched: "
                "start it in the folder of your module, or set PYTHONPATH"
            ) from None
        log.exception("importing %s failed", name)
        raise CouldNotRun(
            f"{name} imports {error.name!r}, which is not installed for {sys.executable}; use the Python "
            "of the model's own environment"
        ) from None
    except CotenantError:
        raise  # a module that says itself what it needs
    except BaseException as error:  # noqa: BLE001 - the user's code
        log_failure(log, f"importing {name} failed", error)
        raise CouldNotRun(f"importing {name} failed: {first_line(error)}") from None


def _attribute(module: Any, name: str, path: str) -> Any:
    found, at = module, name
    for part in path.split("."):
        if not hasattr(found, part):
            there = (
                [key for key in vars(found) if not key.startswith("_")] if hasattr(found, "__dict__") else []
            )
            there = [key for key in there if not inspect.ismodule(getattr(found, key, None))]
            close = get_close_matches(part, there, n=1, cutoff=0.6)
            shown = ", ".join(there[:_SHOWN]) + (", ..." if len(there) > _SHOWN else "")
            raise UserError(
                f"there is no {part!r} in {at}; "
                + (f"did you mean {close[0]!r}? " if close else "")
                + (f"it has: {shown}" if there else "it has nothing of its own")
            )
        found, at = getattr(found, part), f"{at}.{part}"
    return found


def _made(cls: type, target: str) -> Any:
    try:
        return cls()
    except CotenantError:
        raise
    except BaseException as error:  # noqa: BLE001 - the user's code
        log_failure(log, f"{target}() failed", error)
        why = "" if _takes_nothing(cls) else "; it is a class, and is made without arguments"
        raise CouldNotRun(f"{target}() failed: {first_line(error)}{why}") from None


def _takes_nothing(cls: type) -> bool:
    try:
        inspect.signature(cls).bind()
    except TypeError:
        return False
    except ValueError:
        pass  # one written in C may not tell
    return True


def _read(found: Any, name: str, target: str) -> Any:
    """An attribute, None where there is none. Raises CouldNotRun for what reading it raised."""
    try:
        return getattr(found, name, None)
    except BaseException as error:  # noqa: BLE001 - the user's code
        log_failure(log, f"reading {name} of {target} failed", error)
        raise CouldNotRun(
            f"--from {target}: its attribute {name!r} cannot be read: {first_line(error)}"
        ) from None


def _check_call(function: Callable[..., Any], target: str, parameters: tuple[str, ...], written: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # one written in C may not tell
    try:
        signature.bind(*parameters)
    except TypeError as error:
        raise UserError(
            f"{target} takes {signature}, and is called with ({', '.join(parameters)}): {error}; {written}"
        ) from None


def _rate(found: Any, owner: Any, target: str) -> int | None:
    rate = _read(found, "rate", target)
    if rate is None:
        rate = _read(owner, "rate", target)
    if rate is None or callable(rate):
        return None
    return whole_rate(rate, f"{target}.rate")


def whole_rate(value: Any, what: str) -> int:
    """A sample rate in Hz. Raises UserError, with `what` as its name, where it is none."""
    from cotenant.wire.pcm import LEAST_RATE_HZ, MOST_RATE_HZ, is_rate

    try:
        rate = int(value)
        if rate == value and is_rate(rate):
            return rate
    except (TypeError, ValueError, OverflowError):
        pass
    raise UserError(
        f"{what} is {shown(value)}; a rate is a whole number from {LEAST_RATE_HZ} to {MOST_RATE_HZ} Hz"
    )
