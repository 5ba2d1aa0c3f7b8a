"""The scenario that `cotenant doctor --write` writes: whether it can be, and whole or not at all."""

import os
from pathlib import Path

from cotenant.cli.files import write_whole
from cotenant.errors import UserError
from cotenant.plain import one_line


def check_file(path: Path, *, force: bool) -> None:
    """Before anything is tried: whether the scenario can be written there. Raises UserError."""
    if path.suffix not in (".yaml", ".yml"):
        raise UserError(f"--write {one_line(path)}: a scenario's name ends in .yaml")
    try:
        there = os.path.lexists(path)
        if there and (not force or (path.exists() and not path.is_file())):
            raise UserError(f"--write {one_line(path)}: it is there already; give another name, or --force")
        # Of a link, the folder of what it leads to.
        folder = path.resolve().parent
        if not folder.is_dir():
            lacking = one_line(folder if there else path.parent)
            raise UserError(f"--write {one_line(path)}: there is no folder {lacking}; make it first")
        path.resolve().lstat()
    except FileNotFoundError:
        pass
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"--write {one_line(path)}: {reason}; give another name") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(
            f"--write {one_line(path)}: the folder {one_line(folder)} cannot be written to; give another one"
        )


def write_scenario(path: Path, text: str, *, force: bool) -> None:
    """Whole or not at all; what was there stays until then. Raises UserError."""
    check_file(path, force=force)  # somebody may have been there since
    write_whole("--write", path, text.encode())
