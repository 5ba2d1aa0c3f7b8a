"""Puts the fake `nvidia-cuda-mps-control` on a PATH."""

import sys
from pathlib import Path

from cotenant.tenants.mps import CONTROL

_FAKE = Path(__file__).with_name("fake_mps_control.py")


def install(folder: Path) -> Path:
    """A folder, made in `folder`, that holds nothing but the program."""
    found = folder / "bin"
    found.mkdir()
    program = found / CONTROL
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {_FAKE} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return found
