"""What the text of a `--set path=value` says of its path, and how it is shown without secrets. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant.scenario.hidden import NO_SECRETS, Secrets, hide_options, hide_secrets
from cotenant.scenario.values import environment_name
from cotenant.scenario.yaml_text import Path, parse_yaml
from cotenant.secret_forms import HIDDEN, is_secret

# Short, for it stands in a command line.
STARS: Final = "***"
_STEP_RE: Final = re.compile(r"\.?([A-Za-z0-9_-]+)|\[([0-9]{1,4})\]")
_HEAD_RE: Final = re.compile(r"[\w.\[\]\"'-]*[=:\s]*")
# Below these are names that a user chose: `tenants.keynote` is no secret.
_NAMED: Final = ("tenants", "load")


def parse_path(text: str) -> Path | None:
    """`stages[0].load` -> `("stages", 0, "load")`; None where it is no path."""
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        match = _STEP_RE.match(text, position)
        if match is None or (position == 0) == text.startswith((".", "["), position):
            return None
        steps.append(int(match[2]) if match[2] is not None else match[1])
        position = match.end()
    return tuple(steps) or None


def shown(text: str, secrets: Secrets = NO_SECRETS) -> str:
    """A `path=value` as it may be quoted: `***` for a value that is or holds a secret by its name, and for
    what is one by its form or is one of `secrets`; the path stays."""
    left, sign, right = text.partition("=")
    is_path = sign and parse_path(left.strip()) is not None
    if is_hidden(text):
        return secrets.text(left + sign if is_path else _head(text), STARS) + STARS
    # By its form `api_key_env=NAME` would be a secret.
    parts = (left + sign, right) if is_path else (text,)
    return "".join(secrets.text(part, STARS) for part in parts)


def is_hidden(text: str) -> bool:
    """Whether none of the value is shown: what is a secret by its name stands in it, or it cannot be read and
    may hold one."""
    left, sign, right = text.partition("=")
    path = parse_path(left.strip())
    if not sign or path is None:
        return is_secret(text) and _head(text) != text
    document = parse_yaml(right)
    data = document.data
    if document.problems and is_secret(right):
        return True
    if document.problems:
        data = right
    if data is None:
        return False
    for step in reversed(path):
        data = [data] if isinstance(step, int) else {step: data}
    return any(map(_has_hidden, _without_secrets(data)))


def _head(text: str) -> str:
    found = _HEAD_RE.match(text)
    return found[0] if found else ""


def _without_secrets(document: Mapping[str, Any]) -> Iterator[Any]:
    for key, value in document.items():
        if key not in _NAMED or not isinstance(value, dict):
            yield hide_secrets({key: value})
            continue
        for inner in value.values():
            if not isinstance(inner, dict):
                yield hide_secrets(inner)
                continue
            yield hide_secrets({name: one for name, one in inner.items() if not _is_variable(name, one)})
            block = inner.get("vllm")
            extra = block.get("extra_args") if isinstance(block, dict) else None
            for arguments in (inner.get("command"), extra):
                if isinstance(arguments, list):
                    yield hide_options([str(one) for one in arguments])


def _is_variable(key: str, value: Any) -> bool:
    """Not where somebody gave the key itself for its variable's name."""
    if key != "api_key_env" or not isinstance(value, str):
        return False
    try:
        environment_name(value)
    except ValueError:
        return False
    return True


def _has_hidden(value: Any) -> bool:
    """Whether something is hidden, all of it: of an address with a password the rest is shown."""
    if isinstance(value, dict):
        return any(map(_has_hidden, value.values()))
    if isinstance(value, list):
        return any(map(_has_hidden, value))
    return isinstance(value, str) and (value == HIDDEN or value.endswith((f"={HIDDEN}", f"-k{HIDDEN}")))
