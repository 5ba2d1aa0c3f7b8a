"""All fields of a scenario with type, unit, default and meaning, read off the pydantic models. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, PlainValidator
from pydantic.fields import FieldInfo

from cotenant.errors import UserError
from cotenant.scenario import frames, values
from cotenant.scenario.model import Unit
from cotenant.scenario.nearest import nearest
from cotenant.scenario.schema import Scenario
from cotenant.scenario.values import OrAuto, Whole

# The parts whose keys are names of the user's own, or numbers.
_NAMED: Final = {"tenants": "tenants.NAME", "load": "load.NAME", "stages": "stages[N]", "gate": "gate[N]"}
_STEP_RE: Final = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")
_NOT_SET: Final = "not set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One field. `default` as in YAML; "required" or "not set" where there is none, "" for a part with fields
    of its own. `unit`: of a number, an example where it is written with it, "" where there is none."""

    path: str
    type: str
    unit: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The fields of one part. `title`: what it is, "" for the scenario itself; `kind`: of a load."""

    path: str
    title: str
    kind: str
    rows: tuple[Row, ...]


def _reader(kind: Any) -> object:
    """What reads the values of an annotated type."""
    return next(one.func for one in get_args(kind)[1:] if isinstance(one, PlainValidator | AfterValidator))


# Reader -> what it reads, and the unit or an example.
_FORMS: Final[dict[object, tuple[str, str]]] = {
    _reader(kind): (text, unit)
    for kind, text, unit in (
        (values.DurationNs, "duration", "as in 400ms or 20m"),
        (values.PositiveNs, "duration above 0", "as in 400ms or 20m"),
        (values.Tokens, "size", "tokens, as in 400 or 32k"),
        (values.ByteSize, "size", "bytes, as in 20Gi or 512Mi"),
        (values.Share, "share above 0 and up to 1", ""),
        (values.RatePerS, "rate", "as in 2.5/s or 30/m"),
        (values.Text, "builtin, a file with a sentence a line, or a list of sentences", ""),
        (values.Limit, "number, duration, share or rate", "as in 0.95, 500ms, 95 % or 20/s"),
        (values.Name, "name", ""),
        (values.LoadName, "name", ""),
        (values.StageName, "name", ""),
        (values.Device, "auto, cpu, cuda:N or a uuid", ""),
        (values.Url, "address", "as in http://127.0.0.1:8091"),
        (values.EnvName, "name of a variable", "as in TTS_KEY"),
        (frames.JsonPath, "path into JSON", "as in data.frame"),
        (frames.HeaderName, "name of a header", "as in X-Timestamp"),
    )
}


def sections(path: str = "") -> list[Section]:
    """Every part of a scenario with its fields; with a `path` those at it and below.

    Names of tenants and loads, and numbers of stages and gates, may be any; a load that is called like a kind
    is of that kind. Raises UserError for a path that is none.
    """
    everything = _everything()
    if not path:
        return list(everything)
    wanted = _general(path)
    steps = _steps(path)
    kind = steps[1] if len(steps) > 1 and steps[0] == "load" else None
    kinds = [part.kind for part in everything if part.kind]
    found = []
    for part in everything:
        if kind in kinds and part.kind not in ("", kind):
            continue
        rows = tuple(row for row in part.rows if row.path == wanted or _below(row.path, wanted))
        if rows:
            found.append(replace(part, rows=rows))
    if not found:
        known = {row.path for part in everything for row in part.rows}
        around = [one for one in known if one.rpartition(".")[0] == wanted.rpartition(".")[0]]
        right = nearest(wanted, sorted(around or known))
        raise UserError(f"--fields {path}: there is no such field; {right}")
    return found


@cache
def _everything() -> tuple[Section, ...]:
    return tuple(_of_model("", "", "", Scenario))


def _steps(path: str) -> list[str]:
    return [match[1] or match[2] for match in _STEP_RE.finditer(path)]


def _general(path: str) -> str:
    """`tenants.tts.rate` -> `tenants.NAME.rate`, `stages[0].load` -> `stages[N].load`; into a mapping of the
    user's own keys -> the mapping."""
    steps = _steps(path)
    first = _NAMED.get(steps[0] if steps else "")
    text = ".".join([first, *steps[2:]]) if first is not None and len(steps) > 1 else ".".join(steps)
    free = [row.path for part in _everything() for row in part.rows if "mapping" in row.type]
    return next((one for one in free if text.startswith(f"{one}.")), text)


def _below(path: str, wanted: str) -> bool:
    return path.startswith((f"{wanted}.", f"{wanted}["))


def _of_model(path: str, title: str, kind: str, model: type[BaseModel]) -> Iterator[Section]:
    """The part that is this model, and then the parts in it."""
    fields = {field.alias or name: (name, field) for name, field in model.model_fields.items()}
    inner: list[tuple[str, str, str, type[BaseModel]]] = []
    rows = []
    for key, (name, field) in fields.items():
        at = f"{path}.{key}" if path else key
        models = list(dict.fromkeys(_models(field.annotation)))
        place = _NAMED.get(at, at)
        for one in models:
            word = get_args(one.model_fields["kind"].annotation)[0] if len(models) > 1 else ""
            name_of = f"{place} of kind: {word}" if word else place
            inner.append((place, f"{name_of}: {_first_sentence(one)}", word, one))
        text, unit = _type(field.annotation, field.metadata)
        default = _default(model, name, field)
        rows.append(Row(path=at, type=text, unit=unit, default=default, meaning=field.description or ""))
    yield Section(path=path, title=title, kind=kind, rows=tuple(rows))
    for place, heading, word, one in inner:
        yield from _of_model(place, heading, word, one)


def _first_sentence(model: type[BaseModel]) -> str:
    return re.split(r"(?<=\.)\s", " ".join((model.__doc__ or "").split()), maxsplit=1)[0]


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for inner in get_args(kind) if get_origin(kind) is not Literal else ():
        yield from _models(inner)


def _type(kind: Any, metadata: Sequence[Any] = ()) -> tuple[str, str]:
    """What a value is, and its unit."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type(arguments[0], (*arguments[1:], *metadata))
    unit = next((one.name for one in metadata if isinstance(one, Unit)), "")
    for one in metadata:
        if isinstance(one, PlainValidator | AfterValidator):
            form = _form(one.func)
            if form is not None:
                return form[0], unit or form[1]
    if origin is Literal:
        return " | ".join(map(str, arguments)), unit
    if origin in (Union, UnionType):
        found = [_type(one) for one in arguments if one is not NoneType]
        return " or ".join(dict.fromkeys(text for text, _ in found)), unit or found[0][1]
    if origin is list:
        text, inner = _type(arguments[0])
        return f"list of: {text}", unit or inner
    if origin is dict:
        return ("parts by name" if any(_models(kind)) else "mapping"), unit
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "part", unit
    return {str: "text", bool: "true or false"}.get(kind, "any"), unit


def _form(read: object) -> tuple[str, str] | None:
    if isinstance(read, Whole):
        return f"whole number {read.low} to {read.high}", ""
    if isinstance(read, OrAuto):
        form = _form(read.read)
        return None if form is None else (f"{form[0]}, or auto", form[1])
    return _FORMS.get(read)


def _default(model: type[BaseModel], name: str, field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return _NOT_SET
    if isinstance(value, BaseModel):
        return ""
    (plain,) = model.model_construct(**{name: value}).model_dump(mode="json", include={name}).values()
    if isinstance(plain, bool):
        return str(plain).lower()
    return "[" + ", ".join(map(str, plain)) + "]" if isinstance(plain, list) else str(plain) or '""'
