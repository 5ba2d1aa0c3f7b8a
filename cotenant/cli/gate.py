"""`cotenant gate`: judges a recorded run again, with other options; writes nothing into it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cotenant.cli import options as flags
from cotenant.errors import UserError
from cotenant.verdict.options import JudgeOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """What is judged, and how."""

    run: Path
    judging: JudgeOptions
    junit: Path | None = None
    markdown: Path | None = None
    json: bool


def command(
    run: Annotated[list[Path], typer.Argument(metavar="RUN", help="One run directory.")],
    lookahead: flags.LookaheadFlag = None,
    start: flags.StartFlag = None,
    after_underrun: flags.AfterUnderrunFlag = None,
    quantum: flags.QuantumFlag = None,
    gate: flags.GateFlag = None,
    decision: flags.DecisionFlag = None,
    inconclusive: flags.InconclusiveFlag = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Writes a JUnit report: one case a gate.")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown",
            metavar="FILE",
            help='Writes Markdown for a pull request; "$GITHUB_STEP_SUMMARY" is added to.',
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Prints the summary as JSON on stdout.")] = False,
) -> int:
    """Judges a recorded run again: another lookahead, other gates. The run is not touched."""
    if len(run) > 1:
        raise UserError(
            f"gate judges one run, and {len(run)} are given; give one, or judge each by itself: "
            'for run in runs/*/; do cotenant gate "$run"; done (two are compared by `cotenant compare A B`)'
        )
    judging = flags.judge_options(
        lookahead=lookahead,
        start=start,
        after_underrun=after_underrun,
        quantum=quantum,
        gate=gate,
        decision=decision,
        inconclusive=inconclusive,
    )
    return judge_run(GateOptions(run=run[0], judging=judging, junit=junit, markdown=markdown, json=json))


def judge_run(options: GateOptions) -> int:
    """Reads, judges, prints: the table on stderr, the JSON on stdout. Raises UserError where it is no run."""
    from cotenant.cli import files, output
    from cotenant.report.junit import render as render_junit
    from cotenant.report.markdown import render as render_markdown
    from cotenant.run_dir.reader import read
    from cotenant.verdict.summary import exit_code, judge

    recording = read(options.run)
    summary = judge(recording, options.judging)
    output.show_summary(summary, recording.manifest)
    if options.json:
        output.print_summary_json(summary)
    if options.junit is not None:
        files.write_text("--junit", options.junit, render_junit(summary))
    if options.markdown is not None:
        files.write_markdown("--markdown", options.markdown, render_markdown(summary, recording.manifest))
    return exit_code(summary, options.judging.inconclusive)
