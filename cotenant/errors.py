"""The three kinds of error: the user's, ours, and (as records) the tested service's."""

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final


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


# By kind of a service's failure (`cotenant.records.ERROR_KINDS`), what to look at first.
HINTS: Final[Mapping[str, str]] = {
    "dns": "the name does not resolve here: look at the url's host",
    "refused": "nothing listens there: start the service, or correct the url's port",
    "tls": "no TLS that is trusted here: name the authority in ca_file, or write http:// where there is none",
    "timeout": "it was too slow or hung: look at its log and its queue, or raise timing.stall_limit",
    "unauthorized": "it wants a key: name the variable that holds one in the tenant's api_key_env",
    "forbidden": "the key is known but may not do this: look at its rights, or take another one",
    "not_found": "no such path or model there: look at the tenant's url, protocol and model",
    "rate_limited": "it allows fewer requests: raise its limit, or send fewer; none is sent again, for that "
    "would hide what is measured",
    "overloaded": "it turns requests away: fewer streams, or a longer queue on its side",
    "server_error": "it failed inside: its log says why",
    "protocol": "it does not answer as asked: look at the tenant's protocol and at what it sends (curl -i)",
    "in_stream": "it broke off and said so in the stream: its log says why",
    "truncated": "the connection ended too early: a crash, a proxy's time limit, or a restart",
    "empty": "it answered without any output: look at the model, the voice and the text",
}


# What a refusal says of a field that a request had to have, as in `"type":"missing","loc":["body","voice"]`,
# `voice: field required`, `you must provide a model parameter` and `requires a 'voice' parameter`.
_LACKS: Final = re.compile(
    r"\b(?:missing|required|(?:provide|requires) an?)\b\W{1,3}"
    r"(?:(?:loc|body|required|field|parameter)\W{1,5}){0,3}(voice|model)\b"
    r"|\b(voice|model)\b\W{0,4}(?:(?:field|parameter|name|is|an?|are|must be|was)\W+){0,3}"
    r"(?:required|missing|provided|not (?:set|given|specified)|empty)\b",
    re.IGNORECASE,
)
# As `Unknown voice 'x'`, `Invalid voice` and `Unsupported CustomVoice speaker`; at most two words between.
_NO_VOICE: Final = re.compile(
    r"\b(?:unknown|invalid|unsupported)(?: [\w-]+){0,2} (?:voice|speaker)\b", re.IGNORECASE
)
# A refusal may repeat the whole request, which has fields that are not missing.
_REPEATED: Final = re.compile(r'"input"\s*:\s*\{[^}]*(?:\}|$)')


def hint_of(
    kind: str,
    started: Sequence[str] = (),
    *,
    tenant: str | None = None,
    key_env: str | None = None,
    said: str = "",
) -> str:
    """What to look at first where a service fails so; "" for a kind that is not known.

    `started`: the tenants that it can have been, where the run itself started all of their servers: one that
    refuses has ended, for it was asked before anything was measured. `tenant`: whose service it is, where
    that is known; `key_env`: the variable its key came from; `said`: what it answered.
    """
    if kind == "refused" and started:
        logs = " or ".join(f"logs/{name}*.log" for name in started)
        who = " or ".join(started)
        return f"the server of {who}, which the run itself started, has ended: see {logs}"
    if kind == "unauthorized" and key_env is not None:
        return f"the key in {key_env} was refused: export the right one"
    if kind == "unauthorized" and tenant is not None:
        # What stands behind `api_key...=` would be taken for a secret.
        return f"it wants a key: export one, and name its variable in tenants.{tenant}.api_key_env"
    if kind == "protocol" and tenant is not None and (lacks := _lacking(said)):
        sets = " ".join(f"--set tenants.{tenant}.{field}=NAME" for field in lacks)
        return f"it wants a {' and a '.join(lacks)}: {sets}"
    if kind in ("protocol", "in_stream") and tenant is not None and _NO_VOICE.search(said):
        return f"it has no such voice: --set tenants.{tenant}.voice=NAME, with one that it names"
    return HINTS.get(kind, "")


def _lacking(said: str) -> list[str]:
    """The fields of a tenant that a refusal asks for."""
    found = _LACKS.findall(_REPEATED.sub("", said))
    return list(dict.fromkeys((before or behind).lower() for before, behind in found))


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
