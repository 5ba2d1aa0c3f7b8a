"""A recorded run from Python: its tables as pandas frames, its summary as typed objects."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cotenant.errors import ExitCode, UserError
from cotenant.records import TABLES, Recording
from cotenant.run_dir.reader import read
from cotenant.verdict.options import JudgeOptions, read_options
from cotenant.verdict.summary import exit_code, judge
from cotenant.verdict.typed import Stage, Summary, summary_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Run:
    """A recorded run. It is judged, by `options`, when its summary is first asked for."""

    path: Path
    recording: Recording = field(repr=False)
    options: JudgeOptions

    @property
    def manifest(self) -> Mapping[str, Any]:
        """manifest.json."""
        return self.recording.manifest

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

    @functools.cached_property
    def summary(self) -> Summary:
        """The verdict. Raises UserError for gates that name no metric."""
        return summary_of(judge(self.recording, self.options))

    def stage(self, name: str) -> Stage:
        """A stage of the summary. Raises KeyError, with the names that there are."""
        return self.summary.stage(name)

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
        gates=gates,
        decision=decision,
        inconclusive=inconclusive,
    )
    return Run(path=Path(path), recording=read(Path(path)), options=options)
