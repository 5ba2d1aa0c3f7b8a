"""What contradicts in a launched `cotenant serve`: its kind and port are the tenant's. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from cotenant.scenario.yaml_text import Path

Found = tuple[Path, str]

_MODULE: Final = "cotenant.tenants.builtin.server"
_KINDS: Final = {"speech": "speech", "face": "face", "llm": "completions", "completions": "completions"}


def serve_checks(tenant: Mapping[str, Any]) -> Iterator[Found]:
    """Every contradiction of a tenant whose command is a server of ours, as (path in the tenant, message)."""
    command, url = tenant.get("command"), tenant.get("url")
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        return
    arguments = _arguments(command)
    if not arguments:
        return
    served, kind = _KINDS.get(arguments[0]), tenant.get("kind")
    if served is not None and kind in _KINDS.values() and served != kind:
        yield (
            ("command",),
            f"it serves {arguments[0]}, and this tenant is of kind: {kind}; change one of them",
        )
    port = _port(url)
    if port is None:
        return
    given = _option(arguments, "--port")
    if given is None or given == "0":
        yield ("command",), f'without --port it takes any free one; add --port, "{port}", which url says'
    elif given != str(port):
        yield ("command",), f"it serves on port {given}, and url says {port}; write the same"


def _arguments(command: Sequence[str]) -> Sequence[str]:
    """What follows `cotenant serve`, or the server's own module; nothing for any other command."""
    for at, word in enumerate(command):
        if word == _MODULE or (word == "serve" and at and _is_cotenant(command[at - 1])):
            return command[at + 1 :]
    return ()


def _is_cotenant(word: str) -> bool:
    return word.rpartition("/")[2] in ("cotenant", "cotenant.cli.main")


def _option(arguments: Sequence[str], name: str) -> str | None:
    for at, word in enumerate(arguments):
        if word.startswith(name + "="):
            return word.partition("=")[2]
        if word == name:
            return arguments[at + 1] if at + 1 < len(arguments) else None
    return None


def _port(url: object) -> int | None:
    try:
        return urlsplit(url).port if isinstance(url, str) else None
    except ValueError:
        return None
