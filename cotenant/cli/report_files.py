"""What `cotenant report` writes beside the page: the trace, the sound, the tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cotenant.cli.files import write_whole
from cotenant.errors import UserError

if TYPE_CHECKING:
    from cotenant.playback.options import PlayerOptions
    from cotenant.records import Recording
    from cotenant.verdict.options import JudgeOptions


def write_perfetto(recording: "Recording", judging: "JudgeOptions", path: Path) -> None:
    """Writes the trace. Raises UserError where the file cannot be written."""
    from cotenant.report.perfetto import trace

    write_whole("--perfetto", path, trace(recording, _player(recording, judging)))


def write_wavs(run_dir: Path, recording: "Recording", judging: "JudgeOptions", folder: Path) -> str:
    """Writes every voice that has sound as it was heard; says how many, and why the others have none."""
    from cotenant.report.audio import NoSound, wav_files
    from cotenant.run_dir.reader import read_audio
    from cotenant.units import counted

    make_folder("--wav", folder)
    player, lacking, written = _player(recording, judging), dict[str, int](), 0
    for name, found in wav_files(recording, player, lambda stream: read_audio(run_dir, recording, stream)):
        if isinstance(found, NoSound):
            lacking[found.why] = lacking.get(found.why, 0) + 1
            continue
        write_whole("--wav", folder / name, found)
        written += 1
    return "; ".join(
        [counted(written, "voice"), *(f"{count} without: {why}" for why, count in lacking.items())]
    )


def write_tables(
    run_dir: Path,
    recording: "Recording",
    judging: "JudgeOptions",
    folder: Path,
    kind: Literal["csv", "parquet"],
) -> str:
    """Writes every table as a file of that kind; says how many. Raises UserError."""
    from cotenant.report.exports import csv_files, parquet_files
    from cotenant.run_dir.reader import read_audio

    make_folder(f"--{kind}", folder)
    files, written = {"csv": csv_files, "parquet": parquet_files}[kind], 0
    player = _player(recording, judging)
    for name, data in files(recording, player, lambda stream: read_audio(run_dir, recording, stream)):
        write_whole(f"--{kind}", folder / name, data)
        written += 1
    return f"{written} tables"


def make_folder(flag: str, folder: Path) -> None:
    """Makes the folder where there is none. Raises UserError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{flag}: cannot make the folder {folder}: {reason}") from None


def _player(recording: "Recording", judging: "JudgeOptions") -> "PlayerOptions":
    from cotenant.verdict.judging import player_options
    from cotenant.verdict.plan import read_plan

    return player_options(read_plan(recording), judging)
