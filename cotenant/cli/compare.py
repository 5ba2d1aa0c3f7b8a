"""`cotenant compare`: is run B worse than run A?"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from cotenant.cli import options as flags


def command(
    a: Annotated[Path, typer.Argument(metavar="A", help="The run directory to compare with.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The run directory that may be worse.")],
    decision: Annotated[
        flags.Decision | None,
        typer.Option("--decision", help="Intervals, or values alone (what both runs decided by)."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Prints the comparison as JSON on stdout.")] = False,
) -> int:
    """Compares two recorded runs: exits 1 where B is worse, 3 where that could not be told."""
    from cotenant.report.comparison import render
    from cotenant.run_dir.reader import read
    from cotenant.verdict.compare_runs import compare_runs, exit_code
    from cotenant.verdict.summary import to_json

    found = compare_runs(read(a), read(b), None if decision is None else decision.value)
    print(render(found), file=sys.stderr, end="")
    if json:
        sys.stdout.buffer.write(to_json(found).encode())
        sys.stdout.buffer.flush()
    return exit_code(found)
