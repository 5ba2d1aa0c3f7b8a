"""Whether an MPS daemon runs already where a CUDA program that is started here would look for one."""

import errno
import os
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant.tenants.mps import CONTROL, PIPES

# https://docs.nvidia.com/deploy/mps/: where it is without CUDA_MPS_PIPE_DIRECTORY.
_DEFAULT_FOLDER: Final = Path("/tmp/nvidia-mps")
_CONNECT_LIMIT_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A daemon that is not ours; `pid` None where its folder does not tell."""

    folder: Path
    pid: int | None

    def __str__(self) -> str:
        return f"an MPS daemon runs already ({'' if self.pid is None else f'pid {self.pid}, '}{self.folder})"

    @property
    def how_to_end(self) -> str:
        """A command for a shell."""
        return f"echo quit | {PIPES}={self.folder} {CONTROL}"


def find_other(environ: Mapping[str, str], default: Path = _DEFAULT_FOLDER) -> Other | None:
    """The daemon that answers in the folder that `environ` names, or in the default one."""
    folder = Path(environ.get(PIPES) or default)
    if not _listens(folder / "control"):
        return None  # a daemon that has ended leaves its socket behind
    try:
        pid = int((folder / f"{CONTROL}.pid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        pid = None
    return Other(folder=folder, pid=pid)


def _listens(path: Path) -> bool:
    """Whether somebody holds the other end of a Unix socket, or of a named pipe as older drivers have it."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            return True
        if not stat.S_ISSOCK(mode):
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_CONNECT_LIMIT_S)
            probe.connect(os.fspath(path))
    except OSError as error:
        # A socket of another type is bound to it, or its queue is full (connect(2)).
        return error.errno in (errno.EPROTOTYPE, errno.EAGAIN) or isinstance(error, TimeoutError)
    return True
