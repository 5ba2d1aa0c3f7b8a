"""manifest.json: what a run was, written so that a reader sees the old text or the new one, never a half."""

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cotenant.errors import UserError
from cotenant.plain import one_line
from cotenant.records import SCHEMA_VERSION

MANIFEST_NAME = "manifest.json"
TOOL = "cotenant"
_OBJECTS: Final = ("anchor", "cores", "device", "observers", "tenants")
_MANY: Final = 1_000_000


def write(run_dir: Path, manifest: Mapping[str, Any]) -> None:
    """Replace the manifest of `run_dir` (made if it is not there) at once and durably.

    Raises OSError when the disk refuses (the old manifest then still stands), ValueError for what JSON cannot
    say.
    """
    text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    run_dir.mkdir(parents=True, exist_ok=True)
    temporary = run_dir / f".{MANIFEST_NAME}.{os.getpid()}"
    try:
        # A file name that is no UTF-8 is written as JSON's own escape.
        with temporary.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(run_dir / MANIFEST_NAME)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    folder = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(run_dir: Path) -> dict[str, Any]:
    """The manifest of a recorded run. Raises UserError if it is none that this version can read."""
    try:
        mode = run_dir.stat().st_mode
    except (FileNotFoundError, ValueError):
        raise UserError(
            f"{one_line(run_dir)}: no such folder; give the run directory that `cotenant run` printed"
        ) from None
    except OSError as error:
        raise UserError(f"{one_line(run_dir)} cannot be read: {error.strerror}") from None
    if not stat.S_ISDIR(mode):
        raise UserError(
            f"{one_line(run_dir)} is not a folder; give the run directory that `cotenant run` printed"
        )
    path = run_dir / MANIFEST_NAME
    try:
        # A pipe or a device may be there for ever without a byte to read, or without an end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(f"{one_line(path)} is damaged: it is not a file; the run has to be repeated")
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{one_line(run_dir)} is not a run directory: it has no {MANIFEST_NAME}") from None
    except OSError as error:
        raise UserError(f"{one_line(path)} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{one_line(path)} is damaged, it is not whole JSON ({error}); the run has to be repeated"
        ) from None
    if not isinstance(manifest, dict) or manifest.get("tool") != TOOL:
        raise UserError(
            f"{one_line(run_dir)} was not recorded by {TOOL}: {MANIFEST_NAME} names another tool or none"
        )
    _check_schema(run_dir, manifest.get("schema"))
    _check_forms(path, manifest)
    return manifest


def _check_forms(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raises UserError for what no version wrote; what an older one did not know is missing or null."""
    for key in _OBJECTS:
        if not isinstance(manifest.get(key) or {}, dict):
            raise UserError(
                f"{one_line(path)} is damaged: its {key} is no object; the run has to be repeated"
            )
    device = manifest.get("device") or {}
    for key in ("cpu_count", "machine_cpu_count"):
        if not isinstance(count := device.get(key) or 0, int) or not 0 <= count < _MANY:
            raise UserError(
                f"{one_line(path)} is damaged: its device.{key} is no number of cores; the run has to be "
                "repeated"
            )
    left_out = manifest.get("not_run") or []
    listed = isinstance(left_out, list) and all(isinstance(one, dict) for one in left_out)
    numbers = [manifest.get("looks"), *(one.get("round") for one in left_out)] if listed else [left_out]
    if any(one is not None and (type(one) is not int or not 0 <= one < _MANY) for one in numbers):
        raise UserError(
            f"{one_line(path)} is damaged: its looks or not_run are wrong; the run has to be repeated"
        )


def _check_schema(run_dir: Path, schema: object) -> None:
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise UserError(
            f"{run_dir / MANIFEST_NAME} is damaged: its schema is {schema!r}, not a number from 1 on"
        )
    if schema > SCHEMA_VERSION:
        raise UserError(
            f"{one_line(run_dir)} was recorded by a newer {TOOL} (schema {schema}, this one reads up to "
            f"{SCHEMA_VERSION}); upgrade with `pip install -U {TOOL}`"
        )
