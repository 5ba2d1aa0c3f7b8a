"""What no value of a scenario may be, wherever it stands: half a character, NUL, no number of JSON."""

import math
from collections.abc import Iterator
from typing import Any, Final

from cotenant.scenario.yaml_text import Path

# What becomes an argument or a variable of a process.
_OF_PROCESSES: Final = ("command", "env", "vllm")


def encodable(text: str) -> bool:
    """Whether it can be written as UTF-8: no half of a surrogate pair is in it."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def value_checks(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Everything that cannot be stored or sent as it is, as (path, what is wrong; what would be right)."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(key, str) and not encodable(key):
                yield (*path, key), "the key has half of a surrogate pair; write whole characters"
            yield from value_checks(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from value_checks(inner, (*path, index))
    elif isinstance(value, str):
        if not encodable(value):
            yield path, f"{value[:40]!r} has half of a surrogate pair; write whole characters"
        if "\0" in value and path[:1] == ("tenants",) and path[2:3] and path[2] in _OF_PROCESSES:
            yield path, f"{value[:40]!r} has a NUL character, which no process can be given; remove it"
    elif isinstance(value, float) and not math.isfinite(value) and path[2:3] == ("extra",):
        yield path, f"{value} is no number of JSON; write another, or quote it"
