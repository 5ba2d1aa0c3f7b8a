"""`cotenant compare`: is run B worse than run A?"""

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
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Writes a page of the two runs.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Prints the comparison as JSON on stdout.")] = False,
) -> int:
    """Compares two recorded runs: exits 1 where B is worse, 3 where that could not be told."""
    from cotenant.cli import output
    from cotenant.report.comparison import render
    from cotenant.run_dir.reader import read
    from cotenant.verdict.compare_runs import compare_runs, exit_code
    from cotenant.verdict.summary import to_json

    runs = read(a), read(b)
    found = compare_runs(*runs, None if decision is None else decision.value)
    output.tell(render(found, output.width_of(output.stderr_console())).removesuffix("\n"))
    if html is not None:
        from cotenant.cli.page_file import write_compare_page

        write_compare_page(found, runs, html)
        output.tell(f"page   {html}")
    if json:
        output.print_bytes(to_json(found).encode(errors="backslashreplace"))
    return exit_code(found)
