"""Plain data <-> a scenario: every error told at once; the form that is recorded, without secrets. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from cotenant.errors import UserError
from cotenant.scenario.checks import cross_checks
from cotenant.scenario.explain import explain
from cotenant.scenario.hidden import (
    NO_SECRETS,
    Secrets,
    hide_options,
    hide_query,
    hide_secrets,
    values_in,
    values_in_options,
)
from cotenant.scenario.plain import value_checks
from cotenant.scenario.schema import Scenario
from cotenant.scenario.yaml_text import Path, Problem
from cotenant.secret_forms import HIDDEN

__all__ = [
    "HIDDEN", "checked", "dump", "hide_options", "hide_query", "hide_secrets", "parse", "public_dump",
    "secrets_of",
]  # fmt: skip

# Errors that are told one by one: who reads more of them begins at the top anyway.
_LINES: Final = 200
# Fields of a tenant that have no room for a secret.
_KEPT: Final = ("kind", "engine", "shape", "device", "protocol", "api_key_env", "sample_format", "mode")


def parse(data: Any) -> Scenario:
    """A scenario of plain data, as `dump` makes it. Raises UserError listing everything that is wrong."""
    return checked(data, {}, [], title="the scenario")


def dump(scenario: Scenario) -> dict[str, Any]:
    """The plain YAML and JSON form; `parse(dump(s)) == s`. Fields that are None are left out."""
    plain: dict[str, Any] = scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain


def public_dump(scenario: Scenario, secrets: Secrets = NO_SECRETS) -> dict[str, Any]:
    """`dump` as it may be written to disk: what looks like a secret by its name or its form, and each of
    `secrets` wherever it stands, is `(hidden)`.

    By their names: in a tenant's `env`, `extra`, the queries of its addresses, the messages in its `frames`
    and the arguments in its `command` and `vllm`. It parses still; names are never changed.
    """
    plain = dump(scenario)
    plain["about"] = secrets.text(plain["about"])
    plain["tenants"] = {name: _public(tenant, secrets) for name, tenant in plain["tenants"].items()}
    for load in plain["load"].values():
        if "text" in load:
            load["text"] = secrets.within(load["text"])
    return plain


def secrets_of(scenario: Scenario, environ: Mapping[str, str]) -> Secrets:
    """All that is secret in a scenario: the values of the variables that its tenants name in `api_key_env`,
    and what `public_dump` hides by its name or form."""
    found: list[str] = []
    for tenant in dump(scenario)["tenants"].values():
        variable = tenant.pop("api_key_env", None)
        if variable is not None:
            found += [where[variable] for where in (environ, tenant["env"]) if variable in where]
        found += values_in_options(tenant.pop("command", []))
        found += values_in_options(tenant.get("vllm", {}).pop("extra_args", []))
        found += values_in(tenant)
    return Secrets.of(found)


def _public(tenant: dict[str, Any], secrets: Secrets) -> dict[str, Any]:
    """The names of variables and places stay as they are; what a user wrote freely may hold a secret."""
    tenant["env"] = hide_secrets(tenant["env"])
    tenant["extra"] = hide_secrets(tenant["extra"])
    if "frames" in tenant:
        tenant["frames"] = _hide_in_messages(tenant["frames"])
    if "command" in tenant:
        tenant["command"] = hide_options(tenant["command"])
    if "vllm" in tenant:
        tenant["vllm"]["extra_args"] = hide_options(tenant["vllm"]["extra_args"])
    return {key: value if key in _KEPT else secrets.within(value) for key, value in tenant.items()}


def checked(data: Any, places: Mapping[Path, str], problems: Sequence[Problem], *, title: str) -> Scenario:
    """The scenario of `data`. Raises UserError with `problems` and all that is wrong in it, by `places`."""
    told = list(problems)
    scenario = None
    if not isinstance(data, dict):
        if not told:
            told = [Problem(path=(), message=_not_a_mapping(data), where=places.get(()))]
    else:
        found = [*value_checks(data), *cross_checks(data)]
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
        more = [f"and {len(lines) - _LINES} more"] if len(lines) > _LINES else []
        text = f"{title} has {count}:\n" + "\n".join(f"  {line}" for line in (*lines[:_LINES], *more))
        raise UserError(text.encode(errors="backslashreplace").decode())
    return scenario


def _not_a_mapping(data: Any) -> str:
    what = {type(None): "it is empty", list: "it is a list"}.get(type(data), f"it is {str(data)[:40]!r}")
    return f"{what}; a scenario is `key: value` lines with at least tenants, load and stages"


def _place(places: Mapping[Path, str], path: Path) -> str | None:
    """The place of the path, or of the nearest thing around it (a missing key has none of its own)."""
    while path not in places and path:
        path = path[:-1]
    return places.get(path) if path else None


def _hide_in_messages(frames: Mapping[str, Any]) -> dict[str, Any]:
    """A tenant's `frames` without secrets in what is sent; the paths into what comes stay."""
    hidden = {key: hide_secrets(value) if key in ("start", "end") else value for key, value in frames.items()}
    hidden["audio"] = {**hidden["audio"], "fields": hide_secrets(hidden["audio"]["fields"])}
    return hidden
