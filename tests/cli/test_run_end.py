"""How `cotenant run` ends once all is recorded: what Ctrl-C then leaves out, and what it does not change."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cotenant.cli import output, page_file
from cotenant.cli.run import RunOptions, run
from cotenant.conductor import prepare
from cotenant.conductor import run as conductor_run
from cotenant.run_dir import summary_file
from cotenant.verdict import summary as judging
from cotenant.verdict.options import JudgeOptions
from tests.by_hand import write_run
from tests.verdict.recordings import good_run

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _own_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: Patch) -> Path:
    """What the next run will have recorded: a crowd that stutters."""
    made = write_run(good_run(utterances=3, late_ms=1300.0, share=0.5), tmp_path / "a run")
    prepared: Any = SimpleNamespace(note=""), SimpleNamespace(note="")
    monkeypatch.setattr(prepare, "prepare", lambda *_, **__: prepared)
    recorded = conductor_run.Recorded(run_dir=made, status="complete")
    monkeypatch.setattr(conductor_run, "record", lambda *_, **__: recorded)
    return made


def end() -> int:
    """`run --json` from the end of the recording on."""
    point = JudgeOptions(decision="point")
    return run(RunOptions(scenario="", overrides=(), out=Path(), quick=False, judging=point, json=True))


def interrupt_in(monkeypatch: Patch, module: ModuleType, name: str, *, before: bool) -> None:
    """Ctrl-C right before or right after a function of that module does its work."""
    inner: Callable[..., Any] = getattr(module, name)

    def interrupted(*arguments: Any, **named: Any) -> Any:
        if before:
            signal.raise_signal(signal.SIGINT)
        found = inner(*arguments, **named)
        if not before:
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(module, name, interrupted)


@pytest.mark.parametrize(
    ("module", "name", "before"),
    [
        (summary_file, "write_summary", True),
        (summary_file, "write_summary", False),
        (output, "show_summary", True),
        (output, "print_summary_json", False),
        (page_file, "write_page", True),
    ],
)
def test_after_the_verdict_ctrl_c_costs_the_page_alone(
    run_dir: Path, monkeypatch: Patch, capsys: Capture, module: ModuleType, name: str, before: bool
) -> None:
    interrupt_in(monkeypatch, module, name, before=before)
    assert end() == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out) == json.loads((run_dir / "summary.json").read_text("utf-8"))
    assert "FAIL" in shown.err
    assert "note   the page was not written: interrupted; cotenant report '" in shown.err
    assert not (run_dir / "report.html").exists()


def test_before_the_verdict_ctrl_c_is_an_interruption_that_says_what_stays(
    run_dir: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    interrupt_in(monkeypatch, judging, "judge", before=True)
    assert end() == 130
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"interrupted before the verdict; what was recorded stays: cotenant gate '{run_dir}'" in shown.err
    assert not (run_dir / "summary.json").exists()


def test_undisturbed_it_writes_and_tells_all(run_dir: Path, capsys: Capture) -> None:
    assert end() == 1
    assert (run_dir / "report.html").exists()
    assert f"page   {run_dir / 'report.html'}" in capsys.readouterr().err


def test_a_second_ctrl_c_ends_at_once(run_dir: Path, monkeypatch: Patch) -> None:
    codes: list[int] = []
    monkeypatch.setattr("os._exit", codes.append)
    interrupt_in(monkeypatch, summary_file, "write_summary", before=True)
    interrupt_in(monkeypatch, output, "show_summary", before=True)
    end()
    assert codes == [130]
