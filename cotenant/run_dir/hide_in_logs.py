"""Makes secrets in a run's logs unreadable: servers print keys, and we know only when they have ended."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

_BLOCK_BYTES: Final = 1 << 20


def hide_in_logs(logs: Path, mask: Callable[[str], str]) -> list[Path]:
    """Overwrites in every log what `mask` changes, and gives the logs that it changed.

    `mask` gets whole lines as Latin-1 (a byte a character) and keeps their length, so that nothing moves: who
    still writes to the log may go on. Raises OSError.
    """
    changed = []
    for path in sorted(logs.rglob("*.log")):
        at, seen = 0, False
        with path.open("r+b") as file:
            while lines := b"".join(file.readlines(_BLOCK_BYTES)):
                masked = mask(lines.decode("latin-1")).encode("latin-1")
                if masked != lines:
                    assert len(masked) == len(lines), "a mask keeps the length"
                    file.seek(at)
                    file.write(masked)
                    seen = True
                at += len(lines)
                file.seek(at)
        if seen:
            changed.append(path)
    return changed
