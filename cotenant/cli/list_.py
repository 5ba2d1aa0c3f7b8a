"""`cotenant list`: what there is to choose from."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cotenant.wire.protocols import ServiceProtocol
    from cotenant.wire.speech_servers import SpeechServer

_LEAST_ROOM: Final = 24


def command() -> int:
    """Lists the packaged scenarios, the shapes, the protocols and the gate profiles."""
    from rich.console import Console

    from cotenant.cli.output import width_of

    print(overview(width_of(Console())))
    return 0


def overview(width: int | None = None) -> str:
    """The lists as text, folded to so many columns; None: an entry a line, for other programs."""
    from cotenant.report.fold import folded
    from cotenant.scenario.load import load, packaged_names
    from cotenant.scenario.memory import gib_text
    from cotenant.scenario.schema import SHAPES
    from cotenant.scenario.vllm import MODEL_SHAPES
    from cotenant.verdict.profiles import PROFILES
    from cotenant.wire.protocols import FACES, LLMS
    from cotenant.wire.speech_servers import SERVERS

    scenarios = {name: load(name).about for name in packaged_names()}
    sections = {
        "scenarios (cotenant run NAME)": scenarios,
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
    return "\n\n".join(
        "\n".join([*folded(title, width), *_lines(rows, width)]) for title, rows in sections.items()
    )


def _tried(table: Mapping[str, "ServiceProtocol"] | Mapping[str, "SpeechServer"]) -> dict[str, str]:
    return {
        name: f"{row.title}\n{'experimental, ' if row.experimental else ''}{row.tested}: {row.how_tested}"
        for name, row in table.items()
    }


def _joined(table: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {name: ", ".join(values) for name, values in table.items()}


def _lines(rows: Mapping[str, str], width: int | None) -> list[str]:
    """Names and what is said of them in two columns; where a word would not fit there, one below the
    other."""
    from cotenant.report.fold import folded, longest_word

    column = max(len(name) for name in rows)
    room = None if width is None else width - column - 4
    if room is not None and room < max(_LEAST_ROOM, longest_word(list(rows.values()))):
        return [line for name, text in rows.items() for line in (f"  {name}", *folded(text, width, " " * 4))]
    return [line for name, text in rows.items() for line in folded(text, width, f"  {name:<{column}}  ")]
