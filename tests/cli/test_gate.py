"""`cotenant gate` on a recorded run: codes, streams, and that the run stays as it is."""

import json
from pathlib import Path

import pytest

from cotenant.errors import ExitCode
from cotenant.run_dir import manifest
from cotenant.run_dir.summary_file import write_summary
from cotenant.verdict.summary import to_json
from tests.by_hand import contents, cotenant, write_run
from tests.verdict.recordings import good_run


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
