"""Scenario files: found by packaged name or path, extended, overridden, checked; every error told at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from cotenant.errors import UserError
from cotenant.plain import one_line
from cotenant.resources import data_dir
from cotenant.scenario import merge, removal, yaml_text
from cotenant.scenario.nearest import nearest
from cotenant.scenario.parse import checked, dump, parse
from cotenant.scenario.plain import encodable
from cotenant.scenario.schema import Gate, GateItem, Scenario
from cotenant.scenario.values import NAME_RE
from cotenant.scenario.vllm import is_path
from cotenant.scenario.yaml_text import MAX_BYTES, Problem

__all__ = [
    "dump", "find", "load", "load_unsaved", "packaged_names", "parse", "read_file", "read_gates",
]  # fmt: skip

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
    if "\0" in name_or_path or not encodable(name_or_path):
        raise UserError(f"{name_or_path[:60]!r} is no name of a file; give a packaged name or a path")
    path = (folder or Path()) / _expanded(name_or_path)
    if NAME_RE.fullmatch(name_or_path) and not name_or_path.endswith(_SUFFIXES):
        if name_or_path in packaged_names():
            return data_dir("scenarios") / f"{name_or_path}.yaml"
        if not path.is_file():
            known = nearest(name_or_path, packaged_names())
            raise UserError(f"there is no scenario {name_or_path!r}; {known}, or give a path to a file")
    return path


def load(
    name_or_path: str,
    overrides: Sequence[str] = (),
    *,
    read: Reader = read_file,
    tell: Callable[[str], None] = lambda _note: None,
) -> Scenario:
    """The scenario of a packaged name or a file, with `overrides` (`path=value`) applied, not yet resolved.

    `text: FILE` becomes the file's sentences. `tell`: of what went with a tenant or load that was removed.
    Raises UserError listing everything that is wrong.
    """
    path = find(name_or_path)
    document = _read_chain(path, read, ())
    problems = list(document.problems)
    data, places = document.data, dict(document.places)
    notes = list(document.notes)
    if isinstance(data, dict):
        before = removal.names(data)
        for override in overrides:
            problems += merge.override(data, places, override)
        notes += removal.take_out(data, places, before - removal.names(data))
        data.setdefault("name", path.stem)
        problems += _read_texts(data, places, Path(), read)  # what --set named; the files' own are read
        _place_paths(data, Path())
    return _told(data, places, problems, notes, tell, title=f"the scenario {one_line(name_or_path)}")


def _told(
    data: Any,
    places: Mapping[yaml_text.Path, str],
    problems: Sequence[Problem],
    notes: Sequence[str],
    tell: Callable[[str], None],
    *,
    title: str,
) -> Scenario:
    """The scenario, the notes told; with what is wrong they are in its error, for they may be the cause."""
    try:
        scenario = checked(data, places, problems, title=title)
    except UserError as error:
        raise UserError("\n".join([str(error), *(f"  note: {note}" for note in notes)])) from None
    for note in notes:
        tell(note)
    return scenario


def load_unsaved(text: str, folder: Path, *, title: str, read: Reader = read_file) -> Scenario:
    """The scenario of a document that stands in no file, with a name of its own; its paths are from `folder`.

    What it extends is read. Raises UserError listing everything that is wrong, of what `title` says.
    """
    document = _chained(yaml_text.parse_yaml(text), folder, None, read, ())
    return checked(document.data, dict(document.places), list(document.problems), title=title)


def read_gates(gates: Sequence[str], read: Reader = read_file) -> tuple[str | Gate, ...]:
    """Gates as given, each name of a YAML file replaced by the list in it: what a scenario's `gate` may hold.

    Raises UserError that names the file.
    """
    found: list[str | Gate] = []
    for item in gates:
        if not item.endswith(_SUFFIXES):
            found.append(item)
            continue
        document = _read_document(Path(item), read, "")
        problems = [f"  {problem.message}" for problem in document.problems]
        try:
            found += TypeAdapter(list[GateItem]).validate_python(document.data)
        except ValidationError as error:
            places = (".".join(map(str, one["loc"])) or "the file" for one in error.errors())
            problems += [
                f"  {place}: {one['msg']}" for place, one in zip(places, error.errors(), strict=True)
            ]
        if problems:
            advice = "write a YAML list of profiles, limits as in 'speech.ttfa_ms.p95 <= 500ms', or mappings"
            raise UserError("\n".join([f"the gates in {item} are wrong ({advice}):", *problems]))
    return tuple(found)


def _read_document(path: Path, read: Reader, source: str) -> yaml_text.Document:
    shown = one_line(path)
    try:
        content = read(path)
    except FileNotFoundError:
        raise UserError(f"{shown} is not there; give a path to a scenario, or one of {_packaged()}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{shown} cannot be read: {reason or error}; give a readable file") from None
    if len(content) > MAX_BYTES:
        raise UserError(f"{shown} is larger than {MAX_BYTES} bytes; a scenario is a page of text")
    try:
        return yaml_text.parse_yaml(content.decode("utf-8-sig"), source=source)
    except UnicodeDecodeError as error:
        raise UserError(f"{shown} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # `~nobody`: a name, then
        return Path(text)


def _packaged() -> str:
    return ", ".join(packaged_names())


def _read_chain(path: Path, read: Reader, below: tuple[Path, ...]) -> yaml_text.Document:
    """The file's data with what it extends underneath."""
    document = _read_document(path, read, one_line(path.name) if below else "")
    return _chained(document, path.parent, path, read, below)


def _chained(
    document: yaml_text.Document, folder: Path, path: Path | None, read: Reader, below: tuple[Path, ...]
) -> yaml_text.Document:
    """A document's data with what it extends underneath; `path`: its file, where it stands in one."""
    if not isinstance(document.data, dict):
        return document
    problems = _read_texts(document.data, document.places, folder, read)
    _place_paths(document.data, folder)
    document = replace(document, problems=(*document.problems, *problems))
    base_name = document.data.get("extends")
    if base_name is None:
        return document
    chain = below if path is None else (*below, path.resolve())
    place = document.places.get(("extends",))
    where = f"extends ({place})" if below or path is None else f"extends ({one_line(path)}, {place})"
    if not isinstance(base_name, str):
        raise UserError(f"{where}: {base_name!r} is no scenario; write a packaged name or a file")
    try:
        base_path = find(base_name, folder=folder)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    if base_path.resolve() in chain or len(chain) > _MAX_EXTENDS:
        names = " -> ".join(step.name for step in (*chain, base_path))
        raise UserError(f"{where}: the files extend each other without an end ({names}); break the circle")
    return merge.extend(_read_chain(base_path, read, chain), document)


def _place_paths(data: Mapping[str, Any], folder: Path) -> None:
    """Makes the paths of every `vllm` block whole: in a file they are relative to its folder."""
    tenants = data.get("tenants")
    for tenant in tenants.values() if isinstance(tenants, dict) else ():
        block = tenant.get("vllm") if isinstance(tenant, dict) else None
        if not isinstance(block, dict):
            continue
        for key in ("bin", "python", "model"):
            value = block.get(key)
            if isinstance(value, str) and (is_path(value) or ("/" in value and key != "model")):
                block[key] = str((folder / _expanded(value)).absolute())


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
        path = folder / _expanded(text)
        try:
            content = read(path)
            if len(content) > MAX_BYTES:
                raise ValueError(f"it is larger than {MAX_BYTES} bytes")
            lines = [line.strip() for line in content.decode("utf-8-sig").splitlines()]
            item["text"] = [line for line in lines if line]
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            message = (
                f"cannot read {one_line(path)} ({reason}); give UTF-8 text with a sentence a line, or builtin"
            )
            at = ("load", name, "text")
            problems.append(Problem(path=at, message=message, where=places.get(at)))
            item["text"] = _BUILTIN_TEXT  # so that it is told once; nothing runs with it
    return problems
