"""`cotenant report`: what a recorded run looks like: the page, and files for other tools."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from cotenant.errors import ExitCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What is written, and where; None: not at all. Without any, the page goes into the run directory."""

    run: Path
    open: bool
    html: Path | None
    perfetto: Path | None
    wav: Path | None
    csv: Path | None
    parquet: Path | None


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    open_: Annotated[bool, typer.Option("--open", help="Opens the page in a browser.")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Writes the page there instead of RUN/report.html."),
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option("--perfetto", metavar="FILE", help="Writes a trace for ui.perfetto.dev (.json.gz)."),
    ] = None,
    wav: Annotated[
        Path | None, typer.Option("--wav", metavar="DIR", help="Writes every kept voice as it was heard.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="DIR", help="Writes the tables as CSV.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="DIR", help="Writes the tables as Parquet.")
    ] = None,
) -> int:
    """Writes the page of a recorded run (RUN/report.html), or what else is asked for."""
    return report(
        ReportOptions(run=run, open=open_, html=html, perfetto=perfetto, wav=wav, csv=csv, parquet=parquet)
    )


def report(options: ReportOptions) -> int:
    """Writes what was asked for and tells where. Raises UserError; 0 whatever the verdict is."""
    from cotenant.cli import report_files
    from cotenant.cli.page_file import PAGE_NAME, write_page
    from cotenant.run_dir.reader import read
    from cotenant.verdict.options import JudgeOptions
    from cotenant.verdict.summary import judge

    recording = read(options.run)
    judging = JudgeOptions()
    others = (options.perfetto, options.wav, options.csv, options.parquet)
    page = options.html
    if page is None and (options.open or not any(path is not None for path in others)):
        page = options.run / PAGE_NAME
    if page is not None:
        flag = None if options.html is None else "--html"
        write_page(options.run, recording, judge(recording, judging), judging, page, flag)
        _tell("page", page)
    if options.perfetto is not None:
        report_files.write_perfetto(recording, judging, options.perfetto)
        _tell("trace", options.perfetto)
    if options.wav is not None:
        _tell("sound", options.wav, report_files.write_wavs(options.run, recording, judging, options.wav))
    for kind, folder in _tables(options):
        if folder is not None:
            told = report_files.write_tables(options.run, recording, judging, folder, kind)
            _tell(kind, folder, told)
    if options.open and page is not None:
        _open(page)
    return ExitCode.PASS


def _tables(options: ReportOptions) -> Iterator[tuple[Literal["csv", "parquet"], Path | None]]:
    yield "csv", options.csv
    yield "parquet", options.parquet


def _tell(what: str, path: Path, more: str = "") -> None:
    from cotenant.cli import output

    output.tell(f"{what:<6} {path}{': ' if more else ''}{more}")


def _open(page: Path) -> None:
    """Where there is no browser or no display that is said: the page is there all the same."""
    import webbrowser

    try:
        opened = webbrowser.open(page.resolve().as_uri())
    except (webbrowser.Error, OSError, ValueError):
        opened = False
    if not opened:
        from cotenant.cli import output

        output.tell(
            f"note   --open: no browser can be started here; open {page} in any, on another machine too: "
            "it is one file"
        )
