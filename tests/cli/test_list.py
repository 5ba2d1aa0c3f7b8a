"""`cotenant list`: every protocol with how it was tried, and a mark on those that never met their server."""

import pytest

from cotenant.cli.list_ import overview
from cotenant.scenario.vllm import MODEL_SHAPES
from cotenant.wire.protocols import FACES, LLMS, ServiceProtocol
from cotenant.wire.speech_servers import SERVERS, SpeechServer

TABLES: dict[str, dict[str, ServiceProtocol | SpeechServer]] = {
    "speech": {**SERVERS},
    "face": {**FACES},
    "completions": {**LLMS},
}


def section(kind: str) -> list[str]:
    """The lines of the protocols of a kind of tenant."""
    parts = overview().split("\n\n")
    (found,) = [part for part in parts if "protocols" in part.splitlines()[0] and f"kind: {kind}" in part]
    return found.splitlines()[1:]


@pytest.mark.parametrize("kind", TABLES)
def test_each_protocol_says_how_it_was_tried(kind: str) -> None:
    lines = section(kind)
    assert len(lines) == 2 * len(TABLES[kind])
    for (name, row), line, how in zip(TABLES[kind].items(), lines[::2], lines[1::2], strict=True):
        assert line.split("  ", 1)[1].startswith(name)
        assert line.strip().removeprefix(name).strip() == row.title
        mark = "experimental, " if row.experimental else ""
        assert how.strip() == f"{mark}{row.tested}: {row.how_tested}"


def test_what_met_nothing_of_others_is_marked() -> None:
    marked = {
        line.strip().split("  ")[0]
        for kind in TABLES
        for line, how in zip(section(kind)[::2], section(kind)[1::2], strict=True)
        if "experimental" in how
    }
    assert marked == {"vllm-omni", "vllm-omni-sse", "vllm-omni-socket", "sglang-omni", "mjpeg"}


def test_the_shapes_that_a_vllm_can_take_are_told() -> None:
    (part,) = [part for part in overview().split("\n\n") if part.startswith("vLLM shapes")]
    assert [line.split()[0] for line in part.splitlines()[1:]] == list(MODEL_SHAPES)
    assert "15.3 GiB of weights, 40,960 tokens at most" in part
