"""`cotenant doctor`: what this machine can do, and what services at given addresses are like."""

import json
import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from cotenant.errors import ExitCode

_DEFAULT: Final = "all-together"
_WIDEST: Final = 120


def command(
    scenario: Annotated[
        str, typer.Argument(metavar="[SCENARIO]", help="A name (see `cotenant list`) or a YAML file.")
    ] = _DEFAULT,
    override: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Changes the scenario, as in sharing=mps."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where its runs would be written.")
    ] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Prints findings and facts on stdout.")] = False,
) -> int:
    """Says what this machine has for a scenario, what it lacks and how to get it; starts nothing of it."""
    return machine(scenario, override or [], out, as_json=as_json)


def machine(scenario: str, overrides: list[str], out: Path, *, as_json: bool) -> int:
    """Looks, prints, and ends with 5 where something that the scenario needs is missing. Raises UserError."""
    from cotenant.cli import output
    from cotenant.conductor.doctor import look
    from cotenant.report.doctor.findings import can_run, findings, to_json
    from cotenant.report.doctor.text import render

    facts = look(scenario, overrides, out)
    found = findings(facts)
    runs = can_run(found)
    if as_json:
        print(json.dumps(to_json(facts, found), indent=1))
    console = output.stderr_console()
    heading = f"cotenant {facts.versions['cotenant']}, Python {facts.versions['python']}, "
    text = render(heading + str(facts.versions["kernel"]), found, min(console.width, _WIDEST))
    verdict = (
        f"{facts.scenario} can run here: {_run_line(scenario, overrides)}"
        if runs
        else f"{facts.scenario} cannot run here: see what is missing above"
    )
    output.tell(text + "\n" + verdict)
    return ExitCode.PASS if runs else ExitCode.COULD_NOT_RUN


def _run_line(scenario: str, overrides: list[str]) -> str:
    sets = (part for text in overrides for part in ("--set", text))
    return shlex.join(["cotenant", "run", scenario, *sets])
