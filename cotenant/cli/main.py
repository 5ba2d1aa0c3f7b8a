"""The `cotenant` command. It imports typer and rich alone; a command imports the rest when it runs."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from cotenant import __version__
from cotenant.cli import compare, gate, list_, run, serve, simulate
from cotenant.cli.guard import guard

COMMANDS: dict[str, Callable[..., int]] = {
    "run": run.command,
    "gate": gate.command,
    "compare": compare.command,
    "simulate": simulate.command,
    "serve": serve.command,
    "list": list_.command,
}


def main() -> None:
    """Runs the command of `sys.argv` and ends the process with its exit code."""
    if "NO_COLOR" in os.environ or not sys.stderr.isatty() or not sys.stdout.isatty():
        os.environ["_TYPER_FORCE_DISABLE_TERMINAL"] = "1"  # typer takes some CI systems for a terminal
    sys.exit(guard(_run_app))


def _run_app() -> int:
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


if __name__ == "__main__":
    main()
