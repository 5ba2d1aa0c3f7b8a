"""`cotenant gate`: judges a recorded run again, with other options; writes nothing into it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cotenant.cli import options as flags


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """What is judged, and how."""

    run: Path
    judging: flags.JudgeFlags
    json: bool


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    lookahead: flags.LookaheadFlag = None,
    start: flags.StartFlag = None,
    after_underrun: flags.AfterUnderrunFlag = None,
    quantum: flags.QuantumFlag = None,
    gate: flags.GateFlag = None,
    decision: flags.DecisionFlag = None,
    inconclusive: flags.InconclusiveFlag = None,
    json: Annotated[bool, typer.Option("--json", help="Prints the summary as JSON on stdout.")] = False,
) -> int:
    """Judges a recorded run again: another lookahead, other gates. The run is not touched."""
    judging = flags.judge_flags(
        lookahead=lookahead,
        start=start,
        after_underrun=after_underrun,
        quantum=quantum,
        gate=gate,
        decision=decision,
        inconclusive=inconclusive,
    )
    return judge_run(GateOptions(run=run, judging=judging, json=json))


def judge_run(options: GateOptions) -> int:
    """Reads, judges, prints: the table on stderr, the JSON on stdout. Raises UserError where it is no run."""
    from cotenant.cli import output
    from cotenant.run_dir.reader import read
    from cotenant.verdict.summary import exit_code, judge

    recording = read(options.run)
    summary = judge(recording, flags.judge_options(options.judging))
    output.show_summary(summary, recording.manifest)
    if options.json:
        output.print_summary_json(summary)
    return exit_code(summary, options.judging.inconclusive)
