"""Files that a flag asks for: put in their place whole, and the job's summary of a pipeline added to."""

import contextlib
import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cotenant.errors import UserError

STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"


def as_argument(path: Path) -> str:
    """A path as a shell's word that is no option."""
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


def write_text(flag: str, path: Path, text: str) -> None:
    """Writes `text` to the file that `flag` named. Raises UserError where that cannot be."""
    _write(flag, path, text, "w")


def write_markdown(flag: str, path: Path, text: str) -> None:
    """The same, but the file that a pipeline collects its summary in keeps what other steps wrote."""
    mode = "a" if _is_step_summary(path) else "w"
    _write(flag, path, text, mode)


def write_whole(flag: str | None, path: Path, data: bytes, *, follow: bool = True) -> None:
    """Puts a file in its place in one step; what was there stays until then. Raises UserError.

    A link stays one, and what is no file (/dev/stdout, a pipe) is written to. Without `follow` the file takes
    the place of whatever but a folder is there: for a path that nobody chose. `flag` None: no flag named it.
    """
    with _told(flag, path):
        if path.is_dir():
            raise UserError(_refused(flag, path, "it is a directory"))
        place = path.resolve() if follow else path
        if follow and path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name[:100]}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).chmod(0o666 & ~_umask())
            Path(temporary).replace(place)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise


def _is_step_summary(path: Path) -> bool:
    collected = os.environ.get(STEP_SUMMARY)
    if not collected or not path.exists():
        return False
    return Path(collected).exists() and path.samefile(collected)


def _write(flag: str, path: Path, text: str, mode: str) -> None:
    with _told(flag, path), path.open(mode, encoding="utf-8", newline="\n") as file:
        file.write(text)


@contextlib.contextmanager
def _told(flag: str | None, path: Path) -> Iterator[None]:
    """What the disk refuses, as a UserError."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(_refused(flag, path, reason)) from None


def _refused(flag: str | None, path: Path, reason: object) -> str:
    return f"cannot write {path} ({reason})" if flag is None else f"{flag}: cannot write {path}: {reason}"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
