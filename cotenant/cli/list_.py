"""`cotenant list`: what there is to choose from."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant.wire.protocols import ServiceProtocol
    from cotenant.wire.speech_servers import SpeechServer


def command() -> int:
    """Lists the packaged scenarios, the shapes, the protocols and the gate profiles."""
    print(overview())
    return 0


def overview() -> str:
    """The lists as text."""
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
    return "\n\n".join(f"{title}\n{_lines(rows)}" for title, rows in sections.items())


def _tried(table: Mapping[str, "ServiceProtocol"] | Mapping[str, "SpeechServer"]) -> dict[str, str]:
    return {
        name: f"{row.title}\n{'experimental, ' if row.experimental else ''}{row.tested}: {row.how_tested}"
        for name, row in table.items()
    }


def _joined(table: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {name: ", ".join(values) for name, values in table.items()}


def _lines(rows: Mapping[str, str]) -> str:
    width = max(len(name) for name in rows)
    indent = " " * (width + 4)
    return "\n".join(f"  {name:<{width}}  {text}".replace("\n", "\n" + indent) for name, text in rows.items())
