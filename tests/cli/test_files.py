"""Files that a flag asks for: whole, where a link points to, and what is no file left as it is."""

import os
import stat
from pathlib import Path

import pytest

from cotenant.cli.files import write_whole
from cotenant.errors import UserError


def test_a_link_stays_one_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"before")
    (tmp_path / "link").symlink_to("file")
    write_whole("--html", tmp_path / "link", b"after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"after"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole("--wav", pipe, b"sound")
        assert os.read(reader, 100) == b"sound"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["no/file", "a\0b", "x" * 300])
def test_what_cannot_be_written_is_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="--html: cannot write"):
        write_whole("--html", tmp_path / name, b"")
    assert list(tmp_path.iterdir()) == []
