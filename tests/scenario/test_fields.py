"""The list of all fields: none is left out, each has a meaning, types and defaults are the models'."""

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

import cotenant.scenario
from cotenant.errors import UserError
from cotenant.scenario.fields import Row, sections
from cotenant.scenario.load import dump, load, packaged_names

ROWS = [row for section in sections() for row in section.rows]


def models() -> Iterator[type[BaseModel]]:
    """Every model of the room, found without the list."""
    for module in pkgutil.iter_modules(cotenant.scenario.__path__):
        found = importlib.import_module(f"cotenant.scenario.{module.name}")
        for one in vars(found).values():
            if isinstance(one, type) and issubclass(one, BaseModel) and one.__module__ == found.__name__:
                yield one


def row(path: str) -> Row:
    (found,) = [one for section in sections(path) for one in section.rows]
    return found


def test_no_field_lacks_a_meaning() -> None:
    told = [one.meaning for one in ROWS]
    fields = [field for model in models() for field in model.model_fields.values()]
    assert len(fields) == len(ROWS) > 100
    for field in fields:
        assert field.description, field
        assert told.count(field.description) > 0, field
    for one in ROWS:
        assert one.meaning.endswith("."), one
        assert "\n" not in one.meaning
        assert len(one.meaning) < 160, one
        assert one.type not in ("", "any"), one


def paths(value: object, at: str = "") -> Iterator[str]:
    yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, f"{at}[{index}]")


@pytest.mark.parametrize("name", packaged_names())
def test_every_path_of_a_scenario_is_a_field(name: str) -> None:
    known = {one.path for one in ROWS}
    for path in paths(dump(load(name))):
        if path and path.rpartition("[")[0] not in ("gate",) and not path.startswith("tenants.tts.env."):
            inside_a_list = path.endswith("]") and not path.startswith("stages[")
            found = sections(path.rpartition("[")[0] if inside_a_list or ".load[" in path else path)
            assert {one.path for section in found for one in section.rows} <= known


@pytest.mark.parametrize(
    ("path", "type_", "unit", "default"),
    [
        ("lookahead", "duration", "as in 400ms or 20m", "400ms"),
        ("timing.measure", "duration above 0, or auto", "as in 400ms or 20m", "auto"),
        ("tenants.tts.rate", "whole number 4000 to 192000", "Hz", "not set"),
        ("tenants.tts.voices", "whole number 1 to 64, or auto", "", "not set"),
        ("tenants.tts.packets.ramp", "list of: whole number 1 to 10000", "frames of 80 ms", "[]"),
        ("tenants.llm.vllm.kv_cache_memory_bytes", "size", "bytes, as in 20Gi or 512Mi", "not set"),
        ("tenants.any.kind", "speech | face | completions", "", "required"),
        ("tenants.any.ready.within", "duration above 0", "as in 400ms or 20m", "5m"),
        ("tenants.any.extra.what.ever", "mapping", "", "{}"),
        ("load.completions.prompt", "size, or auto", "tokens, as in 400 or 32k", "auto"),
        ("stages[3].baseline", "true or false", "", "false"),
        ("gate[0].level", "fail | warn", "", "fail"),
    ],
)
def test_types_units_and_defaults(path: str, type_: str, unit: str, default: str) -> None:
    found = row(path)
    assert (found.type, found.unit, found.default) == (type_, unit, default)


def test_a_load_of_any_name_may_be_of_each_kind() -> None:
    assert [section.kind for section in sections("load.mine")] == ["voices", "faces", "completions"]
    assert [section.kind for section in sections("load.faces")] == ["faces"]


def test_a_part_is_shown_with_its_parts() -> None:
    assert [section.path for section in sections("tenants.head.frames")] == [
        "tenants.NAME", "tenants.NAME.frames", "tenants.NAME.frames.audio"
    ]  # fmt: skip


@pytest.mark.parametrize(("wrong", "near"), [("tenants.tts.rat", "tenants.NAME.rate"), ("timin", "timing")])
def test_what_is_no_field(wrong: str, near: str) -> None:
    with pytest.raises(UserError, match=f"there is no such field; did you mean '{near}'"):
        sections(wrong)
