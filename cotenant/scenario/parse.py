"""Plain data <-> a scenario: every error told at once; the form that is recorded, without secrets. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from cotenant.errors import UserError
from cotenant.scenario.checks import cross_checks
from cotenant.scenario.explain import explain
from cotenant.scenario.plain import value_checks
from cotenant.scenario.schema import Scenario
from cotenant.scenario.yaml_text import Path, Problem

HIDDEN: Final = "(hidden)"
# Errors that are told one by one: who reads more of them begins at the top anyway.
_LINES: Final = 200
# vLLM's `pass_config` is about a compiler's passes.
_SECRET_RE: Final = re.compile(
    r"key|token(?!s|iz)|secret|pass(?!_config|es)|pwd|credential|auth|bearer|://[^/\s]*@", re.IGNORECASE
)
_OPTION_RE: Final = re.compile(r"-{0,2}[A-Za-z0-9_.-]+")
_QUERY_RE: Final = re.compile(r"([?&;#])([^?&;#=]+)=[^&;#]*")


def parse(data: Any) -> Scenario:
    """A scenario of plain data, as `dump` makes it. Raises UserError listing everything that is wrong."""
    return checked(data, {}, [], title="the scenario")


def dump(scenario: Scenario) -> dict[str, Any]:
    """The plain YAML and JSON form; `parse(dump(s)) == s`. Fields that are None are left out."""
    plain: dict[str, Any] = scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain


def public_dump(scenario: Scenario) -> dict[str, Any]:
    """`dump` as it may be written to disk: values that look like secrets by their names are `(hidden)`.

    Covers a tenant's `env`, `extra`, the queries of its addresses, the messages in its `frames` and the
    arguments in its `command` and `vllm`. It parses still.
    """
    plain = dump(scenario)
    for tenant in plain["tenants"].values():
        if "url" in tenant:
            tenant["url"] = hide_query(tenant["url"])
        tenant["ready"]["path"] = hide_query(tenant["ready"]["path"])
        tenant["env"] = hide_secrets(tenant["env"])
        tenant["extra"] = hide_secrets(tenant["extra"])
        if "frames" in tenant:
            tenant["frames"] = _hide_in_messages(tenant["frames"])
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


def hide_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: HIDDEN if _SECRET_RE.search(key) else hide_secrets(inner) for key, inner in value.items()
        }
    return [hide_secrets(inner) for inner in value] if isinstance(value, list) else value


def _hide_in_messages(frames: Mapping[str, Any]) -> dict[str, Any]:
    """A tenant's `frames` without secrets in what is sent; the paths into what comes stay."""
    hidden = {key: hide_secrets(value) if key in ("start", "end") else value for key, value in frames.items()}
    hidden["audio"] = {**hidden["audio"], "fields": hide_secrets(hidden["audio"]["fields"])}
    return hidden


def hide_options(command: Sequence[str]) -> list[str]:
    """Arguments without what may be a secret: one that looks like it, and whatever follows one.

    `--api-key X` and `--api-key=X` lose X, `-kX` too; `sh -c "serve --api-key X"` loses all of the text.
    Rather too much than too little: who follows a switch like `--no-auth` is hidden as well.
    """
    hidden: list[str] = []
    follows = False
    for argument in command:
        option, sign, _ = argument.partition("=")
        named = _OPTION_RE.fullmatch(option) is not None
        before, follows = follows, False
        if argument.startswith("-k"):
            hidden.append("-k" + (HIDDEN if argument != "-k" else ""))
            follows = argument == "-k"
        elif not _SECRET_RE.search(argument):
            hidden.append(HIDDEN if before else argument)
        elif sign and named:
            hidden.append(f"{option}={HIDDEN}")
        else:
            option_alone = named and argument.startswith("-") and (not before or argument.startswith("--"))
            hidden.append(argument if option_alone else HIDDEN)
            follows = True
    return hidden


def hide_query(url: str) -> str:
    """An address without the values of its query that look like secrets by their names."""
    return _QUERY_RE.sub(
        lambda pair: f"{pair[1]}{pair[2]}={HIDDEN}" if _SECRET_RE.search(pair[2]) else pair[0], url
    )
