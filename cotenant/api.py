"""A recorded run from Python: its tables as pandas frames, its summary as typed objects."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow.compute as pc

from cotenant.errors import ExitCode, UserError
from cotenant.playback.options import PlayerOptions
from cotenant.records import TABLES, Recording
from cotenant.report.console import verdict_line
from cotenant.run_dir.reader import read, read_audio
from cotenant.scenario.load import read_gates
from cotenant.verdict.judging import player_options
from cotenant.verdict.options import JudgeOptions, read_options
from cotenant.verdict.plan import read_plan
from cotenant.verdict.summary import exit_code, judge
from cotenant.verdict.typed import Stage, Summary, summary_of
from cotenant.verdict.typed_shown import shown

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardUnderrun:
    """A silence of 1 ms or more inside an utterance; times in ns, `start_ns` of the monotonic clock.

    `media_ns`: where in the utterance; `since_previous_ns`: since the end of the one before (None: the
    first); `open`: it lasted until the stream was given up; `in_speech`: whether speech sounds within 20 ms
    of there, by the audio that was kept (None where none was, or it is not s16).
    """

    start_ns: int
    media_ns: int
    duration_ns: int
    since_previous_ns: int | None
    open: bool
    in_speech: bool | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Run:
    """A recorded run. It is judged, by `options`, when its summary is first asked for."""

    path: Path
    recording: Recording
    options: JudgeOptions

    @property
    def manifest(self) -> Mapping[str, Any]:
        """manifest.json."""
        return self.recording.manifest

    @property
    def player(self) -> PlayerOptions:
        """The player that this run is judged by."""
        return player_options(read_plan(self.recording), self.options)

    def table(self, name: str) -> "pd.DataFrame":
        """A table as recorded (see `cotenant.records.TABLES`): times in ns of the monotonic clock, missing
        integers as pandas' NA. Raises UserError for a name that is no table."""
        import pandas as pd

        if name not in TABLES:
            raise UserError(f"there is no table {name!r}; the tables are {', '.join(TABLES)}")
        nullable = {"int64": pd.Int64Dtype(), "int32": pd.Int32Dtype(), "bool": pd.BooleanDtype()}
        frame: pd.DataFrame = self.recording.tables[name].to_pandas(
            types_mapper=lambda kind: nullable.get(str(kind))
        )
        return frame

    def underruns(self, stream: int) -> tuple[HeardUnderrun, ...]:
        """The underruns of one voice, as the player that this run is judged by hears them.

        Raises UserError where there is no such voice.
        """
        import numpy as np

        from cotenant.playback.energy import in_speech
        from cotenant.report.listening import playback_of
        from cotenant.verdict import columns

        tables = self.recording.tables
        row = next((row for row in tables["streams"].to_pylist() if row["stream"] == stream), None)
        if row is None or row["kind"] != "voices":
            raise UserError(f"there is no voice {stream} in this run; run.table('streams') lists them")
        chunks = tables["chunks"]
        mine = chunks.filter(pc.equal(chunks["stream"], stream))
        heard = playback_of(row, columns.ints(mine, "arrival"), columns.ints(mine, "media"), self.player)
        if heard is None:
            return ()
        audio = read_audio(self.path, self.recording, stream) if row["sample_format"] == "s16" else None
        samples = None if audio is None else np.frombuffer(audio, dtype="<i2")
        return tuple(
            HeardUnderrun(
                start_ns=event.start_ns,
                media_ns=event.media_ns,
                duration_ns=event.duration_ns,
                since_previous_ns=event.since_previous_ns,
                open=event.open,
                in_speech=None if samples is None else in_speech(samples, row["rate_hz"], event.media_ns),
            )
            for event in heard.events
        )

    @functools.cached_property
    def summary(self) -> Summary:
        """The verdict. Raises UserError for gates that name no metric."""
        return summary_of(judge(self.recording, self.options))

    def stage(self, name: str) -> Stage:
        """A stage of the summary. Raises UserError, with the names that there are."""
        return self.summary.stage(name)

    def __repr__(self) -> str:
        """Where it is; once it has been judged, the verdict too."""
        judged = self.__dict__.get("summary")
        if judged is None:
            return shown("Run", str(self.path))
        word, because = verdict_line(judged.raw)
        return shown("Run", str(self.path), verdict=word, validity=judged.validity, because=because)

    @property
    def exit_code(self) -> ExitCode:
        """What `cotenant gate` would exit with."""
        return exit_code(self.summary.raw, self.options.inconclusive)


def open_run(
    path: str | Path,
    *,
    lookahead: str | None = None,
    start: Literal["prefill", "delay"] | None = None,
    after_underrun: Literal["resume", "refill", "drop"] | None = None,
    quantum: str | None = None,
    gates: Sequence[str] = (),
    decision: Literal["interval", "point"] | None = None,
    inconclusive: Literal["fail", "pass"] | None = None,
) -> Run:
    """The run recorded in a directory. It is only read.

    It is judged as its own scenario says, but for what is given: durations as text (`"400ms"`), gates as on
    the command line. Raises UserError for what is no run, and for a wrong duration.
    """
    options = read_options(
        lookahead=lookahead,
        start=start,
        after_underrun=after_underrun,
        quantum=quantum,
        gates=read_gates(gates),
        decision=decision,
        inconclusive=inconclusive,
    )
    return Run(path=Path(path), recording=read(Path(path)), options=options)
