"""Objects from the mappings of summary.json: by the names of their fields, infinities from the reasons."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from cotenant.verdict.typed_judged import Caveat

_T = TypeVar("_T")


def build(kind: type[_T], entry: Mapping[str, Any], why: Mapping[str, str], prefix: str) -> _T:
    """One object from its mapping; keys that it does not know are left to `raw`."""
    assert is_dataclass(kind)
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for known in fields(kind):
        value = entry.get(known.name)
        if is_dataclass(hints[known.name]) and isinstance(value, Mapping):
            values[known.name] = build(hints[known.name], value, why, f"{prefix}{known.name}.")
        elif value is not None:
            values[known.name] = value
        elif (sign := why.get(f"{prefix}{known.name}")) in ("+inf", "-inf"):
            values[known.name] = float(sign)
        elif known.default is MISSING and known.default_factory is MISSING:
            raise KeyError(f"{prefix}{known.name}")
    return kind(**values)


def by_name(kind: type[_T], entry: Mapping[str, Any], why: Mapping[str, str], part: str) -> dict[str, _T]:
    """A part of an entry that holds one mapping by name; empty where the entry has no such part."""
    return {name: build(kind, found, why, f"{part}.{name}.") for name, found in entry.get(part, {}).items()}


def caveat_of(entry: Mapping[str, Any]) -> Caveat:
    """A caveat: what is no word of it is a number."""
    words = {name: entry[name] for name in ("kind", "text", "advice")}
    return Caveat(numbers={name: value for name, value in entry.items() if name not in words}, **words)
