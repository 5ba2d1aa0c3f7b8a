"""`cotenant compare` and the files of `cotenant gate`: codes, and what is written where."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.by_hand import cotenant, write_run
from tests.verdict.recordings import good_run

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """A good one, and one that stutters in the crowd."""
    late = good_run(late_ms=1300.0, share=0.5)
    return write_run(good_run(), tmp_path / "good"), write_run(late, tmp_path / "late")


def test_codes_and_streams(runs: tuple[Path, Path], capsys: Capture) -> None:
    good, late = runs
    assert cotenant("compare", good, late, "--json") == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["verdict"] == "fail"
    assert "WORSE" in shown.err
    assert cotenant("compare", late, good) == 0
    assert capsys.readouterr().out == ""


def test_what_is_no_run(runs: tuple[Path, Path], tmp_path: Path, capsys: Capture) -> None:
    assert cotenant("compare", runs[0], tmp_path / "none") == 2
    assert "no such folder" in capsys.readouterr().err
    assert cotenant("compare", runs[0]) == 2


def test_gate_writes_junit_and_markdown(
    runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    junit, markdown, collected = (tmp_path / name for name in ("j.xml", "m.md", "summary"))
    for _ in range(2):
        assert cotenant("gate", runs[1], "--junit", junit, "--markdown", markdown) == 1
    assert ET.parse(junit).getroot().tag == "testsuites"
    text = markdown.read_text(encoding="utf-8")
    assert text.startswith("## FAIL")
    assert text.count("## FAIL") == 1
    # The job's summary belongs to all steps of the job.
    collected.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(collected))
    assert cotenant("gate", runs[1], "--markdown", collected, "--markdown", collected) == 1
    assert collected.read_text(encoding="utf-8") == "before\n" + text


def test_a_file_that_cannot_be_written(runs: tuple[Path, Path], tmp_path: Path, capsys: Capture) -> None:
    assert cotenant("gate", runs[1], "--junit", tmp_path / "none" / "j.xml") == 2
    assert "--junit: cannot write" in capsys.readouterr().err
