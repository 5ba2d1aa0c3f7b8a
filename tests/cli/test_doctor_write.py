"""`doctor --write FILE`: what cannot be written is said before the trial; it is whole or as it was."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cotenant.cli import doctor
from cotenant.conductor.doctor import try_services
from cotenant.conductor.doctor.try_services import Given, Outcome
from cotenant.errors import UserError

NOBODY = [Given(kind="speech", url="http://127.0.0.1:1")]


def _dangling(folder: Path) -> Path:
    path = folder / "link.yaml"
    path.symlink_to(folder / "not-yet.yaml")
    return path


def _loop(folder: Path) -> Path:
    path = folder / "loop.yaml"
    path.symlink_to(path)
    return path


def _into_nowhere(folder: Path) -> Path:
    path = folder / "far.yaml"
    path.symlink_to(folder / "no" / "x.yaml")
    return path


def _folder(folder: Path) -> Path:
    path = folder / "folder.yaml"
    path.mkdir()
    return path


def _below_a_file(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file" / "x.yaml"


@pytest.mark.parametrize(
    ("make", "force", "words"),
    [
        (lambda folder: folder / ("x" * 300 + ".yaml"), False, "File name too long; give another name"),
        (lambda folder: folder / ("x" * 300 + ".yaml"), True, "File name too long; give another name"),
        (lambda folder: folder / ("y" * 300) / "x.yaml", False, "there is no folder|File name too long"),
        (lambda folder: folder / "no" / "x.yaml", True, "there is no folder .*no; make it first"),
        (_below_a_file, False, "there is no folder"),
        (_dangling, False, "it is there already"),
        (_loop, False, "it is there already"),
        (_loop, True, "[Ss]ymlink|symbolic links"),
        (_into_nowhere, True, "there is no folder .*no; make it first"),
        (_folder, True, "it is there already"),
    ],
)
def test_before_anything_is_tried(
    make: Callable[[Path], Path], force: bool, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_arguments: object, **_more: object) -> Outcome:
        raise AssertionError("it was tried")

    monkeypatch.setattr(try_services, "try_services", never)
    with pytest.raises(UserError, match=words):
        doctor.try_them("all-together", NOBODY, [], make(tmp_path), force=force, as_json=False)


def _written(monkeypatch: pytest.MonkeyPatch, path: Path, *, force: bool = False) -> int:
    """With services that answered well."""
    outcome = Outcome(tried=(), text="name: x\n", base="tts-alone", builtin=(), started=())
    monkeypatch.setattr(try_services, "try_services", lambda *_arguments, **_more: outcome)
    return doctor.try_them("all-together", NOBODY, [], path, force=force, as_json=False)


@pytest.mark.parametrize("old", [None, "mine"])
def test_a_full_disk_leaves_what_was_there(
    old: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.yaml"
    if old is not None:
        path.write_text(old)

    def full(_handle: int, *_arguments: object, **_more: object) -> None:
        os.close(_handle)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdopen", full)
        with pytest.raises(UserError, match=r"--write: cannot write .*x\.yaml: No space left on device"):
            _written(monkeypatch, path, force=old is not None)
    assert [each.read_text() for each in tmp_path.iterdir()] == ([] if old is None else [old])


def test_it_is_written_through_a_link_that_may_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _dangling(tmp_path)
    assert _written(monkeypatch, path, force=True) == 0
    assert path.is_symlink()
    assert (tmp_path / "not-yet.yaml").read_text() == "name: x\n"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("-x.yaml", "./-x.yaml"),
        ("x.yaml", "x.yaml"),
        ("a b.yaml", "'a b.yaml'"),
        ("-a b.yaml", "'./-a b.yaml'"),
    ],
)
def test_the_command_that_runs_it(
    name: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _written(monkeypatch, Path(name)) == 0
    assert capsys.readouterr().err.endswith(f"wrote {name}: cotenant run {told}\n")
    assert (tmp_path / name).read_text() == "name: x\n"
