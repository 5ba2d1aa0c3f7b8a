"""The commands of `cotenant` put together; a command imports what it needs when it runs."""

import functools
from collections.abc import Callable
from typing import Annotated

import typer

from cotenant import __version__
from cotenant.cli import compare, doctor, gate, list_, listen, report, run, serve, simulate
from cotenant.cli.guard import guard

COMMANDS: dict[str, Callable[..., int]] = {
    "run": run.command,
    "gate": gate.command,
    "report": report.command,
    "compare": compare.command,
    "simulate": simulate.command,
    "serve": serve.command,
    "list": list_.command,
    "listen": listen.command,
    "doctor": doctor.command,
}


def run_app() -> int:
    """Runs the command of `sys.argv`. Raises SystemExit with its exit code."""
    make_app()(prog_name="cotenant")
    return 0


def make_app() -> typer.Typer:
    """The command line with every command, each one guarded: its errors end as exit codes."""
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Will voice and video survive on a shared GPU?",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name, function in COMMANDS.items():
        app.command(name)(_guarded(function))
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"cotenant {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """The options of `cotenant` itself; the callback of each does its work."""


def _guarded(function: Callable[..., int]) -> Callable[..., None]:
    @functools.wraps(function)
    def guarded(*args: object, **kwargs: object) -> None:
        raise typer.Exit(guard(lambda: function(*args, **kwargs)))

    return guarded
