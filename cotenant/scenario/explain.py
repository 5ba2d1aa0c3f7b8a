"""pydantic's errors -> paths as they stand in the file, and sentences that say what would be right."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from cotenant.scenario import schema
from cotenant.scenario.checks import Found
from cotenant.scenario.nearest import nearest
from cotenant.scenario.yaml_text import Path
from cotenant.secret_forms import by_form

_LOADS: Final[Mapping[str, type[BaseModel]]] = {
    "voices": schema.Voices,
    "faces": schema.Faces,
    "completions": schema.Completions,
}
_KINDS_OF_VALUE: Final = {
    "string_type": "text; quote it if it looks like a number or a yes",
    "dict_type": "`key: value` lines",
    "model_type": "`key: value` lines",
    "model_attributes_type": "`key: value` lines",
    "list_type": "a list, as in [a, b]",
    "bool_type": "true or false",
}
# Fields of a tenant that may hold a secret in any form: what stands there is not repeated.
_UNTOLD: Final = ("extra", "env", "frames", "command", "ready", "voice")
_FORMS: Final[Mapping[type, str]] = {str: "a text", list: "a list", dict: "a mapping"}
_OWN_GENERATOR: Final = (
    "unknown key; a generator of your own is served by a command: engine: launch, "
    'url: http://127.0.0.1:8091, command: [cotenant, serve, speech, --from, "MODULE:NAME", --port, "8091"]'
)
_EXTENDS: Final = (
    "a scenario extends another in a file of its own: write `extends: NAME` into one, or run NAME itself"
)


def explain(error: ValidationError, data: Mapping[str, Any]) -> list[Found]:
    """One (path, message) for each error, in the order of the fields; paths without pydantic's union tags."""
    found = []
    for number, item in enumerate(error.errors(include_url=False)):
        path, context = _file_path(item["loc"], data), {"number": number, **item.get("ctx", {})}
        found.append((path, _message(item["type"], item["msg"], item["input"], context, path, data)))
    return found


def _file_path(loc: Path, data: Mapping[str, Any]) -> Path:
    """Drops the tag of a union (the load's kind, text or gate), and [key] after a mapping's key."""
    path = tuple(part for part in loc if part != "[key]")
    return (*path[:2], *path[3:]) if path[:1] in (("load",), ("gate",)) and len(path) > 2 else path


def _message(kind: str, text: str, value: object, context: Mapping[str, Any], path: Path, data: Any) -> str:
    shown = _shown(value, path)
    if kind == "value_error":
        return text.removeprefix("Value error, ")
    if kind == "extra_forbidden":
        return _unknown_key(path, data, context["number"])
    if kind == "missing":
        return "it is missing; add it"
    if kind == "literal_error":
        choices = _choices(str(context.get("expected", "")))
        return f"{shown} is not known; {nearest(value, choices, number=context['number'])}"
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        given = value.get("kind") if isinstance(value, Mapping) else None
        wrong = f"the kind {given!r} is not known" if given is not None else "it has no kind"
        return f"{wrong}; {nearest(given, _LOADS, number=context['number'])}"
    if kind == "too_short":
        return "it is empty; there must be at least one"
    if kind == "string_pattern_mismatch":
        return f"{shown} has characters that cannot stand here; it must match {context.get('pattern')}"
    if kind in _KINDS_OF_VALUE:
        return f"{shown} cannot stand here; write {_KINDS_OF_VALUE[kind]}"
    return f"{shown} cannot stand here: {text}"


def _shown(value: object, path: Path) -> str:
    untold = path[:1] == ("tenants",) and (
        (path[2:3] and path[2] in _UNTOLD) or path[2:4] == ("vllm", "extra_args")
    )
    if untold and type(value) in _FORMS:
        return _FORMS[type(value)]
    text = by_form(repr(value))
    return text if len(text) <= 40 else text[:37] + "..."


def _unknown_key(path: Path, data: Mapping[str, Any], number: int) -> str:
    model = _model_at(path[:-1], data)
    if model is schema.Tenant and path[-1] == "from":
        return _OWN_GENERATOR
    if path == ("extends",):
        return _EXTENDS
    keys = [str(field.alias or name) for name, field in model.model_fields.items()] if model else []
    if not keys:
        return "unknown key; remove it"
    keys += ["extends"] if model is schema.Scenario else []
    return f"unknown key; {nearest(path[-1], keys, number=number)}"


def _choices(expected: str) -> list[str]:
    """The words of pydantic's `'a', 'b' or 'c'`."""
    return [part.strip().strip("'") for part in expected.replace(" or ", ", ").split(",") if part.strip()]


def _model_at(path: Path, data: Mapping[str, Any]) -> type[BaseModel] | None:
    """The model whose keys stand at this path of the file."""
    match path:
        case ("tenants", _, *inner):
            return _model_in(schema.Tenant, inner)
        case ("load", str(name)):
            return _LOADS.get(data["load"][name].get("kind"))
        case ("stages", int()):
            return schema.Stage
        case ("gate", int()):
            return schema.Gate
    return _model_in(schema.Scenario, path)


def _model_in(model: type[BaseModel], keys: Sequence[object]) -> type[BaseModel] | None:
    """The model that these keys lead to, each a field that holds one model or none."""
    for key in keys:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        if key not in fields:
            return None
        kind = fields[str(key)].annotation
        models = [
            one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, BaseModel)
        ]
        if not models:
            return None
        model = models[0]
    return model
