"""`cotenant list`: what there is to choose from, what a scenario says, and all that one can say."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cotenant.errors import UserError

_WIDE: Final = 108  # columns of what goes to a file

if TYPE_CHECKING:
    from cotenant.wire.protocols import ServiceProtocol
    from cotenant.wire.speech_servers import SpeechServer


def command(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCENARIO|PATH]",
            help="A scenario to print whole, with what it extends; with --fields a path into one, as in "
            "tenants.tts or timing.",
        ),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Changes the scenario that is printed."),
    ] = None,
    fields: Annotated[
        bool, typer.Option("--fields", help="All fields of a scenario: type, unit, default, meaning.")
    ] = False,
) -> int:
    """Lists the packaged scenarios, the shapes, the protocols and the gate profiles; prints a scenario."""
    from rich.console import Console

    from cotenant.cli.output import width_of

    if override and (fields or what is None):
        raise UserError("--set changes a scenario that is printed; give its name, without --fields")
    width = width_of(Console())
    if fields:
        from cotenant.report.listing import fields_text
        from cotenant.scenario.fields import sections

        print(fields_text(sections(what or ""), width))
    elif what is not None:
        print(scenario_text(what, override or (), width), end="")
    else:
        print(overview(width))
    return 0


def scenario_text(name_or_path: str, overrides: Sequence[str] = (), width: int | None = None) -> str:
    """A scenario as YAML that runs, all its fields said, after what it extends and `overrides`; above it the
    files that it is made of. What looks like a secret is hidden. Raises UserError."""
    from cotenant.report.fold import folded
    from cotenant.scenario.load import load, read_file
    from cotenant.scenario.parse import public_dump, secrets_of
    from cotenant.scenario.services import to_yaml

    files: list[str] = []
    notes: list[str] = []

    def reading(path: Path) -> bytes:
        if not files or path.suffix in (".yaml", ".yml"):
            files.append(str(path.absolute()))
        return read_file(path)

    scenario = load(name_or_path, overrides, read=reading, tell=notes.append)
    told = [files[0], *(f"extends {file}" for file in files[1:]), *notes]
    comments = [line for text in told for line in folded(text, None if width is None else width - 2)]
    plain = public_dump(scenario, secrets_of(scenario, os.environ))
    return to_yaml(plain, comments, width=width or _WIDE)


def overview(width: int | None = None) -> str:
    """The lists as text, folded to so many columns; None: an entry a line, for other programs."""
    from cotenant.report.listing import titled
    from cotenant.scenario.load import load, packaged_names
    from cotenant.scenario.memory import gib_text
    from cotenant.scenario.schema import SHAPES
    from cotenant.scenario.vllm import MODEL_SHAPES
    from cotenant.verdict.profiles import PROFILES
    from cotenant.wire.protocols import FACES, LLMS
    from cotenant.wire.speech_servers import SERVERS

    scenarios = {name: load(name).about for name in packaged_names()}
    sections = {
        "scenarios (cotenant run NAME; list NAME prints one, list --fields all it can say)": scenarios,
        "shapes of the built-in servers": _joined(SHAPES),
        "vLLM shapes (vllm.model; random weights)": {
            name: f"{gib_text(shape.weights_bytes)} of weights, {shape.max_tokens:,} tokens at most"
            for name, shape in MODEL_SHAPES.items()
        },
        "protocols of speech servers (kind: speech), and how each was tried": _tried(SERVERS),
        "protocols of talking heads (kind: face), and how each was tried": _tried(FACES),
        "protocols of LLM servers (kind: completions), and how each was tried": _tried(LLMS),
        "gate profiles": {
            name: "\n".join(f"{limit.metric} {limit.op} {limit.limit:g}" for limit in profile.limits)
            for name, profile in PROFILES.items()
        },
    }
    return titled(sections, width)


def _tried(table: Mapping[str, "ServiceProtocol"] | Mapping[str, "SpeechServer"]) -> dict[str, str]:
    return {
        name: f"{row.title}\n{'experimental, ' if row.experimental else ''}{row.tested}: {row.how_tested}"
        for name, row in table.items()
    }


def _joined(table: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {name: ", ".join(values) for name, values in table.items()}
