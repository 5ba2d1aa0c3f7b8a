"""`--from MODULE:NAME`: what is found, and the one sentence where it is not."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant.errors import CotenantError, CouldNotRun, UserError
from cotenant.tenants.builtin import server, source, source_service
from tests.tenants.built_in import GENERATORS


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The working directory is one with the generators and some modules that cannot be imported."""
    (tmp_path / "generators.py").write_bytes((GENERATORS / "generators.py").read_bytes())
    (tmp_path / "needs_more.py").write_text("import no_such_dependency\n")
    asks = "from cotenant.errors import CouldNotRun\n"
    (tmp_path / "asks.py").write_text(asks + "raise CouldNotRun('pip install more')\n")
    made = "class Voice:\n    def __init__(self):\n        raise CouldNotRun('set MODEL to its folder')\n"
    (tmp_path / "asks_when_made.py").write_text(asks + made)
    (tmp_path / "raises.py").write_text("raise RuntimeError('the GPU is gone\\nsecond line')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield
    for name in ("generators", "needs_more", "raises", "asks", "asks_when_made"):
        sys.modules.pop(name, None)


def test_a_function_and_an_object_are_found() -> None:
    found = source.load("generators:say", "speech", batched=False)
    assert (found.name, found.rate_hz, found.batch) == ("generators:say", None, None)
    assert found.call.__doc__ == "Says each character; `break` breaks, `silence` says nothing."
    made = source.load("generators:Voice", "speech", batched=True)
    assert made.rate_hz == 16_000
    assert made.batch is not None
    assert source.load("generators:show", "face", batched=False).call is not None


@pytest.mark.parametrize(
    ("target", "kind", "error", "parts"),
    [
        ("generators", "speech", UserError, ["write MODULE:NAME"]),
        ("generators.py:say", "speech", UserError, ["my_module:generate for my_module.py"]),
        ("no_such:say", "speech", UserError, ["no module 'no_such'", "{cwd}", "PYTHONPATH"]),
        ("generators:sai", "speech", UserError, ["no 'sai' in generators", "did you mean 'say'?", "at_once"]),
        ("generators:Voice.rat", "speech", UserError, ["in generators.Voice", "did you mean 'rate'?"]),
        ("generators:number", "speech", UserError, ["it is int", "cannot be called", "(text, voice)"]),
        ("generators:too_few", "speech", UserError, ["takes (text: str)", "called with (text, voice)"]),
        ("generators:Broken", "speech", CouldNotRun, ["Broken() failed: OSError: no weights in ./models"]),
        (
            "generators:Wants",
            "speech",
            CouldNotRun,
            ["'folder'", "is a class, and is made without arguments"],
        ),
        ("needs_more:say", "speech", CouldNotRun, ["imports 'no_such_dependency'", "not installed for"]),
        ("raises:say", "speech", CouldNotRun, ["importing raises failed: RuntimeError: the GPU is gone"]),
    ],
)
def test_what_is_wrong_is_one_sentence(
    target: str, kind: str, error: type[CotenantError], parts: list[str]
) -> None:
    with pytest.raises(error) as raised:
        source.load(target, kind, batched=False)
    message = str(raised.value)
    for part in parts:
        assert part.format(cwd=Path.cwd()) in message
    assert "\n" not in message.split("; as in\n")[0]


def test_a_batch_needs_its_method() -> None:
    with pytest.raises(UserError, match=r"--batch needs a method batch\(texts, voices\)"):
        source.load("generators:say", "speech", batched=True)


@pytest.mark.parametrize("rate", [0, 24_000.5, "fast", float("nan"), 10**9])
def test_a_rate_that_is_none_is_refused(rate: object) -> None:
    with pytest.raises(UserError, match=r"--rate is .*whole number"):
        source.whole_rate(rate, "--rate")
    assert source.whole_rate(22_050.0, "--rate") == 22_050


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["completions", "--from", "a:b"], "for speech and face"),
        (["face", "--from", "a:b", "--rate", "16000"], "--rate is for speech"),
        (["face", "--from", "a:b", "--batch", "2"], "--batch is for speech"),
        (["speech", "--from", "a:b", "--batch", "2", "--workers", "2"], "leave one of them out"),
        (["speech", "--from", "a:b", "--rate", "7"], "whole number from"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: list[str], part: str) -> None:
    with pytest.raises(UserError, match=part):
        source_service.make(server.parse_arguments(arguments))


@pytest.mark.parametrize(
    ("target", "sentence"),
    [("asks:say", "pip install more"), ("asks_when_made:Voice", "set MODEL to its folder")],
)
def test_what_a_module_itself_says_that_it_needs_is_said_as_it_stands(target: str, sentence: str) -> None:
    with pytest.raises(CouldNotRun) as caught:
        source.load(target, "speech", batched=False)
    assert str(caught.value) == sentence
