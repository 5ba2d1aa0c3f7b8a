"""The three kinds of error: the user's, ours, and (as records) the tested service's."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns; the numbers are a contract with pipelines."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    INCONCLUSIVE = 3
    INVALID = 4
    COULD_NOT_RUN = 5
    OUR_FAULT = 70
    INTERRUPTED = 130
    TERMINATED = 143


class CotenantError(Exception):
    """Parent of every error that ends a command; `exit_code` is the code to end with.

    Anything else that reaches the command line is a fault of ours (exit 70).
    """

    exit_code = ExitCode.OUR_FAULT


class UserError(CotenantError):
    """A mistake in what the user gave: the message says what to do (exit 2)."""

    exit_code = ExitCode.USAGE


class CouldNotRun(CotenantError):
    """Nothing could be measured: a port taken, a tenant that did not start, a full disk (exit 5)."""

    exit_code = ExitCode.COULD_NOT_RUN


class ServiceError(Exception):
    """The tested service failed one request. Recorded in the stream's row, never shown as a crash.

    `kind` is one of `cotenant.records.ERROR_KINDS`; `offset` the byte of the body at which a decoder gave
    up.
    """

    def __init__(
        self, kind: str, message: str, *, status: int | None = None, offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.offset = offset
