"""Files that a flag asks for: written whole, and the job's summary of a pipeline added to."""

import os
from pathlib import Path

from cotenant.errors import UserError

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


def write_text(flag: str, path: Path, text: str) -> None:
    """Writes `text` to the file that `flag` named. Raises UserError where that cannot be."""
    _write(flag, path, text, "w")


def write_markdown(flag: str, path: Path, text: str) -> None:
    """The same, but the file that a pipeline collects its summary in keeps what other steps wrote."""
    mode = "a" if _is_step_summary(path) else "w"
    _write(flag, path, text, mode)


def write_bytes(flag: str, path: Path, data: bytes) -> None:
    """Writes `data` to the file that `flag` named. Raises UserError where that cannot be."""
    try:
        path.write_bytes(data)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{flag}: cannot write {path}: {reason}") from None


def _is_step_summary(path: Path) -> bool:
    collected = os.environ.get(STEP_SUMMARY)
    if not collected or not path.exists():
        return False
    return Path(collected).exists() and path.samefile(collected)


def _write(flag: str, path: Path, text: str, mode: str) -> None:
    try:
        with path.open(mode, encoding="utf-8", newline="\n") as file:
            file.write(text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{flag}: cannot write {path}: {reason}") from None
