"""From exceptions to exit codes: the one place where an error becomes a sentence on the terminal."""

import os
import traceback
from collections.abc import Callable

from cotenant.cli.output import tell
from cotenant.errors import CotenantError, ExitCode

DEBUG_VARIABLE = "COTENANT_DEBUG"


def guard(action: Callable[[], int]) -> int:
    """The exit code of `action`: what it returns, or what the error that ended it stands for."""
    try:
        code = action()
    except CotenantError as error:
        _tell(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _tell("interrupted")
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever is left is a fault of ours, and must not look like a verdict
        if os.environ.get(DEBUG_VARIABLE) == "1":
            traceback.print_exc()
        _tell(f"a fault of cotenant's own, {type(error).__name__}: {error} ({DEBUG_VARIABLE}=1 shows where)")
        return ExitCode.OUR_FAULT
    return code


def _tell(message: str) -> None:
    tell(f"cotenant: {message}")
