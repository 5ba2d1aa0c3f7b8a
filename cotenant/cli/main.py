"""The `cotenant` command: a process that ends with a code that says the truth, also where nobody reads it."""

import os
import signal
import sys

from cotenant.cli import streams

_INTERRUPTED = 130


def main() -> None:
    """Runs the command of `sys.argv` and ends the process with its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # An import that is interrupted ends in any exception at all. `run` takes the signal back when it has
        # something to stop.
        signal.signal(signal.SIGINT, _leave)
    written = streams.protect()
    from cotenant.cli.app import run_app
    from cotenant.cli.guard import guard

    if "NO_COLOR" in os.environ or not sys.stderr.isatty() or not sys.stdout.isatty():
        os.environ["_TYPER_FORCE_DISABLE_TERMINAL"] = "1"  # typer takes some CI systems for a terminal
    try:
        code: object = guard(run_app)
    except SystemExit as ended:
        code = ended.code
    sys.exit(streams.code_of(code, written))


def _leave(number: int, frame: object) -> None:
    streams.write_last("cotenant: interrupted\n")
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
