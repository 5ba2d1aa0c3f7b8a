"""How a scenario is laid over the one it extends, and how `--set path=value` changes one. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from cotenant.scenario.nearest import nearest
from cotenant.scenario.removal import names, take_out
from cotenant.scenario.set_text import is_hidden, parse_path, shown
from cotenant.scenario.yaml_text import Document, Path, Problem, parse_yaml, path_text

_OWN_KEYS: Final = ("name", "about", "extends")


def extend(base: Document, over: Document) -> Document:
    """`over` laid on `base`: mappings are merged key by key, anything else is replaced, null removes.

    What needs a tenant or a load that is removed goes with it; stages that `over` lists stay as they are.
    The name and the description are never taken over: they say what the other file is.
    """
    if not isinstance(base.data, dict) or not isinstance(over.data, dict):
        return Document(data=over.data, places=over.places, problems=base.problems + over.problems)
    data = {key: value for key, value in base.data.items() if key not in _OWN_KEYS}
    places = {
        path: place for path, place in base.places.items() if path[:1] not in [(key,) for key in _OWN_KEYS]
    }
    top = {key: value for key, value in over.data.items() if key != "extends"}
    before, wrong = names(base.data), _removed_for_nothing(base.data, over)
    _lay(data, places, top, over.places, ())
    places[()] = over.places.get((), "line 1")
    notes = take_out(data, places, before - names(data), stages="stages" not in over.data)
    return Document(
        data=data,
        places=places,
        problems=(*base.problems, *over.problems, *wrong),
        notes=(*base.notes, *over.notes, *notes),
    )


def _lay(
    data: dict[str, Any],
    places: dict[Path, str],
    over: Mapping[str, Any],
    over_places: Mapping[Path, str],
    at: Path,
) -> None:
    for key, value in over.items():
        path = (*at, key)
        if value is None and key in data:
            del data[key]
            _forget(places, path)
        elif isinstance(value, dict) and isinstance(data.get(key), dict):
            places[path] = over_places[path]
            _lay(data[key], places, value, over_places, path)
        else:
            data[key] = value
            _forget(places, path)
            places.update({p: place for p, place in over_places.items() if p[: len(path)] == path})


def _forget(places: dict[Path, str], path: Path) -> None:
    for known in [known for known in places if known[: len(path)] == path]:
        del places[known]


def override(data: Any, places: dict[Path, str], text: str, *, keep_null: bool = False) -> list[Problem]:
    """Applies one `path=value` to `data` and `places`, in place; the value is YAML, null removes the key.

    `keep_null`: it stays, for `data` that will be laid over other data and removes it there.
    """
    told = shown(text)
    where = f"--set {told if len(told) <= 60 else told[:57] + '...'}"
    left, sign, right = text.partition("=")
    path = parse_path(left.strip())
    if not sign or path is None:
        message = (
            f"{told[:60]!r} is not path=value; write it as load.voices.listeners=4 or stages[0].name=alone"
        )
        return [Problem(path=(), message=message, where="--set")]
    document = parse_yaml(right)
    if document.problems and is_hidden(text):  # they would quote it
        message = "the value cannot be read as YAML; quote it, as in path='\"value\"'"
        return [Problem(path=path, message=message, where=where)]
    if document.problems:
        return [Problem(path=path + p.path, message=p.message, where=where) for p in document.problems]
    wrong = _not_there(data, path) if document.data is None and not keep_null else None
    wrong = wrong or _assign(data, path, document.data, keep_null=keep_null)
    if wrong is not None:
        return [Problem(path=path, message=wrong, where=where)]
    _forget(places, path)
    for length in range(1, len(path) + 1):
        places.setdefault(path[:length], where)
    return []


def _removed_for_nothing(base: Mapping[str, Any], over: Document) -> list[Problem]:
    """The tenants and loads that `over` removes and `base` has not."""
    items = ((key, over.data.get(key)) for key in ("tenants", "load"))
    nulls = [
        (key, name)
        for key, inner in items
        if isinstance(inner, dict)
        for name, value in inner.items()
        if value is None
    ]
    found = ((path, _not_there(base, path)) for path in nulls)
    return [Problem(path=path, message=wrong, where=over.places.get(path)) for path, wrong in found if wrong]


def _not_there(data: Mapping[str, Any], path: Path) -> str | None:
    """What is wrong where a tenant or load is removed that is none."""
    word = {"tenants": "tenant", "load": "load"}.get(str(path[0])) if len(path) == 2 else None
    items = data.get(str(path[0]))
    if word is None or not isinstance(items, Mapping) or path[1] in items:
        return None
    return f"there is no {word} {path[1]!r} to remove; {nearest(path[1], items)}"


def _assign(data: Any, path: Path, value: Any, *, keep_null: bool) -> str | None:
    """Sets the value; returns what is wrong where the path leads nowhere."""
    here = data
    for depth, step in enumerate(path):
        last = depth == len(path) - 1
        around = path_text(path[:depth]) or "the scenario"
        if isinstance(here, dict):
            if last:
                _set_key(here, str(step), value, keep_null=keep_null)
            else:
                here = here.setdefault(str(step), {})
        elif isinstance(here, list):
            index = int(step) if str(step).isdecimal() else -1
            if not 0 <= index < len(here) + (last and value is not None):
                return f"{around} has {len(here)} items; write [0] to [{len(here)}], the last to add one"
            if not last:
                here = here[index]
            elif value is None:
                del here[index]
            else:
                here[index : index + 1] = [value]
        else:
            return f"{around} is a single value and has nothing inside; set {around} itself"
    return None


def _set_key(here: dict[str, Any], key: str, value: Any, *, keep_null: bool) -> None:
    if value is None and not keep_null:
        here.pop(key, None)
    else:
        here[key] = value
