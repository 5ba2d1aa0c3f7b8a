"""summary.json of a run directory: what the run was judged to be when it ended."""

from pathlib import Path

from cotenant.errors import CouldNotRun

SUMMARY_NAME = "summary.json"


def write_summary(run_dir: Path, text: str) -> None:
    """Writes the summary's text. Raises CouldNotRun where the disk refuses: the recording itself is whole."""
    temporary = run_dir / f".{SUMMARY_NAME}"
    try:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        temporary.replace(run_dir / SUMMARY_NAME)
    except OSError as error:
        raise CouldNotRun(
            f"cannot write {run_dir / SUMMARY_NAME}: {error.strerror}; the recording is whole: free some "
            f"space, then judge it with `cotenant gate {run_dir}`"
        ) from None
