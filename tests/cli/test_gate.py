"""`cotenant gate` on a recorded run: codes, streams, and that the run stays as it is."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from cotenant.errors import ExitCode
from cotenant.run_dir import manifest
from cotenant.run_dir.summary_file import write_summary
from cotenant.verdict.summary import to_json
from tests.by_hand import contents, cotenant, write_run
from tests.verdict.recordings import Builder, good_run


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Two stages; in the crowd every second utterance has one chunk 1300 ms late."""
    builder = good_run(late_ms=1300.0, share=0.5, faces=False)
    builder.scenario["stages"][1:] = [{"name": "crowd", "load": ["voices", "decode"]}]
    return write_run(builder, tmp_path / "run")


def gate(*arguments: str | Path) -> int:
    return cotenant("gate", *arguments)


def test_another_lookahead_gives_another_verdict_and_the_run_stays(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(run_dir)
    clean = "speech.clean_share >= 95 %"
    assert gate(run_dir, "--decision", "point", "--gate", clean) == 1
    assert gate(run_dir, "--decision", "point", "--gate", clean, "--lookahead", "1500ms") == 0
    assert gate(run_dir, "--decision", "point", "--gate", "voice", "--lookahead", "1500ms") == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "crowd" in shown.err
    assert "\x1b" not in shown.err
    assert contents(run_dir) == before


def test_json_is_the_same_bytes_each_time_and_the_only_thing_on_stdout(
    run_dir: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    texts = []
    for _ in range(2):
        gate(run_dir, "--json", "--lookahead", "500ms")
        texts.append(capsysbinary.readouterr().out)
    assert texts[0] == texts[1]
    summary = json.loads(texts[0])
    assert (summary["schema"], summary["lookahead_ms"]) == (1, 500.0)
    assert [stage["name"] for stage in summary["stages"]] == ["alone", "crowd"]


def test_text_that_is_no_unicode_is_escaped(
    run_dir: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = run_dir / "manifest.json"
    facts = {**json.loads(path.read_bytes()), "run_id": "a\udc80"}
    manifest.write(run_dir, facts)
    assert json.loads(path.read_bytes())["run_id"] == "a\udc80"
    assert gate(run_dir, "--json", "--lookahead", "500ms") in (0, 1, 3, 4)
    out = capsysbinary.readouterr().out
    assert json.loads(out)["run_id"] == "a\udc80"
    write_summary(run_dir, to_json(json.loads(out)))
    assert (run_dir / "summary.json").read_bytes() == out


@pytest.mark.parametrize(("status", "word"), [("complete", "PASS"), ("interrupted", "INCONCLUSIVE")])
def test_the_markdowns_first_word_is_that_of_the_exit_code(status: str, word: str, run_dir: Path) -> None:
    path = run_dir / "manifest.json"
    manifest.write(run_dir, {**json.loads(path.read_bytes()), "status": status})
    shown = run_dir.parent / "m.md"
    flags = ["--decision", "point", "--lookahead", "1500ms", "--gate", "speech.clean_share >= 95 %"]
    assert gate(run_dir, *flags, "--markdown", shown) == ExitCode[word]
    assert shown.read_text().startswith(f"## {word}: ")


@pytest.mark.parametrize(("wish", "code"), [(None, 3), ("fail", 1), ("pass", 0)])
def test_what_cannot_be_decided_counts_as_asked(wish: str | None, code: int, run_dir: Path) -> None:
    flags = [] if wish is None else ["--inconclusive", wish]
    flags += ["--decision", "interval", "--lookahead", "2s"]
    assert gate(run_dir, "--gate", "speech.clean_share >= 95 %", *flags) == code  # 24 utterances: too few


@pytest.mark.parametrize(
    ("text", "told"),
    [("speech.clen_share >= 1", "clen_share"), ("voise", "voise"), ("speech.rtf.p95 <= x", "'x'")],
)
def test_a_gate_that_names_nothing_is_2(
    text: str, told: str, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(run_dir, "--gate", text) == 2
    assert told in capsys.readouterr().err


ERROR = "all 2 warm-up requests of 'voices' to the tenant 'tts' failed: unauthorized: HTTP 401\nsee its log"


def failed_run(builder: Builder, path: Path) -> Path:
    """The run as it lies there when it ended by an error."""
    run = write_run(builder, path)
    facts = json.loads((run / "manifest.json").read_bytes())
    manifest.write(run, {**facts, "status": "failed", "error": ERROR})
    return run


def judged(run: Path, *flags: str) -> tuple[int, str, ET.Element]:
    """The exit code, the Markdown, and the suite of JUnit."""
    shown, cases = run.parent / "m.md", run.parent / "j.xml"
    code = gate(run, "--decision", "point", "--markdown", shown, "--junit", cases, *flags)
    suite = ET.parse(cases).getroot().find("testsuite")
    assert suite is not None
    return code, shown.read_text(), suite


def test_a_run_that_never_started_could_not_run_and_its_error_is_the_headline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = Builder()
    builder.stream(1, tenant="tts", load="voices", kind="voices", stage="warm", listener=0, end="error")
    code, markdown, suite = judged(failed_run(builder, tmp_path / "run"), "--inconclusive", "pass")
    assert code == ExitCode.COULD_NOT_RUN
    told = " ".join(capsys.readouterr().err.split())
    assert "COULD NOT RUN all 2 warm-up requests" in told
    assert "HTTP 401 see its log" in told
    assert "measure longer" not in told
    assert "INVALID" not in told
    assert markdown.startswith("## COULD NOT RUN: by-hand\n")
    assert "- **all 2 warm-up requests" in markdown
    assert "no value" not in markdown
    (case,) = suite.findall("testcase")
    error = case.find("error")
    assert error is not None
    assert error.get("type") == "could_not_run"
    assert error.get("message") == ERROR.splitlines()[0]
    assert error.text == ERROR


def test_a_run_that_failed_midway_keeps_the_verdict_of_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = good_run(late_ms=1300.0, share=0.5)
    builder.rows["marks"] = [row for row in builder.rows["marks"] if row["name"] != "alone/again"]
    code, markdown, suite = judged(failed_run(builder, tmp_path / "bad"))
    assert code == ExitCode.FAIL
    note = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("note"))
    assert note.startswith("note   the run failed before its end")
    assert markdown.index("- **all 2 warm-up requests") < markdown.index("**FAIL**")
    first = suite.find("testcase")
    assert first is not None
    assert first.get("name") == "run"
    assert suite.get("failures") != "0"

    builder = good_run()
    builder.rows["marks"] = [row for row in builder.rows["marks"] if row["name"] == "alone"]
    code, _, suite = judged(failed_run(builder, tmp_path / "half"))
    assert code == ExitCode.INCONCLUSIVE
    told = " ".join(capsys.readouterr().err.split())
    assert "INCONCLUSIVE the run failed before all of it was measured: all 2 warm-up requests" in told
    assert "not measured" in told
    assert int(suite.get("errors") or 0) > 0
