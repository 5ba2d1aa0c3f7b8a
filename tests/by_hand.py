"""The command without a process, recordings by hand on disk, and all that lies in a folder."""

from pathlib import Path

import numpy as np
import pytest

from cotenant.cli.app import make_app
from cotenant.run_dir import manifest
from cotenant.run_dir.writer import RunWriter
from tests.verdict.recordings import Builder


def cotenant(*arguments: str | Path) -> int:
    """Runs a command here and now; its exit code."""
    with pytest.raises(SystemExit) as ended:
        make_app()([*map(str, arguments)], prog_name="cotenant")
    return int(ended.value.code or 0)


def write_run(builder: Builder, path: Path, *, audio: bool | None = None) -> Path:
    """The run directory of what was built. `audio` (None: the rows as they are): voices are s16 at 24 kHz,
    and a tone of theirs was kept or not."""
    manifest.write(path, dict(builder.build().manifest))
    writer = RunWriter(path, "listeners")
    for table, rows in builder.rows.items():
        for row in rows:
            kept = dict(row)
            if audio is not None and table == "streams" and kept["kind"] == "voices":
                kept |= {"rate_hz": 24000, "sample_format": "s16"}
            if audio and table == "chunks":
                samples = np.full(row["bytes"] // 2, 1000, dtype="<i2")
                kept["audio_offset"] = writer.append_audio(samples.tobytes())
            writer.append(table, **kept)
    writer.close()
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
