"""The end of a child's log, made safe to print: what a failed tenant said last."""

import os
import re
import unicodedata
from pathlib import Path
from typing import Final

from cotenant.tenants.failure import advice

_TAIL_BYTES: Final = 1 << 16
# As far back a line may begin: a half of one could begin with half of a secret.
_LINE_BYTES: Final = 1 << 20
_LINE_CHARS: Final = 300
# What a library of vLLM's prints at every exit, a page of it, behind the reason for that exit.
_NOISE_RE: Final = re.compile(
    r"nanobind: | - (?:leaked (?:instance|type|function|keep_alive) |\.\.\. skipped)|See https://nanobind"
)
# ECMA-48 control sequences, operating system commands (closed by BEL or ST) and two-character escapes.
_ESCAPE_RE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]")


def clean_line(line: str) -> str:
    """The line as a terminal would leave it standing, with no character that moves a cursor or hides text.

    It is whole: secrets are hidden in it before `shortened` cuts it.
    """
    line = _ESCAPE_RE.sub("", line).rstrip("\r").rsplit("\r", 1)[-1].replace("\t", " ")
    line = "".join(char for char in line if unicodedata.category(char) not in ("Cc", "Cf", "Zl", "Zp"))
    return line.rstrip()


def shortened(text: str) -> str:
    """A message with its lines of logs, which are indented, cut to 300 characters each."""
    return "\n".join(line[: _LINE_CHARS + 2] if line.startswith("  ") else line for line in text.split("\n"))


def last_lines(log: Path, count: int = 12) -> list[str]:
    """The last lines of a log that are not empty, cleaned; none where there is no log."""
    return _lines(_tail(log))[-count:]


def log_tail(log_dir: Path, name: str, count: int = 12) -> str:
    """The last lines of a tenant's logs (or one process's), to be put behind a sentence; or nothing.

    Before them what to do, where the log holds a failure that is known.
    """
    logs = [log_dir / f"{name}.log", *sorted(log_dir.glob(f"{name}@*.log"))]
    text = ""
    for log in logs:
        tail = _tail(log)
        if (why := advice(tail)) is not None:
            text += f"\n{log.stem}: {why}"
        if lines := _lines(tail)[-count:]:
            text += f"\n{log.stem} said last ({log}):\n" + "\n".join(f"  {line}" for line in lines)
    return text


def _tail(log: Path) -> str:
    """The last whole lines, 64 KiB or more of them."""
    try:
        with log.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            for length in (_TAIL_BYTES, _LINE_BYTES):
                file.seek(max(0, size - length))
                data = file.read(length)
                if size > length:
                    data = data.partition(b"\n")[2]
                if data.strip():
                    return data.decode(errors="replace")
    except OSError:
        pass
    return ""


def _lines(text: str) -> list[str]:
    return [line for line in map(clean_line, text.split("\n")) if line and _NOISE_RE.match(line) is None]
