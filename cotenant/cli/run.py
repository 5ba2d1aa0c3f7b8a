"""`cotenant run`: the ladder of a scenario, from the tenants' start to the verdict."""

from pathlib import Path
from typing import Annotated

import typer

from cotenant.cli import options as flags


def command(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A name (see `cotenant list`) or a YAML file.")
    ],
    lookahead: flags.LookaheadFlag = None,
    start: flags.StartFlag = None,
    after_underrun: flags.AfterUnderrunFlag = None,
    quantum: flags.QuantumFlag = None,
    gate: flags.GateFlag = None,
    decision: flags.DecisionFlag = None,
    inconclusive: flags.InconclusiveFlag = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="PATH=VALUE", help="Changes the scenario, as in load.voices.listeners=4."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The run directory is made in it.")
    ] = Path("runs"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Measures half as long and decides by point estimates.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Prints summary.json on stdout.")] = False,
) -> int:
    """Puts the services on one device, stage by stage, and says which stage breaks the playback."""
    judging = flags.judge_flags(
        lookahead=lookahead,
        start=start,
        after_underrun=after_underrun,
        quantum=quantum,
        gate=gate,
        decision=decision,
        inconclusive=inconclusive,
    )
    from cotenant.conductor.options import RunOptions
    from cotenant.conductor.run import run

    return run(
        RunOptions(
            scenario=scenario,
            overrides=(*(override or ()), *flags.scenario_overrides(judging)),
            out=out,
            quick=quick,
            judge=flags.judge_options(judging),
            inconclusive=judging.inconclusive,
            mqtt_url=None,
            json=json,
        )
    )
