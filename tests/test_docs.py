"""The README and the help: every command is in both."""

import re
from pathlib import Path

import pytest

from cotenant.cli.app import COMMANDS, make_app

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
