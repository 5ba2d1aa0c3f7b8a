"""From addresses to a scenario: each service is tried, and a document written that `cotenant run` takes."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cotenant.conductor.doctor import try_service
from cotenant.conductor.doctor.trial import LIMIT_NS, Tell, run_until_signal, within_limit, without
from cotenant.conductor.preflight import find_device, find_machine
from cotenant.errors import CouldNotRun, UserError
from cotenant.report.doctor.facts import Tried
from cotenant.report.doctor.tried import summary_line
from cotenant.scenario import services
from cotenant.scenario.address import check_url
from cotenant.scenario.auto import resolve
from cotenant.scenario.hidden import Secrets
from cotenant.scenario.load import find, load, load_unsaved, packaged_names, read_file
from cotenant.scenario.merge import override
from cotenant.scenario.parse import secrets_of
from cotenant.scenario.schema import Scenario
from cotenant.scenario.values import environment_name

_TRIES: Final = {
    "speech": try_service.try_speech,
    "face": try_service.try_face,
    "completions": try_service.try_llm,
}
_NAME: Final = "my-services"  # of what nobody has named
_FLAGS: Final = {"speech": "--tts", "face": "--face", "completions": "--llm"}
# The places of a document that stands in no file.
_LINE_RE: Final = re.compile(r" \(line \d+\)(?=:)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An address, and the variable that holds its key."""

    kind: str
    url: str
    key_env: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of each service, without the keys, and the scenario as YAML, whose addresses are as they were
    given; None where one of them failed.

    `base`: what it extends; `builtin`: the tenants that stay built-in stand-ins; `started`: those that the
    run starts by a command, a vLLM of random weights too.
    """

    tried: tuple[Tried, ...]
    text: str | None
    base: str
    builtin: tuple[str, ...]
    started: tuple[str, ...]


def try_services(
    base: str | None,
    given: Sequence[Given],
    overrides: Sequence[str],
    path: Path | None,
    *,
    limit_ns: int = LIMIT_NS,
    tell: Tell = lambda _text: None,
) -> Outcome:
    """Tries them one after another, each for `limit_ns` at most.

    `base`: what is extended, None for the smallest ladder that has them; `path`: where the scenario will be
    written; `tell`: who is told what is waited for.

    Raises UserError for what cannot be a scenario, whatever the services answer, CouldNotRun where they tell
    what cannot stand in one, Stopped by a signal.
    """
    base = services.base_for({one.kind for one in given}) if base is None else base
    folder = Path() if path is None else path.parent
    document = _document(base, given, overrides, path)
    scenario = _as_said(document, folder)
    names = [name for name, tenant in document["tenants"].items() if tenant and tenant.get("url")]
    secrets = secrets_of(scenario, os.environ)
    tried = run_until_signal(_try_each(scenario, names, limit_ns, tell, secrets))
    builtin, started = (
        tuple(name for name, tenant in scenario.tenants.items() if tenant.engine == engine)
        for engine in ("builtin", "launch")
    )
    told = tuple(without(secrets, one) for one in tried)
    outcome = Outcome(tried=told, text=None, base=base, builtin=builtin, started=started)
    if any(one.failed for one in tried):
        return outcome
    try:
        text = _text(document, replace(outcome, tried=tried), folder)
    except UserError as error:
        # Before the trial it was a scenario: what makes it none is what the services told.
        text = secrets.text(f"what the services tell cannot stand in a scenario: {error}")
        raise CouldNotRun(text) from None
    return replace(outcome, text=text)


async def _try_each(
    scenario: Scenario, names: Sequence[str], limit_ns: int, tell: Tell, secrets: Secrets
) -> tuple[Tried, ...]:
    def tell_plain(text: str) -> None:
        tell(secrets.text(text))

    tried = []
    for name in names:
        attempt = _TRIES[scenario.tenants[name].kind]
        try:
            tried.append(await within_limit(attempt, scenario, name, limit_ns, tell_plain))
        except ValueError as error:
            raise UserError(secrets.text(f"{name}: {error}")) from None
    return tuple(tried)


def _document(
    base: str, given: Sequence[Given], overrides: Sequence[str], path: Path | None
) -> dict[str, Any]:
    """The document before anything is found out. Raises UserError."""
    found = _base(base, path)
    tenants: dict[str, dict[str, Any]] = {}
    for one in given:
        name = services.tenant_of_kind(found, one.kind)
        if name is None:
            raise UserError(f"{base} has no tenant of kind {one.kind}; give a scenario that has one")
        try:
            check_url(one.url)
        except ValueError as error:
            raise UserError(f"{_FLAGS[one.kind]}: {error}") from None
        try:
            environment_name(one.key_env or "KEY")
        except ValueError as error:
            raise UserError(f"{_FLAGS[one.kind]}-key-env: {error}") from None
        if one.key_env is not None and not os.environ.get(one.key_env, "").strip():
            raise UserError(f"the variable {one.key_env} is not set; export it with the key for {name}")
        tenants[name] = {"url": one.url, **({"api_key_env": one.key_env} if one.key_env else {})}
    # A file is named so that it is found from the folder of the one that is written.
    extended = base if base in packaged_names() else str(find(base).absolute())
    document = services.draft(_NAME if path is None else path.stem, extended, found, tenants)
    problems = [problem for text in overrides for problem in override(document, {}, text, keep_null=True)]
    if problems:
        raise UserError("\n".join(problem.text() for problem in problems))
    return document


def _base(base: str, path: Path | None) -> Scenario:
    """The scenario that is extended. Raises UserError, also where it is made of the file to be written."""
    read: list[Path] = []

    def reading(one: Path) -> bytes:
        read.append(one.resolve())
        return read_file(one)

    found = load(base, read=reading)
    if path is not None and path.resolve() in read:
        other = path.with_name(f"{path.stem}-tried{path.suffix}")
        raise UserError(
            f"--write {path}: {base} is made of that file, which would extend itself; give another name, "
            f"as in --write {other}"
        )
    return found


def _as_said(document: Mapping[str, Any], folder: Path) -> Scenario:
    """As `_resolved` has it, but for the protocols, of which `auto` is to be found out."""
    resolved, said = _resolved(document, folder), _read(document, folder)
    protocols = {name: {"protocol": tenant.protocol} for name, tenant in said.tenants.items()}
    tenants = {name: one.model_copy(update=protocols[name]) for name, one in resolved.tenants.items()}
    return resolved.model_copy(update={"tenants": tenants})


def _resolved(document: Mapping[str, Any], folder: Path) -> Scenario:
    """The scenario of a document, as a run on this machine would have it. Raises UserError."""
    scenario = _read(document, folder)
    device = find_device(scenario.device)
    return resolve(scenario, device.kind, machine=find_machine(device))


def _read(document: Mapping[str, Any], folder: Path) -> Scenario:
    try:
        return load_unsaved(services.to_yaml(document, []), folder, title="what is given")
    except UserError as error:
        raise UserError(_LINE_RE.sub("", str(error))) from None


def stays(outcome: Outcome) -> list[str]:
    """Sentences about the tenants whose addresses were not given."""
    told = []
    if outcome.builtin:
        told.append(f"built-in stand-ins, no address given: {', '.join(outcome.builtin)}")
    if outcome.started:
        told.append(f"started by the run, no address given: {', '.join(outcome.started)}")
    return told


def _text(document: Mapping[str, Any], outcome: Outcome, folder: Path) -> str:
    """The YAML with what was found; it has been read and resolved once."""
    tried = outcome.tried
    result = services.settled(document, {one.tenant: one.settings for one in tried})
    contexts = {one.tenant: one.context_tokens for one in tried if one.context_tokens is not None}
    for name, prompt in services.shortened_prompts(_resolved(result, folder), contexts).items():
        result.setdefault("load", {}).setdefault(name, {})["prompt"] = prompt
    _resolved(result, folder)
    comments = ["Written by `cotenant doctor`. Alone, one request each showed:"]
    comments += [f"  {summary_line(one)}" for one in tried]
    comments += [f"{text[0].upper()}{text[1:]}." for text in stays(outcome)]
    return services.to_yaml(result, comments)
