"""`cotenant list`: every protocol with how it was tried, and a mark on those that never met their server."""

from pathlib import Path

import pytest
import yaml

from cotenant.cli.app import make_app
from cotenant.cli.list_ import overview, scenario_text
from cotenant.resources import data_dir
from cotenant.scenario.load import load, packaged_names
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
    assert marked == {"mjpeg"}


@pytest.mark.parametrize("width", [None, 60])
@pytest.mark.parametrize("name", packaged_names())
def test_a_scenario_that_is_printed_is_that_scenario(name: str, width: int | None, tmp_path: Path) -> None:
    text = scenario_text(name, [], width)
    path = tmp_path / "printed.yaml"
    path.write_text(text)
    assert load(str(path)) == load(name)
    # A path that is longer than the terminal is wide is cut, wherever that is.
    comments = "".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("#"))
    assert comments.startswith(f"{data_dir('scenarios') / name}.yaml")


def test_a_scenario_is_printed_with_what_it_extends_and_what_is_set(tmp_path: Path) -> None:
    base, mine = tmp_path / "base.yaml", tmp_path / "mine.yaml"
    base.write_text("extends: all-together\nname: base\n")
    mine.write_text(
        "extends: base.yaml\nname: mine\ntenants:\n"
        "  tts: {engine: attach, url: 'http://h:1/?api_key=sk-0123456789abcdef0123', voice: a}\n"
    )
    text = scenario_text(str(mine), ["tenants.head=null", "seed=8"])
    whole = data_dir("scenarios") / "all-together.yaml"
    assert text.splitlines()[:4] == [
        f"# {mine}",
        f"# extends {base}",
        f"# extends {whole}",
        "# the load faces is removed with its tenant head",
    ]
    printed = yaml.safe_load(text)
    assert (printed["seed"], printed["tenants"]["tts"]["voice"]) == (8, "a")
    assert "head" not in printed["tenants"]
    assert "sk-0123" not in text


@pytest.mark.parametrize("arguments", [["--set", "seed=1"], ["tts-alone", "--fields", "--set", "seed=1"]])
def test_set_without_a_scenario(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        make_app()(["list", *arguments], prog_name="cotenant")
    assert ended.value.code == 2
    assert "--set changes a scenario that is printed; give its name" in capsys.readouterr().err


def test_the_shapes_that_a_vllm_can_take_are_told() -> None:
    (part,) = [part for part in overview().split("\n\n") if part.startswith("vLLM shapes")]
    assert [line.split()[0] for line in part.splitlines()[1:]] == list(MODEL_SHAPES)
    assert "15.3 GiB of weights, 40,960 tokens at most" in part
