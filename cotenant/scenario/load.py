"""Scenario files: found by packaged name or path, extended, overridden, checked; every error told at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from cotenant.errors import UserError
from cotenant.resources import data_dir
from cotenant.scenario import merge, yaml_text
from cotenant.scenario.checks import cross_checks, nearest
from cotenant.scenario.explain import explain
from cotenant.scenario.schema import Scenario
from cotenant.scenario.values import NAME_RE
from cotenant.scenario.yaml_text import MAX_BYTES, Problem

Reader = Callable[[Path], bytes]

_SUFFIXES: Final = (".yaml", ".yml")
_MAX_EXTENDS: Final = 10
_BUILTIN_TEXT: Final = "builtin"


def read_file(path: Path) -> bytes:
    """At most one byte more than a scenario may have. Raises OSError."""
    if path.exists() and not path.is_file():
        raise OSError(None, "it is not a file")
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def packaged_names() -> list[str]:
    """The names of the scenarios that ship with cotenant, sorted."""
    return sorted(path.stem for path in data_dir("scenarios").glob("*.yaml"))


def find(name_or_path: str, *, folder: Path | None = None) -> Path:
    """The file of a packaged name or a path (relative to `folder`, else the working directory).

    A word without a slash or .yaml is a packaged name first. Raises UserError where there is neither.
    """
    path = (folder or Path()) / Path(name_or_path).expanduser()
    if NAME_RE.fullmatch(name_or_path) and not name_or_path.endswith(_SUFFIXES):
        if name_or_path in packaged_names():
            return data_dir("scenarios") / f"{name_or_path}.yaml"
        if not path.is_file():
            known = nearest(name_or_path, packaged_names())
            raise UserError(f"there is no scenario {name_or_path!r}; {known}, or give a path to a file")
    return path


def load(name_or_path: str, overrides: Sequence[str] = (), *, read: Reader = read_file) -> Scenario:
    """The scenario of a packaged name or a file, with `overrides` (`path=value`) applied, not yet resolved.

    `text: FILE` becomes the file's sentences. Raises UserError listing everything that is wrong.
    """
    path = find(name_or_path)
    document = _read_chain(path, read, ())
    problems = list(document.problems)
    data, places = document.data, dict(document.places)
    for override in overrides:
        problems += merge.override(data, places, override)
    if isinstance(data, dict):
        data.setdefault("name", path.stem)
        problems += _read_texts(data, places, Path(), read)  # what --set named; the files' own are read
    return _checked(data, places, problems, title=f"the scenario {name_or_path}")


def parse(data: Any) -> Scenario:
    """A scenario of plain data, as `dump` makes it. Raises UserError listing everything that is wrong."""
    return _checked(data, {}, [], title="the scenario")


def dump(scenario: Scenario) -> dict[str, Any]:
    """The plain YAML and JSON form; `parse(dump(s)) == s`. Fields that are None are left out."""
    plain: dict[str, Any] = scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain


def _checked(
    data: Any, places: Mapping[yaml_text.Path, str], problems: list[Problem], title: str
) -> Scenario:
    scenario = None
    if not isinstance(data, dict):
        if not problems:
            problems = [Problem(path=(), message=_not_a_mapping(data), where=places.get(()))]
    else:
        found = list(cross_checks(data))
        try:
            scenario = Scenario.model_validate(data)
        except ValidationError as error:
            found = explain(error, data) + found
        broken = {problem.path for problem in problems}
        for path, message in found:
            if not any(path[: len(outer)] == outer for outer in broken if outer):
                problems.append(Problem(path=path, message=message, where=_place(places, path)))
    if problems or scenario is None:
        lines = list(dict.fromkeys(problem.text() for problem in problems))
        count = "one error" if len(lines) == 1 else f"{len(lines)} errors"
        raise UserError(f"{title} has {count}:\n" + "\n".join(f"  {line}" for line in lines))
    return scenario


def _not_a_mapping(data: Any) -> str:
    what = {type(None): "it is empty", list: "it is a list"}.get(type(data), f"it is {str(data)[:40]!r}")
    return f"{what}; a scenario is `key: value` lines with at least tenants, load and stages"


def _place(places: Mapping[yaml_text.Path, str], path: yaml_text.Path) -> str | None:
    """The place of the path, or of the nearest thing around it (a missing key has none of its own)."""
    while path not in places and path:
        path = path[:-1]
    return places.get(path) if path else None


def _read_document(path: Path, read: Reader, source: str) -> yaml_text.Document:
    shown = str(path)
    try:
        content = read(path)
    except FileNotFoundError:
        raise UserError(f"{shown} is not there; give a path to a scenario, or one of {_packaged()}") from None
    except OSError as error:
        raise UserError(f"{shown} cannot be read: {error.strerror or error}; give a readable file") from None
    if len(content) > MAX_BYTES:
        raise UserError(f"{shown} is larger than {MAX_BYTES} bytes; a scenario is a page of text")
    try:
        return yaml_text.parse_yaml(content.decode("utf-8-sig"), source=source)
    except UnicodeDecodeError as error:
        raise UserError(f"{shown} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def _packaged() -> str:
    return ", ".join(packaged_names())


def _read_chain(path: Path, read: Reader, below: tuple[Path, ...]) -> yaml_text.Document:
    """The file's data with what it extends underneath."""
    document = _read_document(path, read, path.name if below else "")
    if not isinstance(document.data, dict):
        return document
    problems = _read_texts(document.data, document.places, path.parent, read)
    document = replace(document, problems=(*document.problems, *problems))
    base_name = document.data.get("extends")
    if base_name is None:
        return document
    chain = (*below, path.resolve())
    place = document.places.get(("extends",))
    where = f"extends ({place})"
    if not isinstance(base_name, str):
        raise UserError(f"{where}: {base_name!r} is no scenario; write a packaged name or a file")
    try:
        base_path = find(base_name, folder=path.parent)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    if base_path.resolve() in chain or len(chain) > _MAX_EXTENDS:
        names = " -> ".join(step.name for step in (*chain, base_path))
        raise UserError(f"{where}: the files extend each other without an end ({names}); break the circle")
    return merge.extend(_read_chain(base_path, read, chain), document)


def _read_texts(
    data: dict[str, Any], places: Mapping[yaml_text.Path, str], folder: Path, read: Reader
) -> list[Problem]:
    """Puts the sentences of every `text: FILE` in its place, so that a run records what was said."""
    problems = []
    loads = data.get("load")
    for name, item in loads.items() if isinstance(loads, dict) else ():
        text = item.get("text") if isinstance(item, dict) else None
        if not isinstance(text, str) or text in ("", _BUILTIN_TEXT):
            continue
        path = folder / Path(text).expanduser()
        try:
            content = read(path)
            if len(content) > MAX_BYTES:
                raise ValueError(f"it is larger than {MAX_BYTES} bytes")
            lines = [line.strip() for line in content.decode("utf-8-sig").splitlines()]
            item["text"] = [line for line in lines if line]
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            message = f"cannot read {path} ({reason}); give UTF-8 text with a sentence a line, or builtin"
            problems.append(
                Problem(
                    path=("load", name, "text"), message=message, where=places.get(("load", name, "text"))
                )
            )
    return problems
