"""`cotenant doctor`: what this machine can do, and what services at given addresses are like."""

import json
import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cotenant.errors import ExitCode, UserError
from cotenant.plain import one_line

if TYPE_CHECKING:
    from cotenant.conductor.doctor.try_services import Given
    from cotenant.scenario.hidden import Secrets

_DEFAULT: Final = "all-together"
_WIDEST: Final = 120


def _key_option(name: str) -> Any:
    return typer.Option(name, metavar="NAME", help="The environment variable that holds its key.")


def command(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCENARIO]",
            help=f"A name (see `cotenant list`) or a YAML file. Without it {_DEFAULT}; with addresses the "
            "smallest ladder that has what they are of.",
        ),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Changes the scenario, as in sharing=mps."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where its runs would be written.")
    ] = Path("runs"),
    tts: Annotated[str | None, typer.Option("--tts", metavar="URL", help="A speech server to try.")] = None,
    llm: Annotated[str | None, typer.Option("--llm", metavar="URL", help="An LLM server to try.")] = None,
    face: Annotated[str | None, typer.Option("--face", metavar="URL", help="A talking head to try.")] = None,
    tts_key_env: Annotated[str | None, _key_option("--tts-key-env")] = None,
    llm_key_env: Annotated[str | None, _key_option("--llm-key-env")] = None,
    face_key_env: Annotated[str | None, _key_option("--face-key-env")] = None,
    limit: Annotated[
        str | None,
        typer.Option("--limit", metavar="TIME", help="The longest that a service may take, as 2m. [30s]"),
    ] = None,
    no_try: Annotated[
        bool,
        typer.Option("--no-try", help="Sends the scenario's services no request: one can cost money."),
    ] = False,
    write: Annotated[
        Path | None,
        typer.Option("--write", metavar="FILE", help="Writes a scenario with the services that were tried."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="--write may replace a file.")] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Tells of a scenario's machine also what the scenario has no use for."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Prints findings and facts on stdout.")] = False,
) -> int:
    """Says what this machine has for a scenario, what it lacks and how to get it; starts nothing of it.

    Services that the scenario attaches are sent one request each, all at once, with its own settings.
    With --tts, --llm or --face those at these addresses are tried instead, one by one.
    """
    from cotenant.conductor.doctor.try_services import Given
    from cotenant.verdict.options import read_duration_ns

    kinds = (("speech", tts, tts_key_env), ("face", face, face_key_env), ("completions", llm, llm_key_env))
    given = [Given(kind=kind, url=url, key_env=env) for kind, url, env in kinds if url is not None]
    limit_ns = read_duration_ns("--limit", limit)
    if limit_ns == 0:
        raise UserError("--limit 0s: a service needs time to answer; give it some, as in 30s")
    if not given:
        if write is not None or force or tts_key_env or llm_key_env or face_key_env:
            raise UserError(
                "--write, --force and --...-key-env are for services; add --tts, --llm or --face URL"
            )
        everything = everything or scenario is None
        scenario = _DEFAULT if scenario is None else scenario
        if limit_ns is not None:
            _check_limit(scenario, override or [], no_try=no_try)
        return machine(
            scenario, override or [], out, as_json=as_json, limit_ns=limit_ns, no_try=no_try,
            everything=everything,
        )  # fmt: skip
    for flag, is_given, what in (
        ("--no-try", no_try, "the services of a scenario"),
        ("--all", everything, "the machine"),
    ):
        if is_given:
            raise UserError(f"{flag} is for {what}; leave it out, or --tts, --llm and --face")
    if any(url is None and env is not None for _, url, env in kinds):
        raise UserError(
            "a --...-key-env goes with the address of its service; add --tts, --llm or --face URL"
        )
    return try_them(scenario, given, override or [], write, force=force, as_json=as_json, limit_ns=limit_ns)


def _check_limit(scenario: str, overrides: list[str], *, no_try: bool) -> None:
    """Raises UserError where no service is tried."""
    from cotenant.conductor.plan import used_tenants
    from cotenant.scenario.load import load

    if no_try:
        raise UserError("--limit is for services that are tried; leave it out, or --no-try")
    found = load(scenario, tuple(overrides))
    if all(found.tenants[name].engine != "attach" for name in used_tenants(found)):
        raise UserError(
            f"--limit is for services, and {found.name} attaches none; add --tts, --llm or --face URL"
        )


def machine(
    scenario: str,
    overrides: list[str],
    out: Path,
    *,
    as_json: bool,
    limit_ns: int | None = None,
    no_try: bool = False,
    everything: bool = True,
) -> int:
    """Looks, tries what is attached (`limit_ns` for each; None: as is usual), prints, and ends with 5 where
    something that the scenario needs is missing. Raises UserError.

    Not `everything`: people are told only what concerns the scenario.
    """
    from cotenant.cli import output
    from cotenant.conductor.doctor.machine import look
    from cotenant.conductor.doctor.trial import LIMIT_NS, Stopped
    from cotenant.report.doctor.findings import can_run, findings, to_json
    from cotenant.report.doctor.text import render
    from cotenant.report.fold import folded

    longest_ns = None if no_try else limit_ns or LIMIT_NS
    try:
        facts = look(scenario, overrides, out, limit_ns=longest_ns, tell=output.tell)
    except Stopped as stopped:
        output.tell("cotenant: interrupted")
        return stopped.code
    found = findings(facts)
    runs = can_run(found)
    if as_json:
        print(json.dumps(to_json(facts, found), indent=1))
    width = min(output.stderr_console().width, _WIDEST)
    heading = f"cotenant {facts.versions['cotenant']}, Python {facts.versions['python']}, "
    shown = [one for one in found if everything or one.concerns]
    output.tell(render(heading + str(facts.versions["kernel"]), shown, width))
    verdict = f"{facts.scenario} can run here:" if runs else f"{facts.scenario} cannot run here:"
    command_line = _run_line(scenario, overrides)
    if not runs:
        output.tell("\n".join(folded(f"{verdict} see what is missing above", width)))
    elif len(verdict) + 1 + len(command_line) <= width:
        output.tell(f"{verdict} {command_line}")
    else:  # whole, so that it can be copied
        output.tell("\n".join([*folded(verdict, width), f"  {command_line}"]))
    return ExitCode.PASS if runs else ExitCode.COULD_NOT_RUN


def try_them(
    scenario: str | None,
    given: "list[Given]",
    overrides: list[str],
    write: Path | None,
    *,
    force: bool,
    as_json: bool,
    limit_ns: int | None = None,
) -> int:
    """Tries each service, prints what came, writes the scenario; ends with 5 where one failed.

    `scenario`: what it extends; None: the smallest ladder that has them.
    `limit_ns`: for each of them; None: as is usual. Raises UserError, also for a file that is there already
    without `force`.
    """
    from cotenant.cli import output
    from cotenant.cli.files import as_argument
    from cotenant.cli.scenario_file import check_file, write_scenario
    from cotenant.conductor.doctor.trial import LIMIT_NS, Stopped
    from cotenant.conductor.doctor.try_services import stays, try_services
    from cotenant.report.doctor.text import render
    from cotenant.report.doctor.tried import service_findings
    from cotenant.report.fold import folded

    if write is not None:
        check_file(write, force=force)
    longest_ns = LIMIT_NS if limit_ns is None else limit_ns
    try:
        outcome = try_services(scenario, given, overrides, write, limit_ns=longest_ns, tell=output.tell)
    except Stopped as stopped:
        output.tell("cotenant: interrupted; nothing is written")
        return stopped.code
    found = [finding for one in outcome.tried for finding in service_findings(one)]
    if as_json:
        services = [asdict(one) for one in outcome.tried]
        told = {key: getattr(outcome, key) for key in ("base", "builtin", "started")}
        print(json.dumps({"schema": 1, "services": services, **told}, indent=1))
    console = output.stderr_console()
    width = min(console.width, _WIDEST)
    output.tell(render("one request to each service, alone:", found, width))
    if outcome.text is None:
        output.tell("nothing is written: a service failed" if write is not None else "a service failed")
        return ExitCode.COULD_NOT_RUN
    if scenario is None and outcome.base != _DEFAULT:
        text = (
            f"extends {outcome.base}: `cotenant doctor {_DEFAULT} ...` adds stand-ins for what has no address"
        )
        output.tell("\n".join(folded(text, width)))
    for text in stays(outcome):
        output.tell("\n".join(folded(text, width)))
    if write is not None:
        write_scenario(write, outcome.text, force=force)
        output.tell(f"wrote {one_line(write)}: cotenant run {as_argument(write)}")
    return ExitCode.PASS


def _run_line(scenario: str, overrides: list[str]) -> str:
    """The command, to be copied, but for the secrets in it: whoever gave them knows them."""
    from cotenant.scenario.set_text import shown

    secrets = _secrets(scenario, overrides)
    sets = (part for text in overrides for part in ("--set", shown(text, secrets)))
    return shlex.join(["cotenant", "run", scenario, *sets])


def _secrets(scenario: str, overrides: list[str]) -> "Secrets":
    from cotenant.scenario.hidden import Secrets
    from cotenant.scenario.load import load
    from cotenant.scenario.parse import secrets_of
    from cotenant.secret_forms import is_secret

    try:
        return secrets_of(load(scenario, overrides), os.environ)
    except UserError:  # a pipe is read once
        return Secrets.of(value for name, value in os.environ.items() if is_secret(name))
