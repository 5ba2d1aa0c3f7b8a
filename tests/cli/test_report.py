"""`cotenant report` on a recorded run: what it writes, that the run stays, what it says where it cannot."""

import errno
import gzip
import json
import os
import shlex
import tempfile
import webbrowser
from pathlib import Path

import pytest

from cotenant.cli import page_file
from cotenant.cli.page_file import PAGE_NAME, read_template, write_page_of_run
from cotenant.run_dir.reader import read
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.summary import judge
from tests.by_hand import contents, cotenant, write_run
from tests.report.pages import unpacked
from tests.verdict.recordings import good_run


@pytest.fixture(autouse=True)
def few_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slider has positions enough in other tests."""
    monkeypatch.setattr("cotenant.report.page.data.what_if", lambda *_: None)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    builder = good_run(late_ms=1300.0, share=0.5, utterances=3, faces=False)
    return write_run(builder, tmp_path / "run", audio=True)


def report(*arguments: str | Path) -> int:
    return cotenant("report", *arguments)


def test_without_flags_the_page_is_all_that_changes(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(run_dir)
    assert report(run_dir) == 0
    page = run_dir / PAGE_NAME
    first = page.read_bytes()
    assert contents(run_dir) == {**before, PAGE_NAME: first}
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"page   {page}\n"
    assert report(run_dir) == 0
    assert page.read_bytes() == first
    assert len(first) < 9_000_000


def test_the_packaged_page_holds_the_run_and_the_sound_of_its_worst(run_dir: Path, tmp_path: Path) -> None:
    page = tmp_path / "there.html"
    assert report(run_dir, "--html", page) == 0
    assert not (run_dir / PAGE_NAME).exists()
    text = page.read_text(encoding="utf-8")
    assert "<!--cotenant:" not in text
    assert "http-equiv" in text
    data = unpacked(text)
    assert data["summary"] == json.loads(json.dumps(judge(read(run_dir), JudgeOptions())))
    worst = data["utterances"][0]
    assert worst["audio"].startswith("data:audio/wav;base64,UklGR")
    assert worst["text"]
    assert [entry["audio"] is not None for entry in data["utterances"]].count(True) == 8


def test_a_run_without_kept_audio_says_so(tmp_path: Path) -> None:
    run = write_run(good_run(utterances=2, faces=False), tmp_path / "mute", audio=False)
    assert report(run) == 0
    data = unpacked((run / PAGE_NAME).read_text(encoding="utf-8"))
    assert {entry["audio"] for entry in data["utterances"]} == {None}
    assert data["utterances"][0]["audio_why"] == "no audio was kept in this run"


def test_every_other_file(run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(run_dir)
    trace, wav, csv, parquet = (tmp_path / name for name in ("t.json.gz", "a/wav", "csv", "parquet"))
    assert report(run_dir, "--perfetto", trace, "--wav", wav, "--csv", csv, "--parquet", parquet) == 0
    assert contents(run_dir) == before
    assert json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    assert len([*wav.iterdir()]) == 18
    assert {path.suffix for path in csv.iterdir()} == {".csv"}
    assert {path.stem for path in parquet.iterdir()} == {path.stem for path in csv.iterdir()}
    assert "18 voices" in capsys.readouterr().err


def test_a_run_directory_that_cannot_be_written_names_no_flag_that_nobody_gave(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, before = tempfile.mkstemp, contents(run_dir)

    def refused(*, dir: Path, prefix: str) -> tuple[int, str]:
        if dir == run_dir:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(dir=dir, prefix=prefix)

    monkeypatch.setattr(tempfile, "mkstemp", refused)
    assert report(run_dir) == 2
    said = f"cannot write {run_dir / 'report.html'} (Permission denied); --html FILE writes it elsewhere"
    shown = " ".join(capsys.readouterr().err.split())
    assert said in shown
    assert "--html:" not in shown
    assert contents(run_dir) == before
    assert report(run_dir, "--html", tmp_path / "page.html") == 0


def test_what_cannot_be_written_is_one_sentence_and_leaves_nothing(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    before = contents(tmp_path)
    cases: list[tuple[list[str | Path], str]] = [
        (["--html", tmp_path / "no" / "page.html"], "--html: cannot write"),
        (["--html", tmp_path], "it is a directory"),
        (["--html", file / "page.html"], "Not a directory"),
        (["--wav", file], "--wav: cannot make the folder"),
        (["--csv", file / "in"], "--csv: cannot make the folder"),
        (["--perfetto", tmp_path / "no" / "t.gz"], "--perfetto: cannot write"),
    ]
    for arguments, said in cases:
        assert report(run_dir, *arguments) == 2
        shown = capsys.readouterr().err
        assert said in shown
        assert len(shown.splitlines()) == 1
    assert contents(tmp_path) == before


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_folder_that_may_not_be_written_to(
    number: int, run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(**_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "mkstemp", refused)
    assert report(run_dir) == 2
    assert os.strerror(number) in capsys.readouterr().err


def test_a_disk_that_fills_up_leaves_the_former_page(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_dir / PAGE_NAME).write_text("the former one")
    before = contents(run_dir)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    assert report(run_dir) == 2
    assert "No space left" in capsys.readouterr().err
    assert contents(run_dir) == before


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe"])
def test_what_lies_at_the_page_in_a_foreign_run_is_replaced_and_not_followed(
    run_dir: Path, tmp_path: Path, kind: str
) -> None:
    page, victim = run_dir / PAGE_NAME, tmp_path / "victim"
    if kind == "pipe":
        os.mkfifo(page)
    else:
        page.symlink_to(victim)
    if kind == "link":
        victim.write_text("precious")
    assert report(run_dir) == 0
    assert page.is_file()
    assert not page.is_symlink()
    assert victim.read_text() == "precious" if kind == "link" else not victim.exists()


def test_what_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(tmp_path / "nothing") == 2
    assert report(tmp_path) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def test_open_asks_a_browser_and_says_where_there_is_none(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def opened(address: str) -> bool:
        asked.append(address)
        return len(asked) == 1

    monkeypatch.setattr(webbrowser, "open", opened)
    assert report(run_dir, "--open") == 0
    assert asked == [(run_dir / PAGE_NAME).resolve().as_uri()]
    (run_dir / PAGE_NAME).unlink()
    capsys.readouterr()
    assert report(run_dir, "--open") == 0
    page, note = capsys.readouterr().err.splitlines()
    assert page == f"page   {run_dir / PAGE_NAME}"
    assert note.startswith("note   --open: no browser can be started here; open ")
    assert str(run_dir / PAGE_NAME) in note
    assert (run_dir / PAGE_NAME).exists()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("runs/run", "runs/run"),
        ("-my run", "'./-my run'"),
        (".", "{here}"),
        ("{here}/run", "{here}/run"),
        ("a\nb", "RUN"),
    ],
)
def test_the_commands_in_the_page_name_the_run_as_this_one_did(
    given: str, shown: str, run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / given.format(here=tmp_path / "there")
    if given == ".":
        run = tmp_path / "there"
    run.parent.mkdir(exist_ok=True)
    run_dir.rename(run)
    monkeypatch.chdir(run if given == "." else tmp_path)
    page = tmp_path / "elsewhere.html"
    argument = f"./{given}" if given.startswith("-") else given.format(here=tmp_path / "there")
    assert report(argument, "--html", page) == 0
    data = unpacked(page.read_text(encoding="utf-8"))
    assert data["run"]["argument"] == shown.format(here=tmp_path / "there")


def test_a_page_that_cannot_be_written_is_a_note_at_the_end_of_a_run(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = read(run_dir)
    summary = judge(recording, JudgeOptions())
    (run_dir / PAGE_NAME).mkdir()
    write_page_of_run(run_dir, recording, summary, JudgeOptions())
    told = capsys.readouterr().err
    assert f"note   the page was not written: cannot write {run_dir / PAGE_NAME}: it is a directory" in told
    assert told.endswith("; cotenant report " + shlex.quote(str(run_dir)) + " writes it\n")

    def full(*_arguments: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "mkstemp", full)
        (run_dir / PAGE_NAME).rmdir()
        write_page_of_run(run_dir, recording, summary, JudgeOptions())
    assert f"{PAGE_NAME}: No space left on device; cotenant report" in capsys.readouterr().err

    def broken(_: str) -> None:
        raise RuntimeError("our own fault")

    monkeypatch.setattr(page_file, "read_template", broken)
    write_page_of_run(run_dir, recording, summary, JudgeOptions())
    assert "note   the page could not be written: RuntimeError: our own fault" in capsys.readouterr().err


def test_the_templates_name_only_files_that_are_there() -> None:
    for name in ("page.html", "compare.html"):
        template = read_template(name)
        assert template.plotly.lstrip().startswith("/**")
        for line in template.page.splitlines():
            if "<!--cotenant:s" in line:
                assert line.split()[1].removesuffix("-->") in template.files
