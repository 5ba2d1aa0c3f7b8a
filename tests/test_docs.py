"""The README and the help: every command is in both."""

import re
from pathlib import Path

import pytest
import yaml

from cotenant.cli.app import COMMANDS, make_app
from cotenant.scenario.load import load
from cotenant.scenario.schema import PROTOCOLS

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_in_the_readme(name: str) -> None:
    assert re.search(rf"cotenant {name}\b", README.read_text(encoding="utf-8"))


def test_every_command_of_the_readme_exists() -> None:
    lines = re.findall(
        r"^\s*(?:\$ )?cotenant ([a-z]+)\b", README.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert lines
    assert set(lines) <= set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        make_app()([name, "--help"], prog_name="cotenant")
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert (COMMANDS[name].__doc__ or "").split()[0] in text
    assert "--help" in text


def test_every_command_has_a_file_of_its_own() -> None:
    modules = {function.__module__.rsplit(".", 1)[1].rstrip("_") for function in COMMANDS.values()}
    assert modules == set(COMMANDS)


def snippets(kind: str) -> list[dict[str, object]]:
    """The tenants of the README's tables: what stands in backticks and braces in the rows of that kind."""
    text = README.read_text(encoding="utf-8")
    table = text.split("| speech server |" if kind == "speech" else "| LLM server |")[1].split("\n\n")[0]
    return [yaml.safe_load(found) for found in re.findall(r"`(\{.*?\})`", table)]


@pytest.mark.parametrize(("kind", "name"), [("speech", "tts"), ("completions", "llm")])
def test_the_snippets_of_the_tables_are_tenants(kind: str, name: str, tmp_path: Path) -> None:
    found = snippets(kind)
    for number, snippet in enumerate(found):
        path = tmp_path / f"{number}.yaml"
        tenant = {"kind": kind, "engine": "attach", **snippet}
        path.write_text(yaml.safe_dump({"extends": "all-together", "tenants": {name: tenant}}))
        assert load(path.as_posix(), []).tenants[name].url == snippet["url"]
    assert len(found) == (9 if kind == "speech" else 3)


def test_every_speech_protocol_is_in_the_table() -> None:
    table = README.read_text(encoding="utf-8").split("| speech server |")[1].split("\n\n")[0]
    assert [name for name in PROTOCOLS["speech"] if not re.search(rf"\b{name}\b", table)] == []
