"""Plain data <-> a scenario: every error told at once; the form that is recorded, without secrets. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from cotenant.errors import UserError
from cotenant.scenario.checks import cross_checks
from cotenant.scenario.explain import explain
from cotenant.scenario.schema import Scenario
from cotenant.scenario.yaml_text import Path, Problem

HIDDEN: Final = "(hidden)"
_SECRET_RE: Final = re.compile(r"key|token(?!s|iz)|secret|passw|credential|auth", re.IGNORECASE)


def parse(data: Any) -> Scenario:
    """A scenario of plain data, as `dump` makes it. Raises UserError listing everything that is wrong."""
    return checked(data, {}, [], title="the scenario")


def dump(scenario: Scenario) -> dict[str, Any]:
    """The plain YAML and JSON form; `parse(dump(s)) == s`. Fields that are None are left out."""
    plain: dict[str, Any] = scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain


def public_dump(scenario: Scenario) -> dict[str, Any]:
    """`dump` as it may be written to disk: values that look like secrets by their names are `(hidden)`.

    Covers a tenant's `env`, `extra` and the options in its `command` and `vllm`. It parses still.
    """
    plain = dump(scenario)
    for tenant in plain["tenants"].values():
        tenant["env"] = hide_secrets(tenant["env"])
        tenant["extra"] = hide_secrets(tenant["extra"])
        if "command" in tenant:
            tenant["command"] = hide_options(tenant["command"])
        if "vllm" in tenant:
            tenant["vllm"]["extra_args"] = hide_options(tenant["vllm"]["extra_args"])
    return plain


def checked(data: Any, places: Mapping[Path, str], problems: Sequence[Problem], *, title: str) -> Scenario:
    """The scenario of `data`. Raises UserError with `problems` and all that is wrong in it, by `places`."""
    told = list(problems)
    scenario = None
    if not isinstance(data, dict):
        if not told:
            told = [Problem(path=(), message=_not_a_mapping(data), where=places.get(()))]
    else:
        found = list(cross_checks(data))
        try:
            scenario = Scenario.model_validate(data)
        except ValidationError as error:
            found = explain(error, data) + found
        broken = {problem.path for problem in problems if problem.path}
        for path, message in found:
            if not any(path[: len(outer)] == outer for outer in broken):
                told.append(Problem(path=path, message=message, where=_place(places, path)))
    if told or scenario is None:
        lines = list(dict.fromkeys(problem.text() for problem in told))
        count = "one error" if len(lines) == 1 else f"{len(lines)} errors"
        raise UserError(f"{title} has {count}:\n" + "\n".join(f"  {line}" for line in lines))
    return scenario


def _not_a_mapping(data: Any) -> str:
    what = {type(None): "it is empty", list: "it is a list"}.get(type(data), f"it is {str(data)[:40]!r}")
    return f"{what}; a scenario is `key: value` lines with at least tenants, load and stages"


def _place(places: Mapping[Path, str], path: Path) -> str | None:
    """The place of the path, or of the nearest thing around it (a missing key has none of its own)."""
    while path not in places and path:
        path = path[:-1]
    return places.get(path) if path else None


def hide_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: HIDDEN if _SECRET_RE.search(key) else hide_secrets(inner) for key, inner in value.items()
        }
    return [hide_secrets(inner) for inner in value] if isinstance(value, list) else value


def hide_options(command: Sequence[str]) -> list[str]:
    """`--api-key X` and `--api-key=X` without X."""
    hidden: list[str] = []
    for argument in command:
        option, sign, _ = argument.partition("=")
        before = hidden[-1] if hidden else ""
        if before.startswith("-") and "=" not in before and _SECRET_RE.search(before) and argument[:1] != "-":
            hidden.append(HIDDEN)
        elif sign and _SECRET_RE.search(option):
            hidden.append(f"{option}={HIDDEN}")
        else:
            hidden.append(argument)
    return hidden
