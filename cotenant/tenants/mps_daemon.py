"""Runs an MPS daemon and removes the folder of its sockets at its end, however the conductor ended.

`python -m cotenant.tenants.mps_daemon FOLDER PROGRAM ARGUMENT ...`, a child of the reaper. TERM comes to the
whole group: this process lets the daemon end and ends as it did. Only the standard library is imported.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from typing import Final

# linux/prctl.h
_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    """Until the program ends; its exit code, or its signal."""
    folder, *argv = arguments
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    parent_pid = os.getpid()

    def prepare() -> None:
        # The daemon's server goes with the daemon on TERM; KILL would leave it behind.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent_pid:
            os._exit(1)

    try:
        code = subprocess.Popen(argv, preexec_fn=prepare).wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
