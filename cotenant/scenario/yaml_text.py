"""YAML text -> plain data and the line of every value, built from events: nothing can run or blow up.

Tags, anchors, aliases, duplicate keys, deep nesting and several documents are errors, all reported at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from yaml.nodes import ScalarNode

from cotenant.plain import one_line

Path = tuple[str | int, ...]

MAX_BYTES: Final = 1_000_000
_MAX_DEPTH: Final = 40
# Beyond what any field takes; integers of thousands of digits could not even be shown.
_MOST: Final = 10**300
_TEXT_TAG: Final = "tag:yaml.org,2002:str"
_PLAIN_TAGS: Final = tuple(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong. `where`: `line 3`, `base.yaml, line 3` or `--set`; None: nowhere."""

    path: Path
    message: str
    where: str | None = None

    def text(self) -> str:
        if not self.path and self.where == "--set":
            return f"--set: {self.message}"
        place = path_text(self.path) or "the whole file"
        return f"{place} ({self.where}): {self.message}" if self.where else f"{place}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The data of one YAML text, the place (`line 3`) of every path in it, and what is wrong with it.

    `notes`: what went with that which one text removes of another.
    """

    data: Any
    places: Mapping[Path, str]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()


def path_text(path: Path) -> str:
    """`("stages", 0, "load")` -> `stages[0].load`, on one line."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{one_line(part)}" if text else one_line(part)
    return text


def parse_yaml(text: str, *, source: str = "") -> Document:
    """Parses one document. `source` names another file than the user's in the places. Raises nothing."""
    builder = _Builder(prefix=f"{source}, " if source else "")
    try:
        builder.loader = yaml.SafeLoader(text)
        data = builder.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        builder.problem((), f"this is not YAML: {error.problem}", mark)
        data = None
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0] if str(error) else "it cannot be read"
        builder.problem((), f"this is not YAML: {reason}; write it as UTF-8 text", None)
        data = None
    except _TooDeep as error:
        builder.problem((), f"nested more than {_MAX_DEPTH} deep; a scenario needs 4", error.mark)
        data = None
    return Document(data=data, places=builder.places, problems=tuple(builder.problems))


class _TooDeep(Exception):
    def __init__(self, mark: Any) -> None:
        super().__init__()
        self.mark = mark


@dataclass(slots=True)
class _Builder:
    """Walks the events of one text. A class, since every step shares loader, places and problems."""

    prefix: str
    loader: Any = None
    places: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def problem(self, path: Path, message: str, mark: Any) -> None:
        where = (
            self.prefix.removesuffix(", ") or None if mark is None else f"{self.prefix}line {mark.line + 1}"
        )
        self.problems.append(Problem(path=path, message=message, where=where))

    def document(self) -> Any:
        self.loader.get_event()
        if self.loader.check_event(StreamEndEvent):
            return None
        self.loader.get_event()
        data = self.value((), self.loader.get_event())
        self.loader.get_event()
        if self.loader.check_event(DocumentStartEvent):
            self.problem(
                (), "a second document starts here; a scenario is one", self.loader.peek_event().start_mark
            )
        return data

    def value(self, path: Path, event: Any) -> Any:
        if len(path) > _MAX_DEPTH:
            raise _TooDeep(event.start_mark)
        self.places.setdefault(path, f"{self.prefix}line {event.start_mark.line + 1}")
        if isinstance(event, AliasEvent):
            self.problem(
                path, f"the alias *{event.anchor} is not allowed; write the value out", event.start_mark
            )
            return None
        if event.anchor is not None:
            self.problem(
                path,
                f"the anchor &{event.anchor} is not allowed; write values out, or use extends",
                event.start_mark,
            )
        if event.tag is not None and event.tag not in _PLAIN_TAGS and event.tag != "!":
            self.problem(
                path, f"the tag {event.tag[:60]} is not allowed; write a plain value", event.start_mark
            )
        if isinstance(event, ScalarEvent):
            return self.scalar(path, event)
        if isinstance(event, SequenceStartEvent):
            return self.sequence(path)
        return self.mapping(path)

    def scalar(self, path: Path, event: Any) -> Any:
        implicit = event.implicit if event.tag is None else (False, True)
        tag = self.loader.resolve(ScalarNode, event.value, implicit)
        if event.tag in _PLAIN_TAGS:
            tag = event.tag
        if tag not in _PLAIN_TAGS or tag == _TEXT_TAG:
            return event.value
        try:
            value = self.loader.construct_object(
                ScalarNode(tag, event.value, event.start_mark, event.end_mark)
            )
            if isinstance(value, int) and abs(value) > _MOST:
                raise ValueError("no number of a scenario")
            return value
        except (ValueError, LookupError, OverflowError):
            self.problem(path, f"{event.value[:40]!r} cannot be read as a value; quote it", event.start_mark)
            return event.value

    def sequence(self, path: Path) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := self.loader.get_event(), SequenceEndEvent):
            items.append(self.value((*path, len(items)), event))
        return items

    def mapping(self, path: Path) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while not isinstance(event := self.loader.get_event(), MappingEndEvent):
            key, mark = self.key(path, event), getattr(event, "start_mark", None)
            inner = (*path, key)
            repeated = key in items
            if repeated:
                first = self.places[inner]
                self.problem(inner, f"the key stands here twice (first: {first}); keep one", mark)
            value = self.value(inner, self.loader.get_event())
            if not repeated:
                items[key] = value
        return items

    def key(self, path: Path, event: Any) -> str:
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            self.value(path, event)
        elif isinstance(event, ScalarEvent):
            self.value((*path, event.value), event)
            return event.value
        self.problem(path, "a key must be text", event.start_mark)
        return "?"
